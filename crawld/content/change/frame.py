"""The frame of a host: menus, footers and banners, learnt as the blocks that many of its pages share.

A page whose only differences lie in the frame has not changed; the site has. The host is known by a sketch: the blocks
of the pages seen most recently, which of them pages gained or lost lately, and the texts that pages turned to.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, islice

from crawld.content.change.hunks import Hunk
from crawld.content.page.digest import block_length
from crawld.model.crawl import Digest
from crawld.model.host import FrameChange

MOST_PAGES = 256
MOST_BLOCKS_SKETCHED = 65_536
MOST_MOVES = 2_048
MOST_TEXTS = 64
MOST_EVENTS = 8
MOVE_WEIGHT, TURN_WEIGHT = 4, 2
"""What a move beside its pages, and a page that turned to a text, take in memory, in blocks."""
FEWEST_PAGES = 4
"""A host of fewer pages has no frame that could be told from content."""
SHARED_BY, SHARED_SHARE = 3, 0.3
"""A block is frame where so many other pages have it, and so large a share of them."""
MOVED_BY, MOVED_SHARE = 2, 0.6
"""A block that so many other pages gained or lost moved with the site, unless most pages seen since did not."""
OWN_BYTES = 200.0
"""A page with less text of its own is compared as a whole: its frame may be all there is to it."""
TITLES = 2
"""So many blocks of a page's own may stand before its menu: the title, and the title again."""
CONTRADICTED_BY = 3
LOOKED_AT, NEIGHBOURS = 64, 16  # other pages, of those seen most recently
ERROR_SECONDS = 86_400.0
_EDGE = 0


class Explained(IntEnum):
    """Whether a difference is the site's and not the page's."""

    NO = 0
    PRESUMED = 1  # by its surroundings alone: other pages have yet to show it
    YES = 2


@dataclass(slots=True)
class _Seen:
    at: float  # when the page was asked for: what it showed may come in after what another showed later
    blocks: tuple[int, ...]


@dataclass(slots=True)
class _Move:
    """A block that pages gained, or lost, since that time."""

    at: float
    pages: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Event:
    first_at: float
    pages: set[int]
    lost: set[int]
    gained: set[int]


class HostFrame:
    """The sketch of one host."""

    def __init__(self, name: str, pages: Iterable[tuple[int, Sequence[int]]] = ()) -> None:
        self.name = name
        self._blocks = 0  # of the pages held
        self._moves = 0  # what the moves weigh,
        self._rest = 0  # and everything else
        self._pages: OrderedDict[int, _Seen] = OrderedDict()
        self._counts: dict[int, int] = {}
        self._gained: OrderedDict[int, _Move] = OrderedDict()
        self._lost: OrderedDict[int, _Move] = OrderedDict()
        self._turned: OrderedDict[bytes, dict[int, tuple[bytes, float]]] = OrderedDict()
        self._events: deque[_Event] = deque(maxlen=MOST_EVENTS)
        self._presumed: OrderedDict[int, tuple[tuple[int, ...], tuple[int, ...]]] = OrderedDict()
        for page_id, blocks in pages:
            self.hold(page_id, blocks)

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def weight(self) -> int:
        """How much memory the sketch takes, in blocks."""
        return self._blocks + self._moves + self._rest

    # -- what it says ----------------------------------------------------------------------------------------------

    def view(self, page_id: int, old: Sequence[int], new: Sequence[int]) -> "PageFrame":
        """What the frame says about two versions of a page."""
        return PageFrame(self, page_id, old, new)

    def left_out(self, page_id: int, blocks: Sequence[int]) -> list[bool]:
        """For each block of a page, whether it is frame; none is where the page has little of its own."""
        view = self.view(page_id, blocks, blocks)
        frame = [view.is_shared(block) for block in view.new]
        own = sum(block_length(block) for block, shared in zip(blocks, frame) if not shared)
        return frame if own >= OWN_BYTES else [False] * len(frame)

    def is_error_page(self, page_id: int, before: bytes, text: bytes, at: float) -> bool:
        """Whether a text is one that other pages, which had texts of their own, have turned to as well lately."""
        turned = self._turned.get(text)
        if turned is None:
            return False
        own = turned[page_id][0] if page_id in turned else before
        others = {
            previous
            for other, (previous, when) in turned.items()
            if other != page_id and at - when <= ERROR_SECONDS and previous != own
        }
        return len(others) >= MOVED_BY

    def owes_a_change(self, page_id: int) -> bool:
        """Whether a page's difference was taken for the frame's, and other pages seen since do not show it."""
        presumed = self._presumed.get(page_id)
        if presumed is None:
            return False
        lost, gained = presumed
        view = PageFrame(self, page_id, (), ())
        if any(view.moved(block, gained=True) for block in gained) or any(view.moved(b, gained=False) for b in lost):
            self.settle(page_id)
            return False
        return view.is_contradicted(lost, gained)

    def presume(self, page_id: int, lost: tuple[int, ...], gained: tuple[int, ...]) -> None:
        """Note a difference that is taken for the frame's, so that it counts where no other page shows it."""
        self.settle(page_id)
        self._presumed[page_id] = lost, gained
        self._rest += 1 + len(lost) + len(gained)
        while len(self._presumed) > MOST_PAGES:
            self.settle(next(iter(self._presumed)))

    def settle(self, page_id: int) -> None:
        """Note that a page counted as changed: nothing is owed any more."""
        if (presumed := self._presumed.pop(page_id, None)) is not None:
            self._rest -= 1 + len(presumed[0]) + len(presumed[1])

    def hold(self, page_id: int, blocks: Sequence[int]) -> None:
        """Take in the blocks of a page as they were kept, the page seen longest ago first."""
        self._put(page_id, numbered(blocks), 0.0)

    # -- what it learns --------------------------------------------------------------------------------------------

    def see(self, page_id: int, before: Digest | None, seen: Digest, at: float) -> None:
        """Take in a version of a page; `before` is the one remembered, where there is one."""
        if before is not None and before.text and seen.text and before.text != seen.text:
            self._turn_to(page_id, before.text, seen.text, at)
        if seen.text is None:
            return
        known = self._pages.get(page_id)
        if before is seen and known is not None:  # the very bytes of last time
            known.at = at
            self._pages.move_to_end(page_id)
            return
        new = numbered(seen.blocks)
        old = known.blocks if known is not None else (numbered(before.blocks) if before is not None else new)
        self._put(page_id, new, at)
        if old == new:
            return
        self._note_moves(self._gained, self._lost, page_id, set(new) - set(old), at)
        self._note_moves(self._lost, self._gained, page_id, set(old) - set(new), at)

    def turned(self, page_id: int, before: Digest, seen: Digest, at: float) -> None:
        """Note that a page shows another text, without taking it for a version."""
        if before.text and seen.text and before.text != seen.text:
            self._turn_to(page_id, before.text, seen.text, at)

    def changed(self, page_id: int, lost: Sequence[int], gained: Sequence[int], at: float) -> FrameChange | None:
        """Note a difference of the frame that a page showed: the event it belongs to, once two pages showed it."""
        event = next((e for e in self._events if e.lost & set(lost) or e.gained & set(gained)), None)
        if event is None:
            event = _Event(at, set(), set(), set())
            self._events.append(event)
        event.pages.add(page_id)
        event.lost.update(islice(lost, min(MOST_PAGES, MOST_MOVES - len(event.lost))))
        event.gained.update(islice(gained, min(MOST_PAGES, MOST_MOVES - len(event.gained))))
        if len(event.pages) < 2:
            return None
        return FrameChange(self.name, event.first_at, at, len(event.pages), len(event.lost), len(event.gained))

    def _turn_to(self, page_id: int, before: bytes, text: bytes, at: float) -> None:
        turned = self._turned.setdefault(text, {})
        self._turned.move_to_end(text)
        if len(turned) < MOST_PAGES:
            self._rest += TURN_WEIGHT * (page_id not in turned)
            turned.setdefault(page_id, (before, at))
            turned[page_id] = (turned[page_id][0], at)
        while len(self._turned) > MOST_TEXTS:
            _, forgotten = self._turned.popitem(last=False)
            self._rest -= TURN_WEIGHT * len(forgotten)

    def _put(self, page_id: int, blocks: tuple[int, ...], at: float) -> None:
        known = self._pages.get(page_id)
        if known is not None and known.blocks == blocks:
            known.at = at
            self._pages.move_to_end(page_id)
            return
        if known is not None:
            self._drop(page_id)
        self._pages[page_id] = _Seen(at, blocks)
        self._blocks += len(blocks)
        for block in blocks:
            self._counts[block] = self._counts.get(block, 0) + 1
        while len(self._pages) > MOST_PAGES or (self._blocks > MOST_BLOCKS_SKETCHED and len(self._pages) > 2):
            self._drop(next(iter(self._pages)))

    def _drop(self, page_id: int) -> None:
        gone = self._pages.pop(page_id)
        self._blocks -= len(gone.blocks)
        for block in gone.blocks:
            left = self._counts[block] - 1
            if left:
                self._counts[block] = left
            else:
                del self._counts[block]

    def _note_moves(
        self, here: OrderedDict[int, _Move], there: OrderedDict[int, _Move], page_id: int, blocks: set[int], at: float
    ) -> None:
        """Note that a page gained (or lost) blocks, and take back that it lost (or gained) them before."""
        for block in islice(blocks, MOST_PAGES):
            if (back := there.get(block)) is not None and page_id in back.pages:
                back.pages.discard(page_id)
                self._moves -= 1
                if not back.pages:
                    del there[block]
                    self._moves -= MOVE_WEIGHT
            move = here.get(block)
            if move is None:
                move = here[block] = _Move(at)
                self._moves += MOVE_WEIGHT
            here.move_to_end(block)
            if len(move.pages) < MOST_PAGES and page_id not in move.pages:
                move.pages.add(page_id)
                self._moves += 1
        while here and (len(here) > MOST_MOVES or self._moves > MOST_BLOCKS_SKETCHED):
            _, forgotten = here.popitem(last=False)
            self._moves -= MOVE_WEIGHT + len(forgotten.pages)


def newest_that_fit(pages: Sequence[tuple[int, Sequence[int]]]) -> Sequence[tuple[int, Sequence[int]]]:
    """Those of the pages, the one seen longest ago first, that a frame made of them all would still hold."""
    blocks, count = 0, 0
    for _, page in islice(reversed(pages), MOST_PAGES):
        blocks += len(page)
        if blocks > MOST_BLOCKS_SKETCHED and count >= 2:
            break
        count += 1
    return pages[len(pages) - count :]


def numbered(blocks: Sequence[int]) -> tuple[int, ...]:
    """The blocks, each further occurrence of one a block of its own: a title in a menu is not the title itself."""
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
    """Two versions of one page in the light of its host's other pages."""

    def __init__(self, host: HostFrame, page_id: int, old: Sequence[int], new: Sequence[int]) -> None:
        self._host, self._page_id = host, page_id
        self._plain = old
        self.old, self.new = numbered(old), numbered(new)
        own = host._pages.get(page_id)
        self._own = frozenset(own.blocks) if own is not None else frozenset()
        self._least = max(SHARED_BY, SHARED_SHARE * (len(host) - (own is not None)))
        self._sets: list[tuple[_Seen, frozenset[int]]] | None = None
        self._own_before: list[int] | None = None
        self._indices: list[dict[int, int]] | None = None

    def has_content(self, differences: Sequence[Hunk]) -> bool:
        """Whether the page has text of its own beside the differences, so that its frame can be told from it."""
        differing = {at for hunk in differences for at in range(hunk.new_from, hunk.new_to)}
        own = 0.0
        for at, block in enumerate(self.new):
            if at not in differing and not self.is_shared(block):
                own += block_length(block)
                if own >= OWN_BYTES:
                    return True
        return False

    def is_shared(self, block: int) -> bool:
        """Whether a block is frame by its share among the other pages."""
        if block == _EDGE:
            return True
        return self._host._counts.get(block, 0) - (block in self._own) >= self._least

    def explains(self, hunk: Hunk) -> Explained:
        """Whether a difference is one of the frame."""
        removed, inserted = self.old[hunk.old_from : hunk.old_to], self.new[hunk.new_from : hunk.new_to]
        lost = [self.moved(block, gained=False) for block in removed]
        gained = [self.moved(block, gained=True) for block in inserted]
        removed_shared = [self.is_shared(block) for block in removed]
        inserted_shared = [self.is_shared(block) for block in inserted]
        if (
            (any(lost) or any(gained))
            and all(map(max, lost, removed_shared))
            and all(map(max, gained, inserted_shared))
        ):
            return Explained.YES
        likely = all(removed_shared) and self._is_outside(hunk) and self._runs_elsewhere(hunk, removed, inserted)
        return Explained.PRESUMED if likely and not self.is_contradicted(removed, inserted) else Explained.NO

    def _is_outside(self, hunk: Hunk) -> bool:
        """Whether nothing but frame, and perhaps a title, lies between the difference and one end of the page."""
        if self._own_before is None:  # how many blocks of the page's own stand before each of the old version
            self._own_before = list(accumulate((not self.is_shared(block) for block in self.old), initial=0))
        own = self._own_before
        return own[-1] == own[hunk.old_to] or own[hunk.old_from] <= TITLES

    def moved(self, block: int, *, gained: bool) -> bool:
        """Whether other pages gained, or lost, the block as well, and most of those seen since did."""
        move = (self._host._gained if gained else self._host._lost).get(block)
        if move is None:
            return False
        by = len(move.pages - {self._page_id})
        if by < MOVED_BY:
            return False
        against = sum(1 for seen, blocks in self._recent() if seen.at > move.at and (block in blocks) != gained)
        return by >= MOVED_SHARE * (by + against)

    def is_contradicted(self, removed: Sequence[int], inserted: Sequence[int]) -> bool:
        """Whether this page showed the difference before, and other pages seen since do not."""
        moves = [self._host._gained.get(block) for block in inserted] + [
            self._host._lost.get(block) for block in removed
        ]
        times = [move.at for move in moves if move is not None and self._page_id in move.pages]
        if not times:
            return False
        wanted, unwanted = set(inserted), set(removed)
        since = (blocks for seen, blocks in self._recent() if seen.at > max(times))
        return sum(1 for blocks in since if not wanted <= blocks or unwanted & blocks) >= CONTRADICTED_BY

    def _runs_elsewhere(self, hunk: Hunk, removed: Sequence[int], inserted: Sequence[int]) -> bool:
        """Whether the blocks beside the difference are frame, and other pages have them so too, before or after it."""
        # Beside the difference, a page's own title in the menu is what it is on other pages: one entry.
        left = self._plain[hunk.old_from - 1] if hunk.old_from else _EDGE
        right = self._plain[hunk.old_to] if hunk.old_to < len(self.old) else _EDGE
        if left == right == _EDGE or not (self.is_shared(left) and self.is_shared(right)):
            return False
        runs, having = 0, 0
        if self._indices is None:
            recent = islice(self._recent(), NEIGHBOURS)
            self._indices = [{block: at for at, block in enumerate(seen.blocks)} for seen, _ in recent]
        for (seen, blocks), where in zip(self._recent(), self._indices):
            if (left != _EDGE and left not in blocks) or (right != _EDGE and right not in blocks):
                continue
            having += 1
            at = 0 if left == _EDGE else where[left] + 1
            runs += any(_follows(seen.blocks, at, run, right) for run in (removed, inserted))
        return runs >= SHARED_BY and 2 * runs >= having

    def _recent(self) -> list[tuple[_Seen, frozenset[int]]]:
        if self._sets is None:
            others = (seen for page, seen in reversed(self._host._pages.items()) if page != self._page_id)
            self._sets = [(seen, frozenset(seen.blocks)) for seen in islice(others, LOOKED_AT)]
        return self._sets


def _follows(blocks: Sequence[int], at: int, run: Sequence[int], right: int) -> bool:
    end = at + len(run)
    if tuple(blocks[at:end]) != tuple(run):
        return False
    return end == len(blocks) if right == _EDGE else end < len(blocks) and blocks[end] == right
