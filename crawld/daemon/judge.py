"""What an answer says about a page: pure, so that a verdict can be tested without a server."""

from dataclasses import dataclass, replace

from crawld.content.change import Comparison, compare, remember
from crawld.content.digest import digest
from crawld.content.rules import DigestRule
from crawld.model.crawl import Digest, Memory, Verdict
from crawld.model.fetched import Fetched, FetchFailed, Redirected
from crawld.model.page import PageState

GONE_STATUSES = frozenset({404, 410})
GONE_DIGEST = Digest(raw=b"gone")
ALWAYS_CHANGING = 4
"""So many changes in a row make a page worth a second look a few seconds later."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with what follows from it. `memory` is None where what we remember stays as it is."""

    verdict: Verdict
    state: PageState
    memory: Memory | None = None
    body: bytes | None = None
    magnitude: float | None = None
    reverted: bool = False
    trouble: str | None = None
    detail: str | None = None


def judge(
    page_id: int, at: float, outcome: Fetched | Redirected | FetchFailed, memory: Memory | None, rule: DigestRule
) -> Judgement:
    """Compare an answer with what is remembered. Failures say nothing about change and forget nothing."""
    state_if_failed = PageState.FAILING
    if not isinstance(outcome, Fetched):
        trouble = outcome.trouble.value if isinstance(outcome, FetchFailed) else "too_many_redirects"
        detail = outcome.detail if isinstance(outcome, FetchFailed) else f"last to {outcome.location}"
        return Judgement(Verdict.FAILED, state_if_failed, trouble=trouble, detail=detail)
    if outcome.status in GONE_STATUSES:
        return _gone(page_id, at, memory)
    if outcome.status == 304:
        if memory is None:
            return Judgement(
                Verdict.FAILED, state_if_failed, trouble="protocol", detail="304 without a conditional request"
            )
        calmed = replace(memory, streak=0) if memory.streak else None
        return Judgement(Verdict.UNCHANGED, PageState.LIVE, calmed, magnitude=0.0)
    return _content(page_id, at, outcome, memory, rule)


def _gone(page_id: int, at: float, memory: Memory | None) -> Judgement:
    """A page that is not there is known as well as any other: gone when first seen so, unchanged while it stays so."""
    if memory is None:
        return Judgement(Verdict.GONE, PageState.GONE, memory=Memory(page_id, at, GONE_DIGEST))
    if memory.digest == GONE_DIGEST:
        return Judgement(Verdict.UNCHANGED, PageState.GONE, magnitude=0.0)
    gone = remember(memory, GONE_DIGEST, Comparison(changed=True), at)
    return Judgement(Verdict.GONE, PageState.GONE, memory=replace(gone, etag=None, last_modified=None), magnitude=1.0)


def _content(page_id: int, at: float, outcome: Fetched, memory: Memory | None, rule: DigestRule) -> Judgement:
    content_type = outcome.headers.get("content-type")
    seen = digest(outcome.body, content_type, rule, memory.digest if memory else None)
    etag, last_modified = outcome.headers.get("etag"), outcome.headers.get("last-modified")
    if memory is None:
        first = Memory(page_id, at, seen, etag, last_modified, content_type)
        return Judgement(Verdict.NEW, PageState.LIVE, memory=first, body=outcome.body)
    validators_kept = etag == memory.etag and last_modified == memory.last_modified
    if seen is memory.digest and validators_kept and content_type == memory.content_type and _calm(memory):
        return Judgement(Verdict.UNCHANGED, PageState.LIVE, magnitude=0.0)  # the very answer of last time
    found = compare(memory, seen, rule)
    kept = remember(memory, seen, found, at)
    kept = replace(kept, etag=etag, last_modified=last_modified, content_type=content_type)
    return Judgement(
        Verdict.CHANGED if found.changed else Verdict.UNCHANGED,
        PageState.LIVE,
        memory=kept if found.changed else _news(memory, kept),
        body=outcome.body if found.changed else None,
        magnitude=found.magnitude,
        reverted=found.reverted,
    )


def _calm(memory: Memory) -> bool:
    """Whether nothing that is remembered waits for a page to stay as it is."""
    return memory.streak == 0 and not memory.volatile


def _news(before: Memory, after: Memory) -> Memory | None:
    """What to remember of an unchanged page: nothing, in the common case that only the time has gone on."""
    return None if replace(after, fetched_at=before.fetched_at) == before else after
