"""Why a page is not crawled, as far as the database tells: its state, and how its host may be asked."""

from collections.abc import Iterator

from crawld.model.page import PageState
from crawld.model.why import Reason, Why

BY_STATE = {
    PageState.DISALLOWED: Why.DISALLOWED,
    PageState.GONE: Why.GONE,
    PageState.FAILING: Why.FAILING,
}


def stored_reasons(
    state: PageState, now: float, *, blocked: bool, asked_until: float, blocked_until: float
) -> Iterator[Reason]:
    """Reasons that the rows of the page and its host give."""
    if blocked:
        yield Reason(Why.HOST_BLOCKED)
    elif asked_until > now:
        yield Reason(Why.HOST_ASKED_TO_WAIT, blocked_until)
    elif blocked_until > now:
        yield Reason(Why.HOST_BACKOFF, blocked_until)
    if state in BY_STATE:
        yield Reason(BY_STATE[state])
