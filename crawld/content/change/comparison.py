"""Two versions to a verdict: changed or not, by how much, back to an earlier version, noise, or the site's frame."""

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crawld.content.change.frame import Explained, HostFrame
from crawld.content.change.hunks import Hunk, hunks, kept_blocks, singles
from crawld.content.change.moments import consistent
from crawld.content.change.place_comparison import Versions, Walk, count_words, places_after, walk_places
from crawld.content.change.placement import followed, located
from crawld.content.change.varying_block import steady_text
from crawld.content.change.volatile import bounded, is_forgotten, paired, rested, volatile_words
from crawld.content.page.digest import Reading, block_length
from crawld.content.page.prepared import Prepared, Walked
from crawld.content.page.rules import DEFAULT_RULE, DigestRule
from crawld.model.crawl import Digest, Memory, Place

VERSIONS_SEEN = 16


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a page since it was remembered. `magnitude` is None where only bytes could be compared."""

    changed: bool
    magnitude: float | None = None
    reverted: bool = False  # back to a version seen before
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
        reverted = version_key(seen, memory.places) in memory.seen
        return Comparison(changed=True, reverted=reverted, renewed=True, places=memory.places)
    return _compared(memory, seen, _versions(memory, reading, at), rule, frame)


def prepare(memory: Memory, reading: Reading, rule: DigestRule = DEFAULT_RULE, at: float | None = None) -> Prepared:
    """What comparing a reading, and learning from it as the second of a pair, needs of its texts.

    Where the texts are, they are compared once; whoever compares again with what was taken from them finds the same.
    """
    known, seen = memory.digest, reading.digest
    if seen.text is None or known.text is None or seen.text == known.text or rule.mode == "raw":
        return Prepared(tuple(map(len, reading.texts)), count_words(reading.texts), {})
    versions = _versions(memory, reading, at)
    walk = walk_places(memory.places, versions)
    differences = walk.differences(versions)
    places = places_after(walk, differences, versions, seen.blocks)
    for found in _found_again(memory.places, known, seen):
        if found is not None and found[1] and versions.affords(found[0]):
            for index in found[0]:
                versions.words(index)
    return versions.prepared(Walked(tuple(walk.found), tuple(walk.explained), tuple(differences), places))


def _versions(memory: Memory, reading: Reading, at: float | None) -> Versions:
    elapsed = 0.0 if at is None else at - memory.fetched_at
    known = memory.digest
    return Versions(known.blocks, timely_blocks(known, reading.digest, elapsed), reading)


def _compared(
    memory: Memory, seen: Digest, versions: Versions, rule: DigestRule, frame: HostFrame | None
) -> Comparison:
    """What became of a page of which two versions of text are known."""
    known = memory.digest
    if (walked := versions.walked) is not None:
        walk, differences = Walk(list(walked.found), list(walked.explained)), list(walked.differences)
    else:
        walk = walk_places(memory.places, versions)
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
        lost=tuple(known.blocks[index] for index in sorted(old_frame)),
        gained=tuple(seen.blocks[index] for index in sorted(new_frame)),
        renewed=True,
        kept=small,
        presumed=presumed and not changed,
        places=walked.places if walked and not by_frame else places_after(walk, real, versions, seen.blocks),
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
    versions = Versions((), second.digest.blocks, second)
    learnt = []
    for place, found in zip(places, _found_again(places, first.digest, second.digest)):
        if found is None:
            learnt.append(place)
            continue
        now, differs = found
        words = [versions.words(index) for index in now] if differs else []
        learnt.append(paired(place, words, differs=differs))
    return bounded(learnt)


def _found_again(places: Sequence[Place], first: Digest, second: Digest) -> Iterator[tuple[range, bool] | None]:
    """Where each place lies in the second of two quick fetches, and whether it differs; None where it is not found."""
    blocks = timely_blocks(first, second, 0.0)
    where = singles(first.blocks) if places else {}
    kept = kept_blocks(hunks(first.blocks, blocks), len(first.blocks)) if places else {}
    for place in places:
        before = located(place, first.blocks, where)
        now = None if before is None else followed(place, before, (len(first.blocks), len(blocks)), kept)
        if before is None or now is None:
            yield None
        else:
            yield now, blocks[now.start : now.stop] != first.blocks[before.start : before.stop]


def compared_blocks(reading: Reading, memory: Memory, frame: HostFrame | None = None) -> list[str]:
    """The text that counts, block by block: without the host's frame, and an ellipsis for what is volatile."""
    blocks, texts = reading.digest.blocks, list(reading.texts)
    where = singles(blocks)
    left_out: set[int] = set()
    for place in memory.places:
        span = located(place, blocks, where)
        if span is None or not volatile_words(place):
            continue
        if len(span) == len(place.blocks) and place.fewest == place.most:
            for at, pattern in zip(span, place.blocks):
                texts[at] = steady_text(pattern, texts[at])
        elif span:
            texts[span.start] = "…"
            left_out.update(span[1:])
    framed = [False] * len(blocks) if frame is None else frame.left_out(memory.page_id, blocks)
    return [text for at, text in enumerate(texts) if at not in left_out and not framed[at]]


def _rested(places: Sequence[Place]) -> tuple[Place, ...]:
    return tuple(place for place in map(rested, places) if not is_forgotten(place))
