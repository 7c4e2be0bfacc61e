"""Why a page is not crawled just now, from the daemon's word where it answers and from the database."""

from collections.abc import Iterator
from typing import Any

from crawld.cli.remote import Answer
from crawld.model.errors import CrawldError
from crawld.model.page import PageState
from crawld.model.units import format_moment
from crawld.model.why import Reason, Why, most_decisive_first, stored_reasons

TROUBLED = frozenset({Why.FAILING, Why.HOST_BACKOFF, Why.HOST_ASKED_TO_WAIT})
"""Reasons that the trouble of the last attempt explains."""


def unknown_page(url: str) -> CrawldError:
    """That nothing is known of a page, and what to do about it."""
    return CrawldError(f"{url} is not known here. `crawld urls list` shows what is, `crawld urls add` adds it.")


def explained(page: dict[str, Any], answer: Answer, now: float) -> dict[str, Any]:
    """`reason`, `why_not_now` and all `reasons`, the most decisive first; and the `trouble` of the last attempt."""
    trouble = last_trouble(page, now)
    if answer.said is None:
        found = [reason.document(now) for reason in most_decisive_first(_from_database(page, answer, now))]
    else:
        found = [dict(reason) for reason in answer.said["reasons"]]
    for reason in found:
        reason["sentence"] += _evidence(page, Why(reason["reason"]), trouble, now)
    return {
        "reason": found[0]["reason"],
        "why_not_now": found[0]["sentence"],
        "reasons": found,
        "trouble": trouble,
    }


def _from_database(page: dict[str, Any], answer: Answer, now: float) -> Iterator[Reason]:
    """What can be told without the daemon; there is always a reason."""
    if page["state"] == PageState.RETIRED.value:
        at = page["retired_at"]
        yield Reason(Why.RETIRED, detail="" if at is None else f" at {format_moment(at, now)}")
    if answer.state == "not_running":
        yield Reason(Why.NOT_RUNNING)
    elif answer.state == "not_answering":
        yield Reason(Why.NOT_ANSWERING, detail="" if answer.pid is None else f" (pid {answer.pid})")
    elif page["state"] != PageState.RETIRED.value:
        yield Reason(Why.NOT_LOADED)
    host = page["host_in_trouble"]
    waits = {name: host[name] for name in ("blocked", "asked_until", "blocked_until")}
    yield from stored_reasons(PageState(page["state"]), now, **waits)


def last_trouble(page: dict[str, Any], now: float) -> str | None:
    """How the last attempt went wrong, None where it did not."""
    latest = page["last_crawls"][0] if page["last_crawls"] else None
    if latest is None or latest["trouble"] is None:
        return None
    kind, detail = latest["trouble"], latest["detail"] or ""
    said = detail if detail.startswith(kind) else f"{kind}: {detail}" if detail else kind
    return f"{said}, {format_moment(latest['at'], now)}"


def _evidence(page: dict[str, Any], why: Why, trouble: str | None, now: float) -> str:
    """What the database adds to a reason."""
    since = page.get("gone_since") or page["last_change_at"]
    if why is Why.GONE and since is not None:
        return f"; gone since {format_moment(since, now)}"
    if why is Why.ALIAS and page["alias_why"] is not None:
        return f": {page['alias_why']}"
    return f" (last trouble: {trouble})" if why in TROUBLED and trouble is not None else ""
