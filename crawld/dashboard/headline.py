"""How fresh the copy is, in one sentence."""

from crawld.dashboard.forecasts import Expected
from crawld.dashboard.words import share
from crawld.interfaces.read_model import Overview
from crawld.model.page import PageState
from crawld.model.units import many

FIRST_ROUND = 0.1
"""Share of the pages without a copy from which on it is the first round that matters, not freshness."""


def headline(fresh: float | None, overview: Overview, expected: Expected | None) -> tuple[str, str]:
    """The sentence, and what continues it: what plain round robin would hold at the same rate, where that is known."""
    pages, waiting = overview.pages, overview.states.get(PageState.WAITING, 0)
    if pages == 0 or fresh is None:
        return "There are no pages yet.", "Add some with `crawld urls add URL…` or a list (`urls` in the settings)."
    if waiting == pages:
        return "Nothing is fetched yet.", f"{many(pages, 'page')} on the list; each is fetched once first."
    if waiting > FIRST_ROUND * pages:
        fetched = f"{pages - waiting:,} of {pages:,} pages are fetched."
        return fetched, "The first round goes on; a page without a copy counts as stale."
    sentence = f"{share(fresh)} of what you care about is current"
    if expected is None:
        return f"{sentence}.", ""
    even = share(expected.round_robin)
    if expected.round_robin < fresh:
        return f"{sentence}; round robin would hold about {even}.", ""
    ours = share(expected.ours)
    return f"{sentence}.", f"In the long run crawld comes to about {ours} at this rate, round robin to about {even}."
