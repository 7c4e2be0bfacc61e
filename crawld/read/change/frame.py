"""The frame of a host: menus, footers and banners, learnt as the blocks that many of its pages share.

A page whose only differences lie in the frame has not changed; the site has. The host is known by a sketch: the blocks
of the pages seen most recently, which of them pages gained or lost lately, the texts that pages turned to, and what
varies on many of them. A few pages prove nothing, since anyone may write pages of a wiki: what counts is their share
among the pages of the same part of the site.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, islice
from typing import Any, TypeVar

from crawld.model.crawl import Digest, HostNoise, Memory, Place
from crawld.model.host import FrameChange
from crawld.read.change.moments import LIMITS as MOMENTS_LIMITS
from crawld.read.change.moments import key_of, keys_of
from crawld.read.change.place_comparison import END, START
from crawld.read.change.volatile import lent, times_varied, varying_blocks, was_paired
from crawld.read.change.words import Hunk
from crawld.read.page.digest import block_length


@dataclass(frozen=True)
class FrameLimits:
    """Numbers that bound and tune this module."""

    max_pages: int = 256
    max_blocks_sketched: int = 65_536
    max_moves: int = 2_048
    max_texts: int = 64
    max_events: int = 8
    move_weight: int = 4
    turn_weight: int = 2
    """Memory of a move beside its pages, and of a page that turned to a text, in blocks."""
    min_pages: int = 4
    """A host of fewer pages has no frame that could be told from content."""
    shared_by: int = 3
    shared_share: float = 0.3
    """A block is frame where so many other pages have it, and so large a share of them."""
    moved_share: float = 0.6
    """A block that a share of all other pages gained or lost, and most of those seen since, moved with the site."""
    all_share: float = 0.9
    all_pages: int = 24
    """Within the text of pages only what so large a share of all pages gain or lose is the site's, on a host of so
    many."""
    title_share: float = 0.6
    """A word that so large a share of the other pages have in their titles is the site's."""
    turned_by: int = 2
    max_turned_by: int = 5
    turned_share: float = 0.2
    """So many other pages must turn to a text before it is one of an error: more on a host of more pages, up to a
    bound."""
    kept_share: float = 0.3
    """A page that still has so much of its own text shows no error."""
    max_lent: int = 16
    """Places of templates that are lent to other pages."""
    own_bytes: float = 200.0
    """A page with less text of its own is compared as a whole: its frame may be all there is to it."""
    contradicted_by: int = 3
    looked_at: int = 64  # other pages, of those seen most recently
    neighbours: int = 16
    error_seconds: float = 86_400.0


LIMITS = FrameLimits()


_EDGE = 0
EMPTY = Digest(b"")


class Explained(IntEnum):
    """Tells a difference of the site from one of the page."""

    NO = 0
    PRESUMED = 1  # by its surroundings alone: other pages have yet to show it
    YES = 2


@dataclass(slots=True)
class _Seen:
    at: float  # when the page was asked for: what it showed may come in after what another showed later
    blocks: tuple[int, ...]
    part: str = ""  # of the site that it belongs to
    words: frozenset[int] = frozenset()  # of its title, as numbers below zero, which no block has
    steady: bool = True  # it showed this text at another visit as well
    masked: frozenset[int] = frozenset()  # its blocks that hold times and counters, without them


@dataclass(slots=True)
class _Move:
    """A block that pages gained, or lost, since that time."""

    at: float
    pages: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Template:
    """A place between two blocks that many pages share, and the pages on which pairs of fetches differed in it."""

    place: Place
    differed: set[int] = field(default_factory=set)
    agreed: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Event:
    first_at: float
    pages: set[int]
    lost: set[int]
    gained: set[int]


class HostFrame:
    """The sketch of one host."""

    def __init__(self, name: str, pages: Iterable[tuple[Any, ...]] = ()) -> None:
        self.name = name
        self._blocks = 0  # of the pages held
        self._moves = 0  # what the moves weigh,
        self._rest = 0  # and everything else
        self._pages: OrderedDict[int, _Seen] = OrderedDict()
        self._counts: dict[str | None, dict[int, int]] = {None: {}}  # pages that have a block, by part and altogether
        self._sizes: dict[str | None, int] = {None: 0}
        self._varied: dict[int, set[int]] = {}  # pages on which a block with times or counters varied,
        self._stayed: dict[int, set[int]] = {}  # and those on which it has not, since it did on others
        self._places: OrderedDict[tuple[int, int], _Template] = OrderedDict()
        self._noise: HostNoise | None = None
        self._gained: OrderedDict[int, _Move] = OrderedDict()
        self._lost: OrderedDict[int, _Move] = OrderedDict()
        self._turned: OrderedDict[bytes, dict[int, tuple[bytes, float]]] = OrderedDict()
        self._events: deque[_Event] = deque(maxlen=LIMITS.max_events)
        self._presumed: OrderedDict[int, tuple[tuple[int, ...], tuple[int, ...]]] = OrderedDict()
        for page in pages:
            self.hold(*page)

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def weight(self) -> int:
        """Memory of the sketch, in blocks."""
        return self._blocks + self._moves + self._rest

    def view(self, page_id: int, known: Digest, seen: Digest) -> "PageFrame":
        """Sets two versions of a page beside the frame."""
        return PageFrame(self, page_id, known, seen)

    def left_out(self, page_id: int, version: Digest) -> list[bool]:
        """For each block of a page, whether it is frame; none is where the page has little of its own, or a main."""
        view = self.view(page_id, version, version)
        frame = [view.is_shared(block) and not version.in_main for block in view.new]
        own = sum(block_length(block) for block, shared in zip(version.blocks, frame) if not shared)
        return frame if own >= LIMITS.own_bytes else [False] * len(frame)

    @property
    def noise(self) -> HostNoise:
        """Noise of the host: it varies on a share of the pages that have it, and so on the others as well."""
        if self._noise is None:
            stayed: set[int] = set()
            blocks = (k for k, pages in self._varied.items() if _is_share(pages, self._stayed.get(k, stayed)))
            places = (lent(one.place) for one in self._places.values() if _is_share(one.differed, one.agreed))
            self._noise = HostNoise(
                frozenset(islice(blocks, MOMENTS_LIMITS.max_varying)),
                tuple(islice(filter(None, places), LIMITS.max_lent)),
            )
        return self._noise

    def is_error_page(self, page_id: int, before: Digest, seen: Digest, at: float) -> bool:
        """Tells whether other pages, which had steady texts of their own, have turned to this text lately as well.

        They are a share of the pages seen since the first of them did. A page that keeps much of its own text shows
        it, even where others have copied that.
        """
        turned = self._turned.get(seen.text or b"")
        if turned is None or before.text is None or (before.text == seen.text and page_id not in turned):
            return False
        view = self.view(page_id, before, seen)
        own = turned[page_id][0] if page_id in turned else before.text
        lately = {
            other: when
            for other, (previous, when) in turned.items()
            if other != page_id and at - when <= LIMITS.error_seconds and previous != own and view.is_peer(other)
        }
        texts = {turned[other][0] for other in lately}
        if len(texts) < max(LIMITS.turned_by, min(LIMITS.max_turned_by, round(LIMITS.turned_share * view.peers))):
            return False
        first = min(lately.values())
        since = {other for other, page in self._pages.items() if page.at > first and view.is_peer(other)} - {page_id}
        if len(lately) < LIMITS.moved_share * len(since | set(lately)):
            return False
        return before.text == seen.text or not view.keeps_its_text()

    def owes_a_change(self, page_id: int) -> bool:
        """Tells whether a page's difference was taken for the frame's, and other pages seen since do not show it."""
        presumed = self._presumed.get(page_id)
        if presumed is None:
            return False
        lost, gained = presumed
        view = self.view(page_id, EMPTY, EMPTY)
        moves = [(block, True) for block in gained] + [(block, False) for block in lost]
        if any(view.moved(block, gained=how, share=LIMITS.all_share) for block, how in moves):
            self.settle(page_id)
            return False
        return view.is_contradicted(lost, gained)

    def presume(self, page_id: int, lost: tuple[int, ...], gained: tuple[int, ...]) -> None:
        """Note a difference that is taken for the frame's, so that it counts where no other page shows it."""
        self.settle(page_id)
        self._presumed[page_id] = lost, gained
        self._rest += 1 + len(lost) + len(gained)
        while len(self._presumed) > LIMITS.max_pages:
            self.settle(next(iter(self._presumed)))

    def settle(self, page_id: int) -> None:
        """Note that a page counted as changed: nothing is owed any more."""
        if (presumed := self._presumed.pop(page_id, None)) is not None:
            self._rest -= 1 + len(presumed[0]) + len(presumed[1])

    def hold(self, page_id: int, blocks: Sequence[int], url: str = "", memory: Memory | None = None) -> None:
        """Take in the blocks of a page, and what was learnt of it, as kept; the page seen longest ago first."""
        digest = memory.digest if memory is not None else EMPTY
        own = numbered(blocks, titled=bool(digest.title))
        self._put(page_id, _Seen(0.0, own, part_of(url), title_blocks(digest), masked=masks_of(digest)))
        if memory is not None:
            self._note_noise(page_id, memory)

    def see(self, page_id: int, before: Digest | None, seen: Digest, at: float, url: str = "") -> None:
        """Take in a version of a page; `before` is the one remembered, where there is one."""
        if before is not None:
            self.turned(page_id, before, seen, at)
        if seen.text is None:
            return
        known = self._pages.get(page_id)
        if before is seen and known is not None:  # the very bytes of last time
            known.at, known.steady = at, True
            self._note_steady(page_id, known)
            self._pages.move_to_end(page_id)
            return
        steady = before is not None and before.text == seen.text
        page = _Seen(
            at, numbered(seen.blocks, titled=bool(seen.title)), part_of(url), title_blocks(seen), steady, masks_of(seen)
        )
        new = old = page.words.union(page.blocks)
        if known is not None:
            old = known.words.union(known.blocks)
        elif before is not None:
            old = title_blocks(before).union(numbered(before.blocks, titled=bool(before.title)))
        self._put(page_id, page)
        if before is not None:
            self._note_steady(page_id, page)
        if old == new:
            return
        self._note_moves(self._gained, self._lost, page_id, new - old, at)
        self._note_moves(self._lost, self._gained, page_id, old - new, at)

    def learn_noise(self, page_id: int, memory: Memory) -> None:
        """Take in what varies on a page."""
        if page_id in self._pages:
            self._forget_noise(page_id)
            self._note_noise(page_id, memory)
            self._note_steady(page_id, self._pages[page_id])

    def _note_noise(self, page_id: int, memory: Memory) -> None:
        for key in keys_of(memory.varying):
            self._varied.setdefault(key, set()).add(page_id)
            self._stayed.get(key, set()).discard(page_id)
        if memory.places:
            view = self.view(page_id, EMPTY, EMPTY)
            for place in memory.places:
                if times_varied(place) >= LIMITS.turned_by and view.is_between_shared(place):
                    template = self._places.setdefault((place.left, place.right), _Template(place))
                    if was_paired(place) and varying_blocks(place) >= varying_blocks(template.place):
                        template.place = place
                    (template.differed if was_paired(place) else template.agreed).add(page_id)
            while len(self._places) > 4 * LIMITS.max_lent:
                self._places.popitem(last=False)
        self._noise = None

    def _note_steady(self, page_id: int, page: _Seen) -> None:
        """Note where a page that was seen again has not varied as others did."""
        for key in page.masked & self._varied.keys():
            if page_id not in self._varied[key]:
                self._stayed.setdefault(key, set()).add(page_id)

    def _forget_noise(self, page_id: int) -> None:
        for pages in (*self._varied.values(), *self._stayed.values()):
            pages.discard(page_id)
        for template in self._places.values():
            template.differed.discard(page_id)
            template.agreed.discard(page_id)
        for key in [key for key, pages in self._varied.items() if not pages]:
            del self._varied[key]
            self._stayed.pop(key, None)
        self._noise = None

    def turned(self, page_id: int, before: Digest, seen: Digest, at: float) -> None:
        """Note that a page shows another text and nothing of its own.

        One that changes at every visit proves nothing by that.
        """
        known = self._pages.get(page_id)
        if not before.text or not seen.text or before.text == seen.text or not (known is None or known.steady):
            return
        if self.view(page_id, before, seen).keeps_its_text():
            return
        turned = self._turned.setdefault(seen.text, {})
        self._turned.move_to_end(seen.text)
        if len(turned) < LIMITS.max_pages:
            self._rest += LIMITS.turn_weight * (page_id not in turned)
            turned[page_id] = (turned.get(page_id, (before.text, at))[0], at)
        while len(self._turned) > LIMITS.max_texts:
            _, forgotten = self._turned.popitem(last=False)
            self._rest -= LIMITS.turn_weight * len(forgotten)

    def shared_edit(self, page_id: int, before: Digest, seen: Digest, at: float) -> FrameChange | None:
        """The event of the site that a changed page belongs to: an edit that at least two other pages show as well."""
        moves: list[_Move] = []
        for block in set(seen.blocks) - set(before.blocks):
            move = self._gained.get(block)
            if move is None or at - move.at > LIMITS.error_seconds:
                continue
            if len(move.pages - {page_id}) >= LIMITS.turned_by:
                moves.append(move)
        if not moves:
            return None
        pages = len(set().union(*(move.pages for move in moves)) | {page_id})
        return FrameChange(self.name, min(move.at for move in moves), at, pages, 0, len(moves), kind="content")

    def changed(self, page_id: int, lost: Sequence[int], gained: Sequence[int], at: float) -> FrameChange | None:
        """Note a difference of the frame that a page showed: the event it belongs to, once two pages showed it."""
        event = next((e for e in self._events if e.lost & set(lost) or e.gained & set(gained)), None)
        if event is None:
            event = _Event(at, set(), set(), set())
            self._events.append(event)
        event.pages.add(page_id)
        event.lost.update(islice(lost, min(LIMITS.max_pages, LIMITS.max_moves - len(event.lost))))
        event.gained.update(islice(gained, min(LIMITS.max_pages, LIMITS.max_moves - len(event.gained))))
        if len(event.pages) < 2:
            return None
        return FrameChange(self.name, event.first_at, at, len(event.pages), len(event.lost), len(event.gained))

    def _put(self, page_id: int, page: _Seen) -> None:
        known = self._pages.get(page_id)
        if known is not None and (known.blocks, known.part, known.words) == (page.blocks, page.part, page.words):
            known.at, known.steady = page.at, page.steady
            self._pages.move_to_end(page_id)
            return
        if known is not None:
            self._count(self._pages.pop(page_id), -1)
        self._pages[page_id] = page
        self._count(page, 1)
        while len(self._pages) > LIMITS.max_pages or (
            self._blocks > LIMITS.max_blocks_sketched and len(self._pages) > 2
        ):
            oldest = next(iter(self._pages))
            self._forget_noise(oldest)
            self._count(self._pages.pop(oldest), -1)

    def _count(self, page: _Seen, step: int) -> None:
        """Count a page in, or out."""
        self._blocks += step * (2 * len(page.blocks) + len(page.words) + len(page.masked)) // 2
        for part in (None, page.part):
            counts = self._counts.setdefault(part, {})
            _add(counts, page.blocks, step)
            _add(counts, page.words, step)
            self._sizes[part] = self._sizes.get(part, 0) + step
            if part is not None and not self._sizes[part]:
                del self._sizes[part], self._counts[part]

    def _note_moves(
        self, here: OrderedDict[int, _Move], there: OrderedDict[int, _Move], page_id: int, blocks: Set[int], at: float
    ) -> None:
        """Note that a page gained (or lost) blocks, and take back that it lost (or gained) them before."""
        for block in islice(blocks, LIMITS.max_pages):
            if (back := there.get(block)) is not None and page_id in back.pages:
                back.pages.discard(page_id)
                self._moves -= 1
                if not back.pages:
                    del there[block]
                    self._moves -= LIMITS.move_weight
            move = here.get(block)
            if move is None:
                move = here[block] = _Move(at)
                self._moves += LIMITS.move_weight
            here.move_to_end(block)
            if len(move.pages) < LIMITS.max_pages and page_id not in move.pages:
                move.pages.add(page_id)
                self._moves += 1
        while here and (len(here) > LIMITS.max_moves or self._moves > LIMITS.max_blocks_sketched):
            _, forgotten = here.popitem(last=False)
            self._moves -= LIMITS.move_weight + len(forgotten.pages)


def _is_share(pages: Set[int], others: Set[int]) -> bool:
    return len(pages) >= LIMITS.shared_by and len(pages) >= LIMITS.shared_share * (len(pages) + len(others))


def _add(counts: dict[int, int], blocks: Iterable[int], step: int) -> None:
    for block in blocks:
        if left := counts.get(block, 0) + step:
            counts[block] = left
        else:
            del counts[block]


def part_of(url: str) -> str:
    """The part of a site that a page belongs to: the first folder of its path."""
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    return path.partition("/")[0][:100] if "/" in path else ""


def title_blocks(digest: Digest) -> frozenset[int]:
    """The words of a title as numbers below zero, which no block has."""
    return frozenset(-1 - word for word in digest.title)


def masks_of(digest: Digest) -> frozenset[int]:
    """The blocks that hold times and counters, without them."""
    return frozenset(key_of(number) for _, number, _ in digest.times)


Page = TypeVar("Page", bound=tuple[Any, ...])


def newest_that_fit(pages: Sequence[Page]) -> Sequence[Page]:
    """Returns the pages, oldest first, that a frame made of them all would still hold."""
    blocks, count = 0, 0
    for page in islice(reversed(pages), LIMITS.max_pages):
        blocks += len(page[1])
        if blocks > LIMITS.max_blocks_sketched and count >= 2:
            break
        count += 1
    return pages[len(pages) - count :]


def numbered(blocks: Sequence[int], *, titled: bool = False) -> tuple[int, ...]:
    """The blocks, each further occurrence of one a block of its own: a title in a menu is not the title itself."""
    if titled:
        return (blocks[0] ^ 1 << 62, *numbered(blocks[1:]))
    if len(set(blocks)) == len(blocks):
        return tuple(blocks)
    times: dict[int, int] = {}
    found = []
    for block in blocks:
        n = times.get(block, 0)
        times[block] = n + 1
        found.append(block if n == 0 else (block ^ n * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF)
    return tuple(found)


class PageFrame:
    """Two versions of a page beside the other pages of its part of the site, or all pages where these are few."""

    def __init__(self, host: HostFrame, page_id: int, known: Digest, seen: Digest) -> None:
        self._host, self._page_id = host, page_id
        self._known, self._seen = known, seen
        self.old, self.new = (numbered(one.blocks, titled=bool(one.title)) for one in (known, seen))
        own = host._pages.get(page_id)
        self._own = own.words.union(own.blocks) if own is not None else frozenset()
        few = own is None or host._sizes[own.part] <= LIMITS.min_pages
        self._part = None if few or own is None else own.part
        self._counts = host._counts[self._part]
        self.peers = host._sizes[self._part] - (own is not None)
        self._min_shared = max(LIMITS.shared_by, LIMITS.shared_share * self.peers)
        self._sets: list[tuple[int, _Seen, frozenset[int]]] | None = None
        self._own_before: list[int] | None = None
        self._indices: list[dict[int, int]] | None = None

    def is_peer(self, page_id: int) -> bool:
        """Tells whether another page says something about this one."""
        other = self._host._pages.get(page_id)
        return other is None or self._part is None or other.part == self._part

    def is_between_shared(self, place: Place) -> bool:
        """Tells whether a place lies between two blocks of the template, one of which may be an edge of the page."""
        edges = (place.left == START) + (place.right == END)
        return edges < 2 and all(block in {START, END} or self.is_shared(block) for block in (place.left, place.right))

    def keeps_its_text(self) -> bool:
        """Tells whether the newer version has much of what was the page's own in the older one."""
        own = [block for block in self.old if not self.is_shared(block)] or self.old
        kept = set(self.new)
        return sum(map(block_length, kept.intersection(own))) >= LIMITS.kept_share * sum(map(block_length, own)) > 0

    def has_content(self, differences: Sequence[Hunk]) -> bool:
        """Tells whether the page has text of its own beside the differences, so that its frame can be told from it."""
        differing = {at for hunk in differences for at in range(hunk.new_from, hunk.new_to)}
        own = 0.0
        for at, block in enumerate(self.new):
            if at not in differing and not self.is_shared(block):
                own += block_length(block)
                if own >= LIMITS.own_bytes:
                    return True
        return False

    def is_shared(self, block: int) -> bool:
        """Tells whether a block is frame by its share among the other pages."""
        return block == _EDGE or self._others(block) >= self._min_shared

    def _others(self, block: int) -> int:
        """Counts the other pages that have the block."""
        return self._counts.get(block, 0) - (block in self._own)

    def explains_title(self) -> tuple[Explained, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Tells whether a difference of the title is the site's, and the words that the title lost and gained.

        That is where the words are those of all titles, such as the name of the site and its version.
        """
        old, new = (tuple(-1 - word for word in version.title) for version in (self._known, self._seen))
        start = next((at for at, (one, other) in enumerate(zip(old, new)) if one != other), min(len(old), len(new)))
        shorter = min(len(old), len(new)) - start
        tail = next((at for at in range(shorter) if old[-1 - at] != new[-1 - at]), shorter)
        lost, gained = old[start : len(old) - tail], new[start : len(new) - tail]
        words = lost, gained
        beside = (old[start - 1 : start] if start else ()) + old[len(old) - tail :][:1]
        of_site = [self._in_titles(word) or self.moved(word, gained=False) for word in lost]
        came = [self._in_titles(word) or self.moved(word, gained=True) for word in gained]
        if all(of_site) and all(came):
            return Explained.YES, words
        known = all(map(self._in_titles, lost)) and (bool(lost) or (bool(beside) and all(map(self._in_titles, beside))))
        return Explained.PRESUMED if known and not self.is_contradicted(lost, gained) else Explained.NO, words

    def _in_titles(self, word: int) -> bool:
        return self._others(word) >= max(LIMITS.shared_by, LIMITS.title_share * self.peers)

    def explains(self, hunk: Hunk) -> Explained:
        """Tells whether a difference is one of the frame.

        1. In the page's main element, or between its heading and its text: where nearly all pages of the host show it,
           and in a main element it came or went: what took the place of another text there is content.
        2. Outside: where many other pages show it, and most of those seen since; presumed until nearly all do.
        3. Outside, and the page says anew what its main element is: what is left out, or no longer, is presumed frame.
        4. Outside, at a place where the frame of other pages is the same: it is presumed.
        """
        removed, inserted = self.old[hunk.old_from : hunk.old_to], self.new[hunk.new_from : hunk.new_to]
        in_main = bool(removed and self._known.in_main) or bool(inserted and self._seen.in_main)
        if in_main or not self._is_outside(hunk):
            exchanged = in_main and removed and inserted  # a status or price, which no banner is
            return Explained.NO if exchanged else self._explains_inside(hunk, removed, inserted)
        lost = [self.moved(block, gained=False) for block in removed]
        gained = [self.moved(block, gained=True) for block in inserted]
        removed_shared = [self.is_shared(block) for block in removed]
        inserted_shared = [self.is_shared(block) for block in inserted]
        if (
            (any(lost) or any(gained))
            and all(map(max, lost, removed_shared))
            and all(map(max, gained, inserted_shared))
        ):
            return Explained.PRESUMED
        likely = all(removed_shared) and (
            self._known.in_main != self._seen.in_main or self._runs_elsewhere(hunk, removed, inserted)
        )
        return Explained.PRESUMED if likely and not self.is_contradicted(removed, inserted) else Explained.NO

    def _explains_inside(self, hunk: Hunk, removed: Sequence[int], inserted: Sequence[int]) -> Explained:
        """Tells whether a difference within the page's text was made by the template on nearly all pages at once.

        It counts after all where pages seen later do not show it.
        """
        own = self._count_own()
        amid_text = own[hunk.old_from] > 1 and own[hunk.old_to] < own[-1]  # the first block of its own is its heading
        if amid_text or self._host._sizes[None] < LIMITS.all_pages:
            return Explained.NO
        at_template = all(map(self._was_everywhere, removed)) if removed else self._is_slot(hunk)
        of_site = (
            at_template
            and all(self.moved_everywhere(block, gained=True) for block in inserted)
            and all(self.moved_everywhere(block, gained=False) for block in removed)
        )
        return Explained.PRESUMED if of_site and not self.is_contradicted(removed, inserted) else Explained.NO

    def _is_slot(self, hunk: Hunk) -> bool:
        """Tells whether a place is the template's: above a block of nearly all pages, and below one or the heading."""
        plain = self._known.blocks
        left = plain[hunk.old_from - 1] if hunk.old_from else _EDGE
        below_heading = self._count_own()[hunk.old_from] <= 1
        return (
            hunk.old_to < len(plain)
            and self._is_everywhere(plain[hunk.old_to])
            and (below_heading or self._is_everywhere(left))
        )

    def _is_everywhere(self, block: int) -> bool:
        return self._host._counts[None].get(block, 0) >= LIMITS.all_share * self._host._sizes[None]

    def _was_everywhere(self, block: int) -> bool:
        """Tells whether nearly all pages of the host have a block, or had it until it was lost lately."""
        lost = self._host._lost.get(block)
        count = self._host._counts[None].get(block, 0) + (len(lost.pages) if lost is not None else 0)
        return count >= LIMITS.all_share * self._host._sizes[None]

    def moved_everywhere(self, block: int, *, gained: bool) -> bool:
        """Tells whether nearly all pages of the host seen since the first gained, or lost, the block did so too.

        With this page they are at least three.
        """
        move = (self._host._gained if gained else self._host._lost).get(block)
        if move is None:
            return False
        recent = islice(reversed(self._host._pages.items()), LIMITS.looked_at)
        since = [page in move.pages for page, seen in recent if seen.at >= move.at and page != self._page_id]
        return sum(since) >= max(LIMITS.shared_by - 1, LIMITS.all_share * len(since))

    def _is_outside(self, hunk: Hunk) -> bool:
        """Tells whether only frame, and the document's title, lies between the difference and one end of the page."""
        own = self._count_own()
        return own[-1] == own[hunk.old_to] or own[hunk.old_from] == 0

    def _count_own(self) -> list[int]:
        """Counts the page's own blocks before each block of the older version."""
        if self._own_before is None:
            titled = bool(self._known.title)
            own = (
                not (titled and at == 0) and not self.is_shared(block) and not self.moved(block, gained=False)
                for at, block in enumerate(self.old)
            )
            self._own_before = list(accumulate(own, initial=0))
        return self._own_before

    def moved(self, block: int, *, gained: bool, share: float = LIMITS.moved_share) -> bool:
        """Tells whether other pages gained, or lost, the block as well, and most of those seen since did."""
        move = (self._host._gained if gained else self._host._lost).get(block)
        if move is None:
            return False
        by = sum(1 for page in move.pages if page != self._page_id and self.is_peer(page))
        if by < self._min_shared:
            return False
        against = sum(
            seen.at > move.at and (block in blocks) != gained and not self._went_back(page, block, gained=gained)
            for page, seen, blocks in self._recent()
        )
        return by >= share * (by + against)

    def _went_back(self, page: int, block: int, *, gained: bool) -> bool:
        """Tells whether a page that does not show a move has shown it: it lost what it had gained, or has it again."""
        back = (self._host._lost if gained else self._host._gained).get(block)
        return back is not None and page in back.pages

    def is_contradicted(self, removed: Sequence[int], inserted: Sequence[int]) -> bool:
        """Tells whether this page showed the difference before, and too many other pages seen since do not."""
        moves = [self._host._gained.get(block) for block in inserted] + [
            self._host._lost.get(block) for block in removed
        ]
        times = [move.at for move in moves if move is not None and self._page_id in move.pages]
        if not times:
            return False
        wanted, unwanted = set(inserted), set(removed)
        since = ((page, blocks) for page, seen, blocks in self._recent() if seen.at > max(times))
        against = [
            any(not self._went_back(page, block, gained=True) for block in wanted - blocks)
            or any(not self._went_back(page, block, gained=False) for block in unwanted & blocks)
            for page, blocks in since
        ]
        return sum(against) >= max(LIMITS.contradicted_by, LIMITS.shared_share * len(against))

    def _runs_elsewhere(self, hunk: Hunk, removed: Sequence[int], inserted: Sequence[int]) -> bool:
        """Tells whether the blocks beside the difference are frame, and so on other pages, before or after it."""
        # Beside the difference, a page's own title in the menu is what it is on other pages: one entry.
        plain = self._known.blocks
        left = plain[hunk.old_from - 1] if hunk.old_from else _EDGE
        right = plain[hunk.old_to] if hunk.old_to < len(self.old) else _EDGE
        if left == right == _EDGE or not (self.is_shared(left) and self.is_shared(right)):
            return False
        runs, having = 0, 0
        if self._indices is None:
            recent = islice(self._recent(), LIMITS.neighbours)
            self._indices = [{block: at for at, block in enumerate(seen.blocks)} for _, seen, _ in recent]
        for (_, seen, blocks), where in zip(self._recent(), self._indices):
            if (left != _EDGE and left not in blocks) or (right != _EDGE and right not in blocks):
                continue
            having += 1
            at = 0 if left == _EDGE else where[left] + 1
            runs += any(_follows(seen.blocks, at, run, right) for run in (removed, inserted))
        return runs >= LIMITS.shared_by and 2 * runs >= having

    def _recent(self) -> list[tuple[int, _Seen, frozenset[int]]]:
        if self._sets is None:
            pages = reversed(self._host._pages.items())
            others = ((page, seen) for page, seen in pages if page != self._page_id and self._part in {None, seen.part})
            self._sets = [
                (page, seen, seen.words.union(seen.blocks)) for page, seen in islice(others, LIMITS.looked_at)
            ]
        return self._sets


def _follows(blocks: Sequence[int], at: int, run: Sequence[int], right: int) -> bool:
    end = at + len(run)
    if tuple(blocks[at:end]) != tuple(run):
        return False
    return end == len(blocks) if right == _EDGE else end < len(blocks) and blocks[end] == right
