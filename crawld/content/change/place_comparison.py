"""Two versions of a page, gone through place by place: what varies is learnt, and what differs otherwise remains."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from crawld.content.change.hunks import Hunk, hunks, kept_blocks, singles
from crawld.content.change.placement import (
    END,
    REACH,
    START,
    anchored,
    followed,
    joined,
    located,
    new_place,
    trimmed,
    widened,
)
from crawld.content.change.volatile import (
    MOST_PLACES,
    bounded,
    has_few_variants,
    is_forgotten,
    likened,
    patterns_of,
    rested,
    revisited,
    times_varied,
    variant_of,
    volatile_words,
    weighed,
)
from crawld.content.change.words import words_of
from crawld.content.page.digest import Reading, block_length
from crawld.content.page.prepared import Prepared, Walked
from crawld.model.crawl import Place

MOST_VOLATILE = 0.75
"""A page of which a larger share varies changes at every visit, which is the truth."""
MOST_DIFFERING = 0.8
"""Where a larger share of a page differs it is another text, and nothing is learnt from that."""
SAME_SHAPE, FEWEST_LINES = 0.9, 4
"""So large a share of the blocks, and so many, must be about as long as before where nearly all of them differ."""
MOST_LETTERS = 30_000
"""So much text of a page is taken apart into words at one visit; other differences count, and teach nothing."""


class Versions:
    """Two sequences of blocks, where their single blocks are, and the words of the newer one.

    `blocks` are those of the newer one as places are to remember them; `places` those of the page and those of its
    host's templates; `keys` the blocks that vary in times and counters alone.
    """

    def __init__(
        self,
        old: Sequence[int],
        new: Sequence[int],
        reading: Reading,
        blocks: Sequence[int] = (),
        places: tuple[Sequence[Place], Sequence[Place]] = ((), ()),
        keys: frozenset[int] = frozenset(),
    ) -> None:
        self.old, self.new, self.blocks, self.keys = old, new, blocks, keys
        self.places, self.lent = places
        self._texts, self._prepared = reading.texts, reading.prepared
        self.taken_apart: dict[int, tuple[int, ...]] = {}
        """The words of the blocks that were asked for."""
        self.lengths = len(old), len(new)
        self._letters = MOST_LETTERS

    @cached_property
    def hunks(self) -> list[Hunk]:
        """Where the versions differ."""
        return hunks(self.old, self.new)

    @cached_property
    def kept(self) -> dict[int, int]:
        """The index that each kept block of the old version has in the new one."""
        return kept_blocks(self.hunks, len(self.old))

    @cached_property
    def single(self) -> frozenset[int]:
        """The blocks that the new version has once."""
        return frozenset(singles(self.new))

    def affords(self, span: range) -> bool:
        """Whether there is time to take these blocks apart into words; it is spent if there is."""
        letters = self._letters_of
        self._letters -= sum(letters[at] for at in span)
        if self._prepared is not None and not all(at in self._prepared.words for at in span):
            return False
        return self._letters >= 0

    @cached_property
    def _letters_of(self) -> Sequence[int]:
        return self._prepared.letters if self._prepared is not None else [len(text) for text in self._texts]

    def words(self, at: int) -> tuple[int, ...]:
        """The words of a block of the newer version; one word where it is longer than is taken apart in a visit."""
        words = self.taken_apart.get(at)
        if words is None:
            words = self.taken_apart[at] = self._words(at)
        return words

    def _words(self, at: int) -> tuple[int, ...]:
        if self._prepared is not None and at in self._prepared.words:
            return self._prepared.words[at]
        if self._prepared is not None or len(self._texts[at]) > MOST_LETTERS:
            return (self.new[at] >> 8 & 0xFFFF_FFFF,)
        return tuple(words_of(self._texts[at]))

    def count(self) -> int:
        """About how many words the newer version has."""
        if self._prepared is not None:
            return self._prepared.count
        return count_words(self._texts)

    @property
    def walked(self) -> Walked | None:
        """What was found where the texts are."""
        return None if self._prepared is None else self._prepared.walked

    def prepared(self, walked: Walked) -> Prepared:
        """What comparing these versions once more needs of the texts: the words that were asked for until now."""
        return Prepared(tuple(self._letters_of), self.count(), self.taken_apart, walked)


def count_words(texts: Sequence[str]) -> int:
    """About how many words there are in texts."""
    return sum(text.count(" ") + 1 for text in texts)


@dataclass(slots=True)
class Walk:
    """The places found again: each with where it lies now, and those whose difference is explained."""

    found: list[tuple[Place, range]]
    explained: list[tuple[range, range]]  # in the old and in the new version

    def rest(self, blocks: Sequence[int], *, old: bool) -> list[tuple[int, int]]:
        """The blocks outside explained places, with their indices."""
        inside = {at for ranges in self.explained for at in ranges[0 if old else 1]}
        return [(at, block) for at, block in enumerate(blocks) if at not in inside]

    def differences(self, versions: Versions) -> list[Hunk]:
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


def walk_places(versions: Versions) -> Walk:
    """Find the places again, and learn from what stands in them now.

    A place that the host lends is the page's once it explains a difference.
    """
    walk = Walk([], [])
    found = []
    where = singles(versions.old) if versions.places or versions.lent else {}
    lent = set(map(id, versions.lent))
    for place in (*versions.lent, *versions.places):
        before = located(place, versions.old, where)
        now = None if before is None else followed(place, before, versions.lengths, versions.kept)
        if before is not None and place.fewest < place.most and (now is None or _is_loose_end(place, before, versions)):
            stretch = _between_kept(before, versions)
            now = now if stretch is None else stretch
        if now is not None and before is not None:
            found.append((now, before, place))
    found.sort(key=lambda one: (one[0].start, id(one[2]) not in lent, one[0].stop))
    end = old_end = -1
    volatile, most = 0, MOST_VOLATILE * versions.count() if found else 0.0
    for now, before, place in found:
        if now.start < end or before.start < old_end or not versions.affords(now):
            continue  # moved, or grown beyond reason: it will be learnt anew
        ends, borrowed = (now.stop, before.stop), id(place) in lent
        place = anchored(  # noqa: PLW2901
            place, left=_stays(before.start - 1, versions), right=_stays(before.stop, versions)
        )
        stood, stands = versions.old[before.start : before.stop], versions.new[now.start : now.stop]
        if stood == stands:
            if borrowed:
                continue
            end, old_end = ends
            walk.found.append(_grown(rested(place), versions, now))
            continue
        place, lead, trail = trimmed(place, stood, stands)  # noqa: PLW2901
        before, now = (range(span.start + lead, span.stop - trail) for span in (before, now))  # noqa: PLW2901
        stood = versions.old[before.start : before.stop]
        now = _known_variant(place, versions, before, now)  # noqa: PLW2901
        stands = versions.new[now.start : now.stop]
        same = [one == other for one, other in zip(stood, stands)]
        words = [versions.words(at) for at in now]
        learnt, explained = revisited(place, words, same)
        learnt, explained = weighed(place, learnt, words, same, explained=explained)
        if borrowed and not explained:
            continue
        end, old_end = ends
        walk.found.append(_grown(learnt, versions, now))
        volatile += min(volatile_words(learnt), sum(map(len, words)))
        if explained and volatile <= most:
            walk.explained.append((before, now))
    return walk


def _grown(place: Place, versions: Versions, span: range) -> tuple[Place, range]:
    """The place with blocks beside it that keep changing; where it has few variants, these are known without them."""
    if place.fewest < place.most and has_few_variants(place):
        return place, span
    return widened(place, versions.words, span, len(versions.new))


def _known_variant(place: Place, versions: Versions, before: range, span: range) -> range:
    """Where a variant known before stands, which blocks were put in beside or taken from; else the span as it is.

    Where a block beside the place did not stay, the variant may begin or end anywhere up to the next one that did.
    """
    if place.fewest == place.most or not has_few_variants(place):
        return span
    stretch = _between_kept(before, versions)
    lost_left, lost_right = (not _stays(at, versions) for at in (before.start - 1, before.stop))
    fewest = 0 if lost_left or lost_right else 1  # what comes where nothing stood is news
    for within in (span,) if stretch is None else (stretch, span):
        words = [versions.words(at) for at in within]
        if variant_of(place, words) in place.variants:
            return within
        for cut in range(1, min(REACH, len(within) + 1 - fewest)):
            for lead in range(cut, -1, -1) if lost_left else range(cut + 1):
                if variant_of(place, words[lead : len(words) - cut + lead]) in place.variants:
                    return range(within.start + lead, within.stop - cut + lead)
    return span


def _between_kept(before: range, versions: Versions) -> range | None:
    """The stretch of the newer version between the blocks beside a place that stayed, where these are near."""
    kept, (old_length, new_length) = versions.kept, versions.lengths
    left = next((kept[at] + 1 for at in range(before.start - 1, before.start - 1 - REACH, -1) if at in kept), None)
    right = next((kept[at] for at in range(before.stop, before.stop + REACH) if at in kept), None)
    left = 0 if left is None and before.start <= REACH else left
    right = new_length if right is None and old_length - before.stop <= REACH else right
    return range(left, right) if left is not None and right is not None and left <= right else None


def _is_loose_end(place: Place, before: range, versions: Versions) -> bool:
    """Whether a block beside a place of many variants did not stay, so that nothing tells where it ends."""
    return not has_few_variants(place) and not (_stays(before.start - 1, versions) and _stays(before.stop, versions))


def _stays(at: int, versions: Versions) -> bool:
    """Whether the block at an index of the old version, or the edge of the page, is kept."""
    return at in versions.kept or not 0 <= at < len(versions.old)


def places_after(walk: Walk, real: Sequence[Hunk], versions: Versions) -> tuple[Place, ...]:
    """What to remember of places: those found again, and one for every new difference."""
    blocks = versions.blocks
    total = sum(map(block_length, blocks)) or 1.0
    found = list(walk.found)
    taken, made_new, patterns = _Taken(len(blocks)), 0, patterns_of(place for place, _ in found)
    for _, span in found:
        taken.add(span)
    for stretch, moved in _stretches(real, versions):
        within = stretch
        if not moved and taken.meets(within):
            continue  # it lies in a place that has learnt from it
        met = [one for one in found if within.start < one[1].stop and one[1].start < within.stop] if moved else []
        if met and (not moved or any(span.start <= within.start and within.stop <= span.stop for _, span in met)):
            continue  # it lies in a place that has learnt from it
        if met:  # a list in another order, of which only parts were known
            found = [one for one in found if one not in met]
            within = range(
                min(within.start, *(span.start for _, span in met)), max(within.stop, *(span.stop for _, span in met))
            )
        if sum(block_length(blocks[at]) for at in within) > MOST_DIFFERING * total and not _same_shape(versions):
            continue
        if made_new < MOST_PLACES and versions.affords(within) and (made := new_place(versions, within)) is not None:
            found.append((likened(made[0], patterns), made[1]))
            taken.add(made[1])
            made_new += 1
    return bounded([place for place in _merged(found, blocks) if not is_forgotten(place)])


def _same_shape(versions: Versions) -> bool:
    """Whether nearly every block is about as long as it was: lines that all vary in a word, and no other text."""
    if len(versions.old) != len(versions.new) or len(versions.new) < FEWEST_LINES:
        return False
    alike = sum(abs((one & 0xFF) - (other & 0xFF)) <= 1 for one, other in zip(versions.old, versions.new))
    return alike >= SAME_SHAPE * len(versions.new)


class _Taken:
    """Which blocks lie in places, so that a stretch is not compared with every one of them."""

    def __init__(self, length: int) -> None:
        self._blocks, self._between = bytearray(2 * length + 2), bytearray(2 * length + 2)

    def add(self, span: range) -> None:
        """Take a span. One without blocks lies between two."""
        if span:
            self._blocks[2 * span.start + 1 : 2 * span.stop] = b"\1" * (2 * len(span) - 1)
        else:
            self._between[2 * span.start] = 1

    def meets(self, span: range) -> bool:
        """Whether a span has something of those taken in it."""
        if not span:
            return self._blocks[2 * span.start] == 1
        inside = slice(2 * span.start + 1, 2 * span.stop)
        return 1 in self._blocks[inside] or 1 in self._between[inside]


def _stretches(real: Sequence[Hunk], versions: Versions) -> list[tuple[range, bool]]:
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
