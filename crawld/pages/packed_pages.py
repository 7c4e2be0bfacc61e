"""Pages in some 75 bytes each: columns by row and one buffer of URLs; a `Page` is made when somebody asks for it.

What the URLs of a host begin with is kept once. A million `Page` objects in a dictionary would take 350 MB more.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from crawld.model.page import Page, PageState
from crawld.model.row_index import PageRows

MOST_WASTE = 1 << 20
"""Bytes of URLs that are kept although their pages have gone; beyond it, and beyond half of all, they are dropped."""
_STATES = tuple(PageState)
_CODES = {state: code for code, state in enumerate(_STATES)}


class PackedPages:
    """Pages by id, each with its state."""

    def __init__(self) -> None:
        self._rows = PageRows()
        self._urls = bytearray()
        self._wasted = 0
        self._sites: list[tuple[str, str]] = []  # what URLs begin with, and the host
        self._site_of: dict[tuple[str, str], int] = {}
        self._start = array("q")  # by row: where the rest of its URL begins, and how long it is
        self._length = array("i")
        self._site = array("i")
        self._importance = array("d")
        self._state = bytearray()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, page_id: int) -> bool:
        return self._rows.get(page_id) is not None

    def __iter__(self) -> Iterator[Page]:
        return (page for page_id in self.ids() if (page := self.get(page_id)) is not None)

    def ids(self) -> list[int]:
        """The ids of all pages."""
        ids: list[int] = self._rows.ids().tolist()
        return ids

    def get(self, page_id: int) -> Page | None:
        """The page, or None if it is not here."""
        row = self._rows.get(page_id)
        if row is None:
            return None
        begin, host = self._sites[self._site[row]]
        start = self._start[row]
        rest = self._urls[start : start + self._length[row]].decode("utf-8", "surrogatepass")
        return Page(page_id, begin + rest, host, self._importance[row])

    def state(self, page_id: int) -> PageState | None:
        """Where a page stands, or None if it is not here."""
        row = self._rows.get(page_id)
        return None if row is None else _STATES[self._state[row]]

    def change_state(self, page_id: int, state: PageState) -> None:
        """Note where a page stands that is here."""
        self._state[self._rows[page_id]] = _CODES[state]

    def put(self, pages: Sequence[Page], states: Sequence[PageState]) -> None:
        """Take pages in, or over what is new of them; the state of one that is here stays as it is."""
        ids = np.array([page.id for page in pages], dtype=np.int64)
        known = self._rows.find(ids) >= 0
        rows = self._rows.take(ids)
        self._make_room()
        for page, state, row, old in zip(pages, states, rows.tolist(), known.tolist(), strict=True):
            rest = self._write(page, row)
            if old:
                self._wasted += self._length[row]
            else:
                self._state[row] = _CODES[state]
            self._start[row], self._length[row] = len(self._urls), len(rest)
            self._urls += rest
        self._drop_waste()

    def remove(self, page_ids: Iterable[int]) -> None:
        """Forget pages."""
        rows = self._rows.remove(np.fromiter(page_ids, dtype=np.int64))
        self._wasted += sum(self._length[row] for row in rows.tolist())
        self._drop_waste()

    def _write(self, page: Page, row: int) -> bytes:
        """Keep what is kept of a page beside its URL; the rest of that."""
        begin, slash, rest = page.url.partition(f"//{page.host}")
        if not slash:
            begin, rest = "", page.url
        site = begin + slash, page.host
        if site not in self._site_of:
            self._site_of[site] = len(self._sites)
            self._sites.append(site)
        self._site[row], self._importance[row] = self._site_of[site], page.importance
        return rest.encode("utf-8", "surrogatepass")

    def _make_room(self) -> None:
        more = self._rows.size - len(self._start)
        if more > 0:
            for column in (self._start, self._length, self._site, self._importance):
                column.frombytes(bytes(more * column.itemsize))
            self._state.extend(bytes(more))

    def _drop_waste(self) -> None:
        """Pack the URLs anew where most of them are nobody's."""
        if self._wasted <= max(MOST_WASTE, len(self._urls) // 2):
            return
        packed = bytearray()
        for row in self._rows.find(self._rows.ids()).tolist():
            start, self._start[row] = self._start[row], len(packed)
            packed += self._urls[start : start + self._length[row]]
        self._urls, self._wasted = packed, 0
