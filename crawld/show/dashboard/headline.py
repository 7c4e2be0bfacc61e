"""How fresh the copy is, in one sentence, or that crawling has stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.model.page import PageState
from crawld.model.troubles import Trouble
from crawld.model.units import many
from crawld.show.dashboard.forecasts import Expected
from crawld.show.dashboard.words import share
from crawld.store.views import Overview

FIRST_ROUND = 0.1
"""Share of the pages without a copy from which on it is the first round that matters, not freshness."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The sentence, what continues it, and whether it says that crawling has stopped against the operator's will."""

    sentence: str
    more: str = ""
    stopped: bool = False


def headline(
    status: Mapping[str, Any], overview: Overview, expected: Expected | None, troubles: Sequence[Trouble] = ()
) -> Headline:
    """What matters most now.

    1. Nothing can be written: crawling has stopped, and why.
    2. There are no pages.
    3. The operator has paused it, or set a rate of 0.
    4. The first round goes on.
    5. How fresh the copy is now; in the long run, how fresh it would be with crawld and with round robin.
    """
    fresh, pages, waiting = status["predicted_freshness"], overview.pages, overview.states.get(PageState.WAITING, 0)
    if not status["store"]["healthy"]:
        why = next((trouble.sentence for trouble in troubles if trouble.kind == "store"), "the store cannot write")
        return Headline("Crawling has stopped.", f"{why[:1].upper()}{why[1:]}.", stopped=True)
    if pages == 0 or fresh is None:
        return Headline("There are no pages yet.", "Add some under Pages, with `crawld urls add URL…`, or as a list.")
    current = f"{share(fresh)} of what you care about is current."
    if status["paused"]:
        return Headline("Crawling is paused.", f"{current} `crawld resume` goes on.")
    if status["bandwidth"] == 0:
        return Headline("The bandwidth is 0: nothing is crawled.", current)
    if waiting == pages:
        return Headline("Nothing is fetched yet.", f"{many(pages, 'page')} on the list; each is fetched once first.")
    if waiting > FIRST_ROUND * pages:
        fetched = f"{pages - waiting:,} of {pages:,} pages are fetched."
        return Headline(fetched, "The first round goes on; a page without a copy counts as stale.")
    if expected is None:
        return Headline(current)
    long_run = f"about {share(expected.ours)} with crawld, about {share(expected.round_robin)} with round robin"
    return Headline(current, f"Expected in the long run at this rate: {long_run}.")
