"""What an answer says about a page: pure, so that a verdict can be tested without a server."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from crawld.model.crawl import Digest, HostNoise, Memory, Verdict
from crawld.model.fetched import GONE_STATUSES, Fetched, FetchFailed, Redirected, Trouble
from crawld.model.page import PageState
from crawld.read.change.comparison import (
    NO_NOISE,
    Comparison,
    compare,
    learn_pair,
    noisy_keys,
    prepare,
    remember,
    share_changed,
)
from crawld.read.change.frame import HostFrame
from crawld.read.change.volatile import LIMITS as VOLATILE_LIMITS
from crawld.read.change.volatile import Doubt, awaits_pair, comes_back, half_proven, times_varied, varied_in_words
from crawld.read.page.digest import Prepared, Reading, read_body
from crawld.read.page.head import read_head
from crawld.read.page.rules import DigestRule


@dataclass(frozen=True)
class JudgeLimits:
    """Numbers that bound and tune this module."""

    max_letters_in_place: int = 2_000
    """Letters that are taken apart into words on the event loop: each may take two microseconds."""
    second_looks: frozenset[int] = frozenset({2, 4, 6, 9, 12, 14})
    """After so many differences in one place a page is fetched twice, to learn whether they are noise,"""
    second_look_streaks: frozenset[int] = frozenset({24, 48, 96, 192, 384})
    """and where that did not help, after so many changes in a row."""
    pair_seconds: float = 2.0
    pair_share: float = 0.05
    """Two fetches are a pair where they lie this close together, or within this share of the time between visits.

    In a longer time the page may well have changed."""


LIMITS = JudgeLimits()


GONE_DIGEST = Digest(raw=b"gone")


class Judgement(NamedTuple):  # one is made for every visit: a tuple is the cheapest form
    """The verdict with what follows from it. `memory` is None where what we remember stays as it is."""

    verdict: Verdict
    state: PageState
    memory: Memory | None = None
    body: bytes | None = None
    magnitude: float | None = None
    reverted: bool = False
    trouble: str | None = None
    detail: str | None = None
    seen: Digest | None = None  # what the answer was, where it was a page
    frame_lost: tuple[int, ...] = ()  # blocks of the host's frame that the page no longer shows
    frame_gained: tuple[int, ...] = ()
    frame_presumed: bool = False  # other pages have yet to show the same
    noisy: frozenset[int] = frozenset()  # blocks of which times and counters do not count
    if_edited: "Judgement | None" = None  # what holds where a pair of fetches shows that what seemed noise is an edit


def judge(
    page_id: int,
    at: float,
    outcome: Fetched | Redirected | FetchFailed,
    memory: Memory | None,
    rule: DigestRule,
    reading: Reading | None = None,
    frame: HostFrame | None = None,
    noise: HostNoise | None = None,
) -> Judgement:
    """Compare an answer with what is remembered. Failures say nothing about change and forget nothing.

    `reading` is what `read` made of the answer, where that was done before; `frame` is what its host's pages share.
    `noise` is what varies on them: as it was given where the answer was read in another process.
    """
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
        if frame is not None and frame.owes_a_change(page_id):
            return Judgement(Verdict.CHANGED, PageState.LIVE, replace(memory, streak=memory.streak + 1), magnitude=0.0)
        calmed = replace(memory, streak=0) if memory.streak else None
        return Judgement(Verdict.UNCHANGED, PageState.LIVE, calmed, magnitude=0.0)
    reading = reading or read(outcome, memory, rule, at)
    if memory is None:
        return _new(page_id, at, outcome, reading)
    if frame is not None and (failed := _error_page(memory, reading.digest, frame, at)) is not None:
        return failed
    if noise is None:
        noise = NO_NOISE if frame is None or reading.prepared is not None else frame.noise
    return _content(at, outcome, memory, rule, reading, frame, noise)


def read(outcome: Fetched, memory: Memory | None, rule: DigestRule, at: float, raw: bytes | None = None) -> Reading:
    """Read an answer's body: the part of judging that takes time, and can be done elsewhere."""
    known = memory.digest if memory is not None else None
    return read_body(outcome.body, outcome.headers.get("content-type"), rule, known, at, raw)


def read_apart(
    url: str,
    body: bytes,
    content_type: str | None,
    memory: Memory | None,
    rule: DigestRule,
    at: float,
    noise: HostNoise = NO_NOISE,
) -> Reading:
    """Read a body in another process: all that judging needs of it comes back, and none of its texts."""
    reading = read_body(body, content_type, rule, memory.digest if memory is not None else None, at)
    if memory is not None and comparable(memory, rule):
        prepared = prepare(memory, reading, rule, at, noise)
    else:
        prepared = Prepared(tuple(map(len, reading.texts)), 0, {})
    return Reading(reading.digest, prepared=prepared, head=read_head(body, url))


def is_simple(reading: Reading, memory: Memory | None) -> bool:
    """Tells whether a reading with its texts can be compared in a few milliseconds, by what has to be taken apart."""
    if memory is None:
        return True
    known = () if memory.places else set(memory.digest.blocks)
    letters = (len(text) for block, text in zip(reading.digest.blocks, reading.texts) if block not in known)
    return sum(letters) <= LIMITS.max_letters_in_place


def comparable(memory: Memory, rule: DigestRule) -> bool:
    """Tells whether what is remembered was digested in the way the rule has it today."""
    return memory.digest.scheme == rule.scheme or memory.digest == GONE_DIGEST


def digested_again(memory: Memory, copy: bytes | None, rule: DigestRule) -> Memory:
    """What is remembered, digested from the copy kept as the rule has it today; as it is where that is another copy."""
    if copy is None:
        return memory
    reading = read_body(copy, memory.content_type, rule, at=memory.fetched_at)
    return (
        replace(memory, digest=reading.digest, places=(), varying=())
        if reading.digest.raw == memory.digest.raw
        else memory
    )


def wants_second_look(judgement: Judgement) -> bool:
    """Tells whether fetching the page again at once could tell noise from change.

    It keeps changing in the same place, or what was taken for noise is to be checked.
    """
    memory = judgement.memory
    if memory is None:
        return False
    if judgement.if_edited is not None:
        return True
    if judgement.verdict is not Verdict.CHANGED or not memory.places:
        return False
    doubtful = [place for place in memory.places if place.still == 0 and awaits_pair(place)]
    due = memory.streak in LIMITS.second_look_streaks or any(
        times_varied(place) in LIMITS.second_looks for place in doubtful
    )
    came_back = any((judgement.reverted or comes_back(place)) and varied_in_words(place) for place in doubtful)
    return bool(doubtful) and (due or came_back or any(map(half_proven, doubtful)))


def is_check(judgement: Judgement) -> bool:
    """Tells whether a second look is wanted only because it is time to check what was taken for noise."""
    memory = judgement.memory
    doubts = (place.doubt & VOLATILE_LIMITS.doubt_reason for place in memory.places) if memory is not None else ()
    return judgement.if_edited is not None and Doubt.RESTED not in doubts


def is_pair(seconds: float, since_last_visit: float, *, crawl_delay: bool = False) -> bool:
    """Tells whether two fetches so far apart are close enough that what differs is noise.

    A host with a Crawl-delay is visited slowly altogether: there only the time between visits tells what is close.
    """
    return seconds <= max(0.0 if crawl_delay else LIMITS.pair_seconds, LIMITS.pair_share * since_last_visit)


def learn_from_pair(judgement: Judgement, first: Reading, second: Reading) -> Judgement:
    """The judgement, with what two fetches at once told of the places that vary."""
    memory = judgement.memory
    if memory is None or second.digest.text is None:
        return judgement
    places, edited = learn_pair(memory.places, first, second, judgement.noisy)
    if edited and (otherwise := judgement.if_edited) is not None:
        judgement, memory = otherwise, otherwise.memory or memory
    return judgement._replace(memory=replace(memory, places=places), if_edited=None)


def _gone(page_id: int, at: float, memory: Memory | None) -> Judgement:
    """A page that is not there is known as well as any other: gone when first seen so, unchanged while it stays so."""
    if memory is None:
        return Judgement(Verdict.GONE, PageState.GONE, memory=Memory(page_id, at, GONE_DIGEST))
    if memory.digest == GONE_DIGEST:
        return Judgement(Verdict.UNCHANGED, PageState.GONE, magnitude=0.0)
    gone = remember(memory, GONE_DIGEST, Comparison(changed=True, places=memory.places, varying=memory.varying), at)
    return Judgement(Verdict.GONE, PageState.GONE, memory=replace(gone, etag=None, last_modified=None), magnitude=1.0)


def _new(page_id: int, at: float, outcome: Fetched, reading: Reading) -> Judgement:
    headers = outcome.headers
    first = Memory(
        page_id, at, reading.digest, headers.get("etag"), headers.get("last-modified"), headers.get("content-type")
    )
    return Judgement(Verdict.NEW, PageState.LIVE, memory=first, body=outcome.body, seen=reading.digest)


def _error_page(memory: Memory, seen: Digest, frame: HostFrame, at: float) -> Judgement | None:
    """Trouble, where the text is one that other pages have turned to as well; what is remembered stays."""
    if seen.text is None or not frame.is_error_page(memory.page_id, memory.digest, seen, at):
        return None
    detail = "several pages of this host now show this same text"
    trouble = Trouble.ERROR_PAGE.value
    return Judgement(Verdict.FAILED, PageState.FAILING, trouble=trouble, detail=detail, seen=seen)


def _content(
    at: float,
    outcome: Fetched,
    memory: Memory,
    rule: DigestRule,
    reading: Reading,
    frame: HostFrame | None,
    noise: HostNoise,
) -> Judgement:
    content_type, seen = outcome.headers.get("content-type"), reading.digest
    etag, last_modified = outcome.headers.get("etag"), outcome.headers.get("last-modified")
    validators_kept = etag == memory.etag and last_modified == memory.last_modified
    owed = frame is not None and frame.owes_a_change(memory.page_id)
    same = seen is memory.digest and validators_kept and content_type == memory.content_type
    if same and memory.streak == 0 and not memory.places and not owed:
        return Judgement(Verdict.UNCHANGED, PageState.LIVE, magnitude=0.0, seen=seen)  # the very answer of last time
    if comparable(memory, rule):
        found = compare(memory, reading, rule, at, frame, noise)
    else:  # digests of two kinds cannot be compared: begin anew rather than call every page changed
        found = Comparison(changed=False, magnitude=0.0, renewed=True)
    if owed:
        found = replace(found, changed=True)
    judgement = _judged(at, outcome, memory, seen, found)._replace(noisy=noisy_keys(memory, noise))
    if found.changed or not found.places or not any(place.doubt for place in found.places):
        return judgement
    edited = replace(found, changed=True, kept=False, magnitude=share_changed(memory.digest.blocks, seen.blocks))
    return judgement._replace(if_edited=_judged(at, outcome, memory, seen, edited))


def _judged(at: float, outcome: Fetched, memory: Memory, seen: Digest, found: Comparison) -> Judgement:
    headers = outcome.headers
    kept = replace(
        remember(memory, seen, found, at),
        etag=headers.get("etag"),
        last_modified=headers.get("last-modified"),
        content_type=headers.get("content-type"),
    )
    renewed = found.changed or (found.renewed and not found.kept)
    return Judgement(
        Verdict.CHANGED if found.changed else Verdict.UNCHANGED,
        PageState.LIVE,
        memory=kept if found.changed else _news(memory, kept),
        body=outcome.body if renewed and seen.raw != memory.digest.raw else None,
        magnitude=found.magnitude,
        reverted=found.reverted,
        seen=seen,
        frame_lost=found.lost,
        frame_gained=found.gained,
        frame_presumed=found.presumed,
    )


def _news(before: Memory, after: Memory) -> Memory | None:
    """Returns what to remember of an unchanged page: nothing, in the common case that only the time has gone on."""
    return None if replace(after, fetched_at=before.fetched_at) == before else after
