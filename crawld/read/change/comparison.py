"""Two versions to a verdict: changed or not, by how much, back to an earlier version, noise, or the site's frame."""

import hashlib
import struct
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from crawld.model.crawl import Digest, HostNoise, Memory, Place
from crawld.read.change.frame import Explained, HostFrame
from crawld.read.change.moments import canonical, key_of, known_keys, learnt_counts, timed_block, timely_blocks
from crawld.read.change.place_comparison import LIMITS as PLACE_COMPARISON_LIMITS
from crawld.read.change.place_comparison import (
    ComparedVersions,
    count_words,
    followed,
    located,
    places_after,
    walk_places,
)
from crawld.read.change.volatile import LIMITS as VOLATILE_LIMITS
from crawld.read.change.volatile import (
    Doubt,
    agreed_in_pair,
    bounded,
    comes_back,
    is_forgotten,
    paired,
    rested,
    steady_text,
    variant_of,
    volatile_words,
)
from crawld.read.change.words import Hunk, hunks, kept_blocks, singles
from crawld.read.page.digest import Prepared, Reading, block_length
from crawld.read.page.rules import DEFAULT_RULE, DigestRule


@dataclass(frozen=True)
class ComparisonLimits:
    """Numbers that bound and tune this module."""

    versions_seen: int = 16
    counted_bytes: float = 24.0
    """About what the words beside a counter take that say what it counts."""


LIMITS = ComparisonLimits()


NO_NOISE = HostNoise()
TITLE_HUNK = Hunk(0, 1, 0, 1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on a page since it was remembered. `magnitude` is None where only bytes could be compared."""

    changed: bool
    magnitude: float | None = None
    reverted: bool = False  # back to a version seen before
    lost: tuple[int, ...] = ()  # blocks of the frame
    gained: tuple[int, ...] = ()
    renewed: bool = False  # the visible text differs, whatever the verdict
    kept: bool = False  # go on comparing with the version remembered
    presumed: bool = False  # a difference is taken for the frame's, which other pages have yet to show
    places: tuple[Place, ...] = ()
    varying: tuple[int, ...] = ()


def compare(
    memory: Memory,
    reading: Reading,
    rule: DigestRule = DEFAULT_RULE,
    at: float | None = None,
    frame: HostFrame | None = None,
    noise: HostNoise = NO_NOISE,
) -> Comparison:
    """Tells whether a page changed, by its rule; `noise` is what varies on many pages of its host.

    Differences below `min_change` add up: the version they are compared with stays.
    """
    known, seen = memory.digest, reading.digest
    if seen.raw == known.raw or (seen.text == known.text and seen.text is not None and rule.mode != "raw"):
        varying = learnt_counts(memory.varying, known, known, 0.0) if memory.varying else ()
        places = (
            tuple(place for place in map(rested, memory.places) if not is_forgotten(place)) if memory.places else ()
        )
        return Comparison(changed=False, magnitude=0.0, places=places, varying=varying)
    if rule.mode == "raw" or seen.text is None or known.text is None:
        reverted = version_key(seen, memory.places) in memory.seen
        return Comparison(changed=True, reverted=reverted, renewed=True, places=memory.places, varying=memory.varying)
    found = _compared(memory, seen, _versions(memory, reading, at, noise), rule, frame)
    elapsed = 0.0 if at is None else at - memory.fetched_at
    return replace(found, varying=learnt_counts(memory.varying, known, seen, elapsed))


def prepare(
    memory: Memory,
    reading: Reading,
    rule: DigestRule = DEFAULT_RULE,
    at: float | None = None,
    noise: HostNoise = NO_NOISE,
) -> Prepared:
    """Returns what a comparison, and learning from the second of a pair, needs of a reading's texts.

    Texts are compared once where they are; comparing again with what was taken from them finds the same.
    """
    known, seen = memory.digest, reading.digest
    if seen.text is None or known.text is None or seen.text == known.text or rule.mode == "raw":
        return Prepared(tuple(map(len, reading.texts)), count_words(reading.texts), {})
    versions = _versions(memory, reading, at, noise)
    walk = walk_places(versions)
    walk = replace(walk, places=places_after(walk, walk.differences, versions))
    for found in _found_again(memory.places, known, seen, versions.keys):
        if found is not None and not all(found[1]) and versions.affords(found[0]):
            for index in found[0]:
                versions.words(index)
    return versions.prepared(walk)


def _versions(memory: Memory, reading: Reading, at: float | None, noise: HostNoise) -> ComparedVersions:
    elapsed = 0.0 if at is None else at - memory.fetched_at
    known, seen = memory.digest, reading.digest
    keys = noisy_keys(memory, noise)
    steady, old, new, places = timely_blocks(known, seen, elapsed), known.blocks, seen.blocks, memory.places
    if keys:
        old, new = canonical(known, keys), canonical(seen, keys)
        steady = tuple(map(_first_that_differs, seen.blocks, new, steady))
        moved = {block: other for block, other in zip(known.blocks, old) if block != other}
        places = tuple(
            replace(place, left=moved.get(place.left, place.left), right=moved.get(place.right, place.right))
            for place in places
        )
    lent = noise.places
    if lent:  # those of the host's templates that the page has not yet learnt itself
        proved = {(place.left, place.right) for place in places if volatile_words(place)}
        lent = tuple(place for place in lent if (place.left, place.right) not in proved)
    return ComparedVersions(old, steady, reading, new, (places, lent), keys)


def _first_that_differs(block: int, varying: int, timely: int) -> int:
    return varying if varying != block else timely


def noisy_keys(memory: Memory, noise: HostNoise) -> frozenset[int]:
    """Blocks that vary in times and counters alone, as this page and its host showed; none where they are the page.

    Of such a block the text beside its counters is steady, but for the few words that say what is counted.
    """
    if not noise.blocks and not memory.varying:
        return noise.blocks
    keys, digest = noise.blocks.union(known_keys(memory.varying)), memory.digest
    if not keys:
        return keys
    varying = sum(
        block_length(digest.blocks[index]) - max(0.0, block_length(number) - LIMITS.counted_bytes)
        for index, number, _ in digest.times
        if key_of(number) in keys
    )
    return (
        keys if varying <= PLACE_COMPARISON_LIMITS.max_volatile * sum(map(block_length, digest.blocks)) else frozenset()
    )


def _compared(
    memory: Memory, seen: Digest, versions: ComparedVersions, rule: DigestRule, frame: HostFrame | None
) -> Comparison:
    """Compares two versions of a page whose text is known."""
    known, walk = memory.digest, versions.walked or walk_places(versions)
    real, old_out, new_out = list(walk.differences), set[int](), set[int]()
    lost: tuple[int, ...] = ()
    gained: tuple[int, ...] = ()
    by_frame, presumed = set[Hunk](), False
    if frame is not None and real:
        by_frame, (lost, gained), presumed = _by_frame(memory, seen, real, frame)
        for hunk in by_frame:
            old_out.update(range(hunk.old_from, hunk.old_to))
            new_out.update(range(hunk.new_from, hunk.new_to))
        lost += tuple(known.blocks[index] for index in sorted(old_out) if index or not lost)
        gained += tuple(seen.blocks[index] for index in sorted(new_out) if index or not gained)
        real = [hunk for hunk in real if hunk not in by_frame]
    for before, now in walk.explained:
        old_out.update(before)
        new_out.update(now)
    magnitude = share_changed(
        [block for index, block in enumerate(versions.old) if index not in old_out] if old_out else versions.old,
        [block for index, block in enumerate(versions.new) if index not in new_out] if new_out else versions.new,
    )
    small = bool(real) and magnitude < rule.min_change
    changed = bool(real) and not small
    return Comparison(
        changed=changed,
        magnitude=magnitude,
        reverted=changed and version_key(seen, memory.places) in memory.seen,
        lost=lost,
        gained=gained,
        renewed=True,
        kept=small,
        presumed=presumed and not changed,
        places=places_after(walk, real, versions) if walk.places is None or by_frame else walk.places,
    )


def _by_frame(
    memory: Memory, seen: Digest, differences: list[Hunk], frame: HostFrame
) -> tuple[set[Hunk], tuple[tuple[int, ...], tuple[int, ...]], bool]:
    """The differences that are the site's, the words of the title among them, and whether any is only presumed to be.

    A difference of the title is told apart from what differs below it: `differences` is changed so.
    """
    known = memory.digest
    titled = bool(known.title and seen.title)
    first = differences[0]
    if titled and first.old_from == first.new_from == 0 and min(first.old_to, first.new_to) > 0 and first != TITLE_HUNK:
        differences[:1] = [TITLE_HUNK, Hunk(1, first.old_to, 1, first.new_to)]
    view = frame.view(memory.page_id, known, seen)
    found: dict[Hunk, Explained] = {}
    title: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    for hunk in differences:
        if titled and hunk == TITLE_HUNK:
            found[hunk], title = view.explains_title()
        elif view.has_content(differences):
            found[hunk] = view.explains(hunk)
    return {hunk for hunk, how in found.items() if how}, title, Explained.PRESUMED in found.values()


def share_changed(before: Sequence[int], after: Sequence[int]) -> float:
    """Share of the text that differs, 0–1: one minus the Jaccard share of the blocks, each weighing its length.

    A mere change of order is 0.
    """
    old, new = Counter(before), Counter(after)
    either = both = 0.0
    for block, count in (old | new).items():
        length = block_length(block)
        either += length * count
        both += length * min(old[block], new[block])
    return 1.0 - both / either if either else 0.0


def version_key(digest: Digest, places: Sequence[Place]) -> bytes:
    """Identifies a version: its blocks without times and volatile places, or its bytes."""
    if digest.text is None:
        return digest.raw
    blocks = list(digest.blocks)
    where = singles(blocks) if places else {}
    noise: set[int] = set()
    for place in places:
        if volatile_words(place) and (span := located(place, blocks, where)) is not None:
            noise.update(span)
    for index, number, _ in digest.times:
        blocks[index] = number
    steady = [block for at, block in enumerate(blocks) if at not in noise] if noise else blocks
    return hashlib.blake2b(struct.pack(f">{len(steady)}Q", *steady), digest_size=16).digest()


def remember(memory: Memory, digest: Digest, comparison: Comparison, at: float) -> Memory:
    """Returns the memory of a page after a further crawl."""
    if not comparison.changed:
        if comparison.kept:
            return replace(memory, streak=0)
        kept = replace(memory, fetched_at=at, streak=0, places=comparison.places, varying=comparison.varying)
        return replace(kept, digest=digest) if comparison.renewed else kept
    key = version_key(memory.digest, memory.places)
    seen = tuple(dict.fromkeys((key, *memory.seen)))[: LIMITS.versions_seen]
    after = replace(memory, fetched_at=at, digest=digest, streak=memory.streak + 1, seen=seen)
    return replace(after, places=comparison.places, varying=comparison.varying)


def learn_pair(
    places: Sequence[Place], first: Reading, second: Reading, keys: Container[int] = frozenset()
) -> tuple[tuple[Place, ...], bool]:
    """The places after a quick second fetch of the version they were learnt from.

    Also whether one of them, in which a difference was taken for noise, turns out to have been edited.
    """
    versions = ComparedVersions((), second.digest.blocks, second)
    learnt, edited = [], False
    for place, found in zip(places, _found_again(places, first.digest, second.digest, keys)):
        after = place
        if found is not None:
            now, agreeing = found
            after, disproved = agreed_in_pair(place, agreeing)
            edited = edited or disproved
            if not all(agreeing):
                words = [versions.words(index) for index in now]
                after = paired(after, words, differs=True)
                variants = tuple(dict.fromkeys((*place.variants[:1], variant_of(after, words), *place.variants[1:])))
                fresh = (
                    min(15, after.fresh + VOLATILE_LIMITS.news)
                    if disproved and len(variants) > len(place.variants)
                    else after.fresh
                )
                after = replace(after, variants=variants[: VOLATILE_LIMITS.max_variants], fresh=fresh, agreed=0)
            elif not place.doubt and comes_back(place) and place.agreed + 1 < VOLATILE_LIMITS.max_agreed:
                after = replace(after, agreed=place.agreed + 1)
            elif not place.doubt:
                after = replace(paired(after, (), differs=False), agreed=0)
            after = replace(after, unchecked=0)
        learnt.append(replace(after, doubt=Doubt.NONE))
    return bounded(learnt), edited


def _found_again(
    places: Sequence[Place], first: Digest, second: Digest, keys: Container[int]
) -> Iterator[tuple[range, tuple[bool, ...]] | None]:
    """Locates each place in the second of two quick fetches, with the blocks that agree; None if not found."""
    if not places:
        return
    old = canonical(first, keys)
    timely, varying = timely_blocks(first, second, 0.0), canonical(second, keys)
    blocks = tuple(map(_first_that_differs, second.blocks, varying, timely)) if keys else timely
    where = singles(old)
    kept = kept_blocks(hunks(old, blocks), len(old))
    for place in places:
        before = located(place, old, where)
        now = None if before is None else followed(place, before, (len(old), len(blocks)), kept)
        if before is None or now is None:
            yield None
        elif len(before) != len(now):
            yield now, (False,)
        else:
            yield now, tuple(old[one] == blocks[other] for one, other in zip(before, now))


def compared_blocks(reading: Reading, memory: Memory, frame: HostFrame | None = None) -> list[str]:
    """The text that counts, block by block: without the host's frame, and an ellipsis for what is volatile."""
    noise = frame.noise if frame is not None else NO_NOISE
    keys = noisy_keys(memory, noise)
    blocks, texts = canonical(reading.digest, keys), list(reading.texts)
    for index, number, _ in reading.digest.times:
        if key_of(number) in keys and (timed := timed_block(texts[index], 0.0)) is not None:
            texts[index] = timed[0].replace("\0", "…")
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
    framed = [False] * len(blocks) if frame is None else frame.left_out(memory.page_id, reading.digest)
    return [text for at, text in enumerate(texts) if at not in left_out and not framed[at]]
