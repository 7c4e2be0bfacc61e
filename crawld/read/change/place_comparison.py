"""Two versions of a page, gone through place by place: what varies is learnt, and what differs otherwise remains."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from crawld.model.crawl import Place
from crawld.read.change.volatile import LIMITS as VOLATILE_LIMITS
from crawld.read.change.volatile import (
    bounded,
    has_few_variants,
    is_forgotten,
    patterns_of,
    rested,
    revisited,
    times_varied,
    variant_of,
    volatile_words,
    weighed,
    with_known_patterns,
)
from crawld.read.change.words import (
    Hunk,
    gap,
    gap_range,
    hunks,
    is_gap,
    is_volatile,
    kept_blocks,
    singles,
    varied_of,
    words_of,
)
from crawld.read.page.digest import Prepared, Reading, Walked, block_length


@dataclass(frozen=True)
class PlaceComparisonLimits:
    """Numbers that bound and tune this module."""

    max_place_words: int = 600
    reach: int = 8
    """Distance from a difference within which the block is looked for that marks the place."""
    adrift: int = 3
    """A block beside a place that did not stay at two of three visits does not mark it."""
    max_volatile: float = 0.75
    """A page of which a larger share varies changes at every visit, which is the truth."""
    max_differing: float = 0.8
    """Where a larger share of a page differs it is another text, and nothing is learnt from that."""
    same_shape: float = 0.9
    min_lines: int = 4
    """So large a share of the blocks, and so many, must be about as long as before where nearly all of them differ."""
    max_letters: int = 30_000
    """So much text of a page is taken apart into words at one visit; other differences count, and teach nothing."""


LIMITS = PlaceComparisonLimits()


Words = Sequence[int]
START, END = 1, 2
"""Stand for the edges of the page, which always stay."""


def located(place: Place, blocks: Sequence[int], where: Mapping[int, int]) -> range | None:
    """Locates a place in the version it was learnt from; `where` maps the single blocks of that version.

    Of two blocks beside it one may occur again, as a title does in the heading: the nearest one is meant.
    """
    left = -1 if place.left == START else where.get(place.left)
    right = len(blocks) if place.right == END else where.get(place.right)
    reach = place.most + LIMITS.reach
    if left is None and right is not None:
        left = next((at for at in range(right - 1, max(right - reach, 0) - 1, -1) if blocks[at] == place.left), None)
    elif right is None and left is not None:
        right = next((at for at in range(left + 1, min(left + reach, len(blocks))) if blocks[at] == place.right), None)
    return range(left + 1, right) if left is not None and right is not None and left < right else None


def followed(place: Place, span: range, lengths: tuple[int, int], kept: Mapping[int, int]) -> range | None:
    """Locates a place of an old version in a new one, given their lengths and which blocks were kept.

    A block beside it may have been edited, put in or taken out. Then the other side tells, where the place has always
    had as many blocks, or else the nearest blocks that were kept.
    """
    old_length, new_length = lengths
    left = 0 if span.start == 0 else kept.get(span.start - 1, -2) + 1
    right = new_length if span.stop == old_length else kept.get(span.stop, -1)
    fixed = place.most if place.fewest == place.most else None
    if left < 0 and right >= 0 and fixed is not None:
        left = right - fixed
    elif right < 0 <= left and fixed is not None:
        right = left + fixed
    if left < 0:
        before = range(span.start - 1, max(span.start - 1 - LIMITS.reach, -1), -1)
        left = next((kept[at] + span.start - at for at in before if at in kept), span.start)
    if right < 0:
        after = range(span.stop, min(span.stop + LIMITS.reach, old_length))
        right = next((kept[at] + span.stop - at for at in after if at in kept), new_length - old_length + span.stop)
    return range(left, right) if 0 <= left <= right <= new_length else None


def trimmed(place: Place, stood: Sequence[int], stands: Sequence[int]) -> tuple[Place, int, int]:
    """A place that has another number of blocks now, without the steady blocks at its ends, and how many these are."""
    shorter = min(len(stood), len(stands))
    if place.fewest < place.most:
        return _without_steady_ends(place, stood, stands)
    if len(stood) == len(stands):
        return place, 0, 0
    lead = 0
    while lead < shorter and stood[lead] == stands[lead] and not any(map(is_volatile, place.blocks[lead])):
        lead += 1
    trail = 0
    while (
        trail < shorter - lead
        and stood[-1 - trail] == stands[-1 - trail]
        and not any(map(is_volatile, place.blocks[-1 - trail]))
    ):
        trail += 1
    blocks = place.blocks[lead : len(place.blocks) - trail]
    return replace(place, blocks=blocks, fewest=len(blocks), most=len(blocks)), lead, trail


def _without_steady_ends(place: Place, stood: Sequence[int], stands: Sequence[int]) -> tuple[Place, int, int]:
    """A place of varying length without what was put in beside it, which has stayed at two visits; once is chance."""
    most = max(0, min(len(stood), len(stands)) - place.fewest)
    lead = next((at for at in range(most) if stood[at] != stands[at]), most)
    trail = next((at for at in range(most - lead) if stood[-1 - at] != stands[-1 - at]), most - lead)
    steady = tuple(block & 0xFFFF_FFFF for block in (*stands[:lead], *stands[len(stands) - trail :]))
    for_good = [block in place.common for block in steady]
    lead = for_good[:lead].index(False) if False in for_good[:lead] else lead
    ends = for_good[len(steady) - trail :][::-1]
    return replace(place, common=steady), lead, ends.index(False) if False in ends else trail


def anchored(place: Place, *, left: bool, right: bool) -> Place:
    """The place after a visit at which the block before it, and the one after it, stayed or did not."""
    before, after = place.adrift
    return replace(place, adrift=(_drift(before, stays=left), _drift(after, stays=right)))


def _drift(count: int, *, stays: bool) -> int:
    return max(0, count - 1) if stays else min(3, count + 2)


def widened(place: Place, words: Callable[[int], Words], span: range, length: int) -> tuple[Place, range]:
    """The place with the blocks beside it that keep changing: they mark no place, they belong to it."""
    before, after = (
        place.adrift[0] >= LIMITS.adrift and span.start > 0,
        place.adrift[1] >= LIMITS.adrift and span.stop < length,
    )
    if not before and not after:
        return place, span
    wider = range(span.start - before, span.stop + after)
    more = [tuple(words(at)) for at, one in ((wider.start, before), (wider.stop - 1, after)) if one]
    adrift = (0 if before else place.adrift[0], 0 if after else place.adrift[1])
    if place.fewest < place.most:
        fewest, most = gap_range(place.blocks[0][0])
        count = sum(map(len, more))
        whole = place.blocks[0][0] & ~0xFFFF_FFFF | fewest + count | min(most + count, 0xFFFF) << 16
        blocks: tuple[tuple[int, ...], ...] = ((whole,),)
    else:
        blocks = (*more[:before], *place.blocks, *more[before:])
    return replace(
        place, blocks=blocks, fewest=place.fewest + len(more), most=place.most + len(more), common=(), adrift=adrift
    ), wider


def joined(place: Place, other: Place) -> Place | None:
    """Two places with nothing between them as one; None where one has yet to show that it varies as the other does."""
    if place.fewest == place.most and other.fewest == other.most:
        blocks = (*place.blocks, *other.blocks)
        still = min(place.still, other.still)
        both = Place(0, 0, blocks, len(blocks), len(blocks), (), still)
        for one, beside in ((place, other), (other, place)):  # the variants of one, which are few, are those of both
            if has_few_variants(one) and not any(varied_of(word) for block in beside.blocks for word in block):
                return replace(both, variants=one.variants, fresh=one.fresh, agreed=one.agreed)
        return both
    first, second = (one.blocks[0][0] if one.fewest < one.most else _as_gap(one) for one in (place, other))
    if not varied_of(first) or not varied_of(second):
        return None
    fewest, most = (sum(pair) for pair in zip(gap_range(first), gap_range(second)))
    blocks = ((gap(fewest, most, (first, second)),),)
    still = min(place.still, other.still)
    return Place(0, 0, blocks, place.fewest + other.fewest, place.most + other.most, (), still)


def _as_gap(place: Place) -> int:
    words = [word for block in place.blocks for word in block]
    count = sum(gap_range(word)[1] if is_gap(word) else 1 for word in words)
    return gap(count, count, words)


class ComparedVersion(Protocol):
    """A version of a page, as far as a place is made of it."""

    new: Sequence[int]
    """Its blocks."""

    @property
    def single(self) -> Set[int]:
        """Blocks that it has once."""

    def words(self, at: int) -> tuple[int, ...]:
        """The words of the block at an index."""


def new_place(version: ComparedVersion, within: range) -> tuple[Place, range] | None:
    """A place for a difference, widened to blocks that occur once; None where they are too far or it is too large."""
    blocks = version.new
    found = _widened(blocks, version.single, within)
    if found is None:
        return None
    patterns: list[tuple[int, ...]] = []
    count = 0
    for at in found:
        patterns.append(version.words(at))
        count += 1 + len(patterns[-1])
        if count > LIMITS.max_place_words:
            return None
    left = blocks[found.start - 1] if found.start else START
    right = blocks[found.stop] if found.stop < len(blocks) else END
    return Place(left, right, tuple(patterns), len(found), len(found)), found


def _widened(blocks: Sequence[int], single: Set[int], within: range) -> range | None:
    start, stop = within.start, within.stop
    for _ in range(LIMITS.reach):
        if start == 0 or blocks[start - 1] in single:
            break
        start -= 1
    else:
        return None
    for _ in range(LIMITS.reach):
        if stop == len(blocks) or blocks[stop] in single:
            break
        stop += 1
    else:
        return None
    return range(start, stop)


class ComparedVersions:
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
        self.walked = None if reading.prepared is None else reading.prepared.walked
        """Result of the walk that was made where the texts are."""
        self.taken_apart: dict[int, tuple[int, ...]] = {}
        """The words of the blocks that were asked for."""
        self.lengths = len(old), len(new)
        self._letters = LIMITS.max_letters

    @cached_property
    def hunks(self) -> list[Hunk]:
        """Differences between the versions."""
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
        """Tells whether there is time to take these blocks apart into words; it is spent if there is."""
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
        if words is None and self._prepared is not None:
            words = self._prepared.words.get(at)
        elif words is None and len(self._texts[at]) <= LIMITS.max_letters:
            words = tuple(words_of(self._texts[at]))
        self.taken_apart[at] = words = (self.new[at] >> 8 & 0xFFFF_FFFF,) if words is None else words
        return words

    def count(self) -> int:
        """About how many words the newer version has."""
        return count_words(self._texts) if self._prepared is None else self._prepared.count

    def prepared(self, walked: Walked) -> Prepared:
        """Keeps what another comparison of these versions needs of the texts: the words asked for until now."""
        return Prepared(tuple(self._letters_of), self.count(), self.taken_apart, walked)


def count_words(texts: Sequence[str]) -> int:
    """About how many words there are in texts."""
    return sum(text.count(" ") + 1 for text in texts)


def _differences(versions: ComparedVersions, explained: Sequence[tuple[range, range]]) -> list[Hunk]:
    """Differences outside explained places."""
    if not explained:
        return versions.hunks
    old_at, old = _with_marks(versions.old, [pair[0] for pair in explained])
    new_at, new = _with_marks(versions.new, [pair[1] for pair in explained])
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


def walk_places(versions: ComparedVersions) -> Walked:
    """Find the places again, and learn from what stands in them now.

    A place that the host lends is the page's once it explains a difference.
    """
    if not versions.places and not versions.lent:
        return Walked((), (), tuple(versions.hunks))
    again: list[tuple[Place, range]] = []
    explained_at: list[tuple[range, range]] = []
    found = []
    where = singles(versions.old)
    lent = set(map(id, versions.lent))
    for place in (*versions.lent, *versions.places):
        before = located(place, versions.old, where)
        now = None if before is None else followed(place, before, versions.lengths, versions.kept)
        if before is not None and place.fewest < place.most:
            stays = has_few_variants(place) or (_stays(before.start - 1, versions) and _stays(before.stop, versions))
            if now is None or not stays:  # nothing tells where a place of many variants ends
                stretch = _between_kept(before, versions)
                now = now if stretch is None else stretch
        if now is not None and before is not None:
            found.append((now, before, place))
    found.sort(key=lambda one: (one[0].start, id(one[2]) not in lent, one[0].stop))
    end = old_end = -1
    volatile, most = 0, LIMITS.max_volatile * versions.count() if found else 0.0
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
            again.append(_grown(rested(place), versions, now))
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
        again.append(_grown(learnt, versions, now))
        volatile += min(volatile_words(learnt), sum(map(len, words)))
        if explained and volatile <= most:
            explained_at.append((before, now))
    return Walked(tuple(again), tuple(explained_at), tuple(_differences(versions, explained_at)))


def _grown(place: Place, versions: ComparedVersions, span: range) -> tuple[Place, range]:
    """The place with blocks beside it that keep changing; where it has few variants, these are known without them."""
    if place.fewest < place.most and has_few_variants(place):
        return place, span
    return widened(place, versions.words, span, len(versions.new))


def _known_variant(place: Place, versions: ComparedVersions, before: range, span: range) -> range:
    """Locates a known variant beside inserted or removed blocks; returns the span as it is where there is none.

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
        for cut in range(1, min(LIMITS.reach, len(within) + 1 - fewest)):
            for lead in range(cut, -1, -1) if lost_left else range(cut + 1):
                if variant_of(place, words[lead : len(words) - cut + lead]) in place.variants:
                    return range(within.start + lead, within.stop - cut + lead)
    return span


def _between_kept(before: range, versions: ComparedVersions) -> range | None:
    """The stretch of the newer version between the blocks beside a place that stayed, where these are near."""
    kept, (old_length, new_length) = versions.kept, versions.lengths
    left = next(
        (kept[at] + 1 for at in range(before.start - 1, before.start - 1 - LIMITS.reach, -1) if at in kept), None
    )
    right = next((kept[at] for at in range(before.stop, before.stop + LIMITS.reach) if at in kept), None)
    left = 0 if left is None and before.start <= LIMITS.reach else left
    right = new_length if right is None and old_length - before.stop <= LIMITS.reach else right
    return range(left, right) if left is not None and right is not None and left <= right else None


def _stays(at: int, versions: ComparedVersions) -> bool:
    """Tells whether the block at an index of the old version, or the edge of the page, is kept."""
    return at in versions.kept or not 0 <= at < len(versions.old)


def places_after(walk: Walked, real: Sequence[Hunk], versions: ComparedVersions) -> tuple[Place, ...]:
    """Returns the places to remember: those found again, and one for every new difference."""
    blocks, found, made_new = versions.blocks, list(walk.found), 0
    patterns = patterns_of(place for place, _ in found) if found else {}
    taken = bytearray(2 * len(blocks) + 2)
    for _, span in found:
        _take(taken, span)
    total = sum(map(block_length, blocks)) or 1.0
    for stretch, moved in _stretches(real, versions):
        within = stretch
        if moved:  # a list in another order, of which only parts may be known
            met = [one for one in found if within.start < one[1].stop and one[1].start < within.stop]
            if any(span.start <= within.start and within.stop <= span.stop for _, span in met):
                continue  # it lies in a place that has learnt from it
            found = [one for one in found if one not in met]
            starts, stops = (span.start for _, span in met), (span.stop for _, span in met)
            within = range(min(within.start, *starts, len(blocks)), max(within.stop, *stops, 0))
        elif found and _meets(taken, within):
            continue
        letters = sum(map(block_length, blocks[within.start : within.stop]))
        if letters > LIMITS.max_differing * total:  # lines that all vary in a word are learnt, and no other text
            pairs = list(zip(versions.old, versions.new))
            alike = sum(abs((one & 0xFF) - (other & 0xFF)) <= 1 for one, other in pairs)  # about as long
            least = max(LIMITS.min_lines, LIMITS.same_shape * len(pairs))
            if len(versions.old) != len(versions.new) or alike < least:
                continue
        if (
            made_new < VOLATILE_LIMITS.max_places
            and versions.affords(within)
            and (made := new_place(versions, within)) is not None
        ):
            found.append((with_known_patterns(made[0], patterns), made[1]))
            _take(taken, made[1])
            made_new += 1
    return bounded([place for place in _merged(found, blocks) if not is_forgotten(place)]) if found else ()


def _take(taken: bytearray, span: range) -> None:
    """Mark a span as taken, in which each block and each gap between two blocks has a byte: of no blocks, a gap."""
    if span:
        taken[2 * span.start + 1 : 2 * span.stop] = b"\1" * (2 * len(span) - 1)
    else:
        taken[2 * span.start] |= 2


def _meets(taken: bytearray, span: range) -> bool:
    """Tells whether a span has something of those taken in it, or lies in one, without a look at each of them."""
    return any(taken[2 * span.start + 1 : 2 * span.stop]) if span else taken[2 * span.start] & 1 == 1


def _stretches(real: Sequence[Hunk], versions: ComparedVersions) -> list[tuple[range, bool]]:
    """Stretches in which the newer version differs, and whether blocks moved there: a reordered list is one stretch."""
    removed, inserted = set[int](), set[int]()
    for hunk in real:
        removed.update(versions.old[hunk.old_from : hunk.old_to])
        inserted.update(versions.new[hunk.new_from : hunk.new_to])
    both = removed & inserted
    start, stop = len(versions.new), -1
    for hunk in real if both else ():
        pair = versions.old[hunk.old_from : hunk.old_to], versions.new[hunk.new_from : hunk.new_to]
        if not (both.isdisjoint(pair[0]) and both.isdisjoint(pair[1])):
            start, stop = min(start, hunk.new_from), max(stop, hunk.new_to)
    apart = [(range(hunk.new_from, hunk.new_to), False) for hunk in real if hunk.new_to < start or stop < hunk.new_from]
    return [(range(start, stop), True), *apart] if both else apart


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
