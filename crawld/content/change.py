"""Two versions to a verdict: changed or not, by how much, back to an earlier version, noise, or the site's frame."""

import hashlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from crawld.content.digest import Reading, block_length
from crawld.content.frame import Explained, HostFrame
from crawld.content.hunks import Hunk, hunks, kept_blocks, singles
from crawld.content.moments import consistent
from crawld.content.rules import DEFAULT_RULE, DigestRule
from crawld.content.volatile import (
    END,
    START,
    anchored,
    bounded,
    followed,
    is_forgotten,
    joined,
    located,
    new_place,
    paired,
    rested,
    revisited,
    times_varied,
    volatile_words,
    widened,
)
from crawld.content.words import words_of
from crawld.model.crawl import Digest, Memory, Place

VERSIONS_SEEN = 16
MOST_VOLATILE = 0.75
"""A page of which a larger share varies changes at every visit, which is the truth."""
MOST_DIFFERING = 0.6
"""Where a larger share of a page differs it is another text, and nothing is learnt from that."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a page since it was remembered. `magnitude` is None where only bytes could be compared."""

    changed: bool
    magnitude: float | None = None
    reverted: bool = False  # back to a version seen before
    left_out: int = 0  # volatile places that differ and were not compared
    lost: tuple[int, ...] = ()  # blocks of the frame
    gained: tuple[int, ...] = ()
    renewed: bool = False  # the visible text differs, whatever the verdict
    kept: bool = False  # go on comparing with the version remembered
    presumed: bool = False  # a difference is taken for the frame's, which other pages have yet to show
    places: tuple[Place, ...] = ()


def compare(
    memory: Memory,
    reading: Reading,
    rule: DigestRule = DEFAULT_RULE,
    at: float | None = None,
    frame: HostFrame | None = None,
) -> Comparison:
    """Whether a page changed, by its rule.

    Differences below `min_change` add up: the version they are compared with stays.
    """
    known, seen = memory.digest, reading.digest
    if seen.raw == known.raw or (seen.text == known.text and seen.text is not None and rule.mode != "raw"):
        return Comparison(changed=False, magnitude=0.0, places=_rested(memory.places))
    if rule.mode == "raw" or seen.text is None or known.text is None:
        return Comparison(changed=True, reverted=version_key(seen, ()) in memory.seen, renewed=True)
    elapsed = 0.0 if at is None else at - memory.fetched_at
    versions = _Versions(known.blocks, timely_blocks(known, seen, elapsed), reading.texts)
    walk = _walk(memory.places, versions)
    differences = walk.differences(versions)
    by_frame, presumed = _by_frame(memory, seen, differences, frame)
    real = [hunk for hunk in differences if hunk not in by_frame]
    old_frame = {block for hunk in by_frame for block in range(hunk.old_from, hunk.old_to)}
    new_frame = {block for hunk in by_frame for block in range(hunk.new_from, hunk.new_to)}
    magnitude = share_changed(
        [block for index, block in walk.rest(versions.old, old=True) if index not in old_frame],
        [block for index, block in walk.rest(versions.new, old=False) if index not in new_frame],
    )
    small = bool(real) and magnitude < rule.min_change
    changed = bool(real) and not small
    return Comparison(
        changed=changed,
        magnitude=magnitude,
        reverted=changed and version_key(seen, memory.places) in memory.seen,
        left_out=len(walk.explained),
        lost=tuple(known.blocks[index] for index in sorted(old_frame)),
        gained=tuple(seen.blocks[index] for index in sorted(new_frame)),
        renewed=True,
        kept=small,
        presumed=presumed and not changed,
        places=_places(walk, real, versions, seen.blocks),
    )


def timely_blocks(known: Digest, seen: Digest, elapsed: float) -> tuple[int, ...]:
    """The blocks seen, where those whose expressions of time only moved with time count as those known."""
    if not known.times or not seen.times:
        return seen.blocks
    waiting: dict[int, deque[tuple[int, tuple[int, ...]]]] = {}
    for index, number, moments in known.times:
        waiting.setdefault(number, deque()).append((index, moments))
    blocks = list(seen.blocks)
    for index, number, moments in seen.times:
        if queue := waiting.get(number):
            before, old = queue.popleft()
            if consistent(old, moments, elapsed):
                blocks[index] = known.blocks[before]
    return tuple(blocks)


class _Versions:
    """Two sequences of blocks, where their single blocks are, and the words of the newer one."""

    def __init__(self, old: Sequence[int], new: Sequence[int], texts: Sequence[str]) -> None:
        self.old, self.new, self.texts = old, new, texts
        self.lengths = len(old), len(new)
        self.hunks = hunks(old, new)

    @cached_property
    def kept(self) -> dict[int, int]:
        """The index that each kept block of the old version has in the new one."""
        return kept_blocks(self.hunks, len(self.old))

    def words(self, at: int) -> list[int]:
        return words_of(self.texts[at])

    def count(self) -> int:
        """About how many words the newer version has."""
        return sum(text.count(" ") + 1 for text in self.texts)


@dataclass(slots=True)
class _Walk:
    """The places found again: each with where it lies now, and those whose difference is explained."""

    found: list[tuple[Place, range]]
    explained: list[tuple[range, range]]  # in the old and in the new version

    def rest(self, blocks: Sequence[int], *, old: bool) -> list[tuple[int, int]]:
        """The blocks outside explained places, with their indices."""
        inside = {at for ranges in self.explained for at in ranges[0 if old else 1]}
        return [(at, block) for at, block in enumerate(blocks) if at not in inside]

    def differences(self, versions: _Versions) -> list[Hunk]:
        """Where the versions differ outside explained places."""
        if not self.explained:
            return versions.hunks
        old_at, old = _with_marks(versions.old, [pair[0] for pair in self.explained])
        new_at, new = _with_marks(versions.new, [pair[1] for pair in self.explained])
        return [Hunk(old_at[a], old_at[b], new_at[c], new_at[d]) for a, b, c, d in hunks(old, new)]


def _with_marks(blocks: Sequence[int], ranges: Sequence[range]) -> tuple[list[int], list[int]]:
    """The blocks with one mark in place of each range, and at which index each begins."""
    starts = {one.start: (-1 - number, one) for number, one in enumerate(ranges) if one}
    empty = {one.start: -1 - number for number, one in enumerate(ranges) if not one}
    at, indices, marked = 0, [], []
    while at < len(blocks):
        if at in empty:
            indices.append(at)
            marked.append(empty[at])
        if at in starts:
            mark, one = starts[at]
            indices.append(at)
            marked.append(mark)
            at = one.stop
            continue
        indices.append(at)
        marked.append(blocks[at])
        at += 1
    if at in empty:
        indices.append(at)
        marked.append(empty[at])
    return [*indices, len(blocks)], marked


def _walk(places: Sequence[Place], versions: _Versions) -> _Walk:
    """Find the places again, and learn from what stands in them now."""
    walk = _Walk([], [])
    found = []
    where = singles(versions.old) if places else {}
    for place in places:
        before = located(place, versions.old, where)
        now = None if before is None else followed(place, before, versions.lengths, versions.kept)
        if now is not None and before is not None:
            found.append((now, before, place))
    found.sort(key=lambda one: (one[0].start, one[0].stop))
    end = old_end = -1
    volatile, most = 0, MOST_VOLATILE * versions.count() if found else 0.0
    for now, before, place in found:
        if now.start < end or before.start < old_end or sum(len(versions.texts[at]) for at in now) > 50_000:
            continue  # moved: it will be learnt anew
        end, old_end = now.stop, before.stop
        place = anchored(  # noqa: PLW2901
            place, left=_stays(before.start - 1, versions), right=_stays(before.stop, versions)
        )
        stood, stands = versions.old[before.start : before.stop], versions.new[now.start : now.stop]
        if stood == stands:
            walk.found.append(widened(rested(place), versions.words, now, len(versions.new)))
            continue
        same = [one == other for one, other in zip(stood, stands)]
        learnt, explained = revisited(place, [versions.words(at) for at in now], same)
        walk.found.append(widened(learnt, versions.words, now, len(versions.new)))
        volatile += volatile_words(learnt)
        if explained and volatile <= most:
            walk.explained.append((before, now))
    return walk


def _stays(at: int, versions: _Versions) -> bool:
    """Whether the block at an index of the old version, or the edge of the page, is kept."""
    return at in versions.kept or not 0 <= at < len(versions.old)


def _by_frame(
    memory: Memory, seen: Digest, differences: Sequence[Hunk], frame: HostFrame | None
) -> tuple[set[Hunk], bool]:
    """The differences that are the site's, and whether any of them is only presumed to be."""
    if frame is None or not differences:
        return set(), False
    view = frame.view(memory.page_id, memory.digest.blocks, seen.blocks)
    if not view.has_content(differences):
        return set(), False
    found = {hunk: view.explains(hunk) for hunk in differences}
    return {hunk for hunk, how in found.items() if how}, Explained.PRESUMED in found.values()


def _places(walk: _Walk, real: Sequence[Hunk], versions: _Versions, blocks: Sequence[int]) -> tuple[Place, ...]:
    """What to remember of places: those found again, and one for every new difference."""
    total = sum(map(block_length, blocks)) or 1.0
    found = list(walk.found)
    for stretch, moved in _stretches(real, versions):
        within = stretch
        met = [one for one in found if within.start < one[1].stop and one[1].start < within.stop]
        if met and (not moved or any(span.start <= within.start and within.stop <= span.stop for _, span in met)):
            continue  # it lies in a place that has learnt from it
        if met:  # a list in another order, of which only parts were known
            found = [one for one in found if one not in met]
            within = range(
                min(within.start, *(span.start for _, span in met)), max(within.stop, *(span.stop for _, span in met))
            )
        if sum(block_length(blocks[at]) for at in within) > MOST_DIFFERING * total:
            continue
        if (made := new_place(versions.new, within, versions.words)) is not None:
            found.append(made)
    return bounded([place for place in _merged(found, blocks) if not is_forgotten(place)])


def _stretches(real: Sequence[Hunk], versions: _Versions) -> list[tuple[range, bool]]:
    """Where the newer version differs, and whether blocks have moved there: a list in another order is one stretch."""
    removed = {block for hunk in real for block in versions.old[hunk.old_from : hunk.old_to]}
    moved = [hunk for hunk in real if not removed.isdisjoint(versions.new[hunk.new_from : hunk.new_to])]
    inserted = {block for hunk in real for block in versions.new[hunk.new_from : hunk.new_to]}
    moved += [hunk for hunk in real if not inserted.isdisjoint(versions.old[hunk.old_from : hunk.old_to])]
    if not moved:
        return [(range(hunk.new_from, hunk.new_to), False) for hunk in real]
    whole = range(min(hunk.new_from for hunk in moved), max(hunk.new_to for hunk in moved))
    apart = [hunk for hunk in real if hunk.new_to < whole.start or whole.stop < hunk.new_from]
    return [(whole, True), *((range(hunk.new_from, hunk.new_to), False) for hunk in apart)]


def _merged(found: list[tuple[Place, range]], blocks: Sequence[int]) -> list[Place]:
    """The places with their neighbours as they are now; those that touch become one, for nothing steady parts them."""
    found.sort(key=lambda one: (one[1].start, one[1].stop))
    merged: list[tuple[Place, range]] = []
    for place, span in found:
        if merged and span.start <= merged[-1][1].stop:
            before, other = merged[-1]
            over = other.stop - span.start
            if over and place.fewest == place.most:  # the same blocks twice: once is enough
                cut = place.blocks[over:]
                place = replace(place, blocks=cut, fewest=len(cut), most=len(cut))  # noqa: PLW2901
            both = joined(before, place)
            if both is not None:
                merged[-1] = both, range(other.start, max(other.stop, span.stop))
            elif times_varied(place) > times_varied(before):
                merged[-1] = place, span
            continue
        merged.append((place, span))
    return [
        replace(
            place,
            left=blocks[span.start - 1] if span.start else START,
            right=blocks[span.stop] if span.stop < len(blocks) else END,
        )
        for place, span in merged
    ]


def share_changed(before: Sequence[int], after: Sequence[int]) -> float:
    """How much of the text differs, 0–1: one minus the Jaccard share of the blocks, each weighing its length.

    A mere change of order is 0.
    """
    old, new = Counter(before), Counter(after)
    either = sum(block_length(block) * count for block, count in (old | new).items())
    both = sum(block_length(block) * count for block, count in (old & new).items())
    return 1.0 - both / either if either else 0.0


def version_key(digest: Digest, places: Sequence[Place]) -> bytes:
    """What tells a version apart from others: its blocks without times and volatile places, or its bytes."""
    if digest.text is None:
        return digest.raw
    blocks = list(digest.blocks)
    where = singles(blocks)
    spans = [located(place, blocks, where) for place in places if volatile_words(place)]
    for index, number, _ in digest.times:
        blocks[index] = number
    noise = {at for span in spans if span is not None for at in span}
    steady = (block.to_bytes(8, "big") for at, block in enumerate(blocks) if at not in noise)
    return hashlib.blake2b(b"".join(steady), digest_size=16).digest()


def remember(memory: Memory, digest: Digest, comparison: Comparison, at: float) -> Memory:
    """What to remember after a further crawl."""
    if not comparison.changed:
        if comparison.kept:
            return replace(memory, streak=0)
        kept = replace(memory, fetched_at=at, streak=0, places=comparison.places)
        return replace(kept, digest=digest) if comparison.renewed else kept
    key = version_key(memory.digest, memory.places)
    seen = (key, *(other for other in memory.seen if other != key))[:VERSIONS_SEEN]
    return replace(memory, fetched_at=at, digest=digest, streak=memory.streak + 1, seen=seen, places=comparison.places)


def learn_pair(places: Sequence[Place], first: Reading, second: Reading) -> tuple[Place, ...]:
    """The places after a quick second fetch of the version they were learnt from."""
    blocks = timely_blocks(first.digest, second.digest, 0.0)
    where = singles(first.digest.blocks)
    kept = kept_blocks(hunks(first.digest.blocks, blocks), len(first.digest.blocks))
    learnt = []
    for place in places:
        before = located(place, first.digest.blocks, where)
        now = None if before is None else followed(place, before, (len(first.digest.blocks), len(blocks)), kept)
        if before is None or now is None:
            learnt.append(place)
            continue
        differs = blocks[now.start : now.stop] != first.digest.blocks[before.start : before.stop]
        words = [words_of(second.texts[index]) for index in now] if differs else []
        learnt.append(paired(place, words, differs=differs))
    return bounded(learnt)


def compared_blocks(reading: Reading, memory: Memory, frame: HostFrame | None = None) -> list[str]:
    """The texts of the blocks that count: without volatile places, and without the host's frame."""
    blocks = reading.digest.blocks
    where = singles(blocks)
    spans = [located(place, blocks, where) for place in memory.places if volatile_words(place)]
    noise = {at for span in spans if span is not None for at in span}
    framed = [False] * len(blocks) if frame is None else frame.left_out(memory.page_id, blocks)
    return [text for at, text in enumerate(reading.texts) if at not in noise and not framed[at]]


def _rested(places: Sequence[Place]) -> tuple[Place, ...]:
    return tuple(place for place in map(rested, places) if not is_forgotten(place))
