"""The pages the daemon holds in memory: a cache of the store with what deciding needs at once."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crawld.model.fetched import Trouble
from crawld.model.page import Page, PageState
from crawld.model.row_index import PageRows
from crawld.model.url import identity, origin_of


@dataclass(frozen=True)
class PagesPagesLimits:
    """Numbers that bound and tune this module."""

    first_wait: float = 60.0
    gone_wait: float = 3600.0
    """Seconds before a page that is gone, or that is another address of a page, is asked for the first time."""
    relisted_wait: float = 10.0
    """Seconds from the time at which a page was first found gone until it may be asked because it is listed anew."""


LIMITS = PagesPagesLimits()


# Pages in some 75 bytes each: columns by row and one buffer of URLs; a `Page` is made on demand.

MAX_WASTE = 1 << 20
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
        if (row := self._rows.get(page_id)) is None:
            return None
        begin, host = self._sites[self._site[row]]
        start = self._start[row]
        rest = self._urls[start : start + self._length[row]].decode("utf-8", "surrogatepass")
        return Page(page_id, begin + rest, host, self._importance[row])

    def state(self, page_id: int) -> PageState:
        """Returns where a page stands; one that is not here is retired."""
        row = self._rows.get(page_id)
        return PageState.RETIRED if row is None else _STATES[self._state[row]]

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
        """Packs the URLs anew where most of them belong to no page."""
        if self._wasted <= max(MAX_WASTE, len(self._urls) // 2):
            return
        packed = bytearray()
        for row in self._rows.find(self._rows.ids()).tolist():
            start, self._start[row] = self._start[row], len(packed)
            packed += self._urls[start : start + self._length[row]]
        self._urls, self._wasted = packed, 0


DAY = 86400.0
MAX_WAIT = 7 * DAY
TURNED_AWAY_WAITS = {
    Trouble.BOT_WALL: (3600.0, 2 * DAY),
    Trouble.PAYMENT_REQUIRED: (DAY, 30 * DAY),
    Trouble.LOGIN_REQUIRED: (3600.0, DAY),
    Trouble.FORBIDDEN: (600.0, 7 * DAY),
    Trouble.GEO_BLOCKED: (DAY, 30 * DAY),
}
"""Seconds that a page waits whose site turned us away: at first, and at most."""
SELDOM = {PageState.GONE, PageState.ALIAS}
"""States in which a page is asked now and then whether it still is so."""
NOT_ASKED = {PageState.DISALLOWED, *SELDOM}
"""States in which a page is asked seldom or never: it does not help to tell how its host is."""
ANSWERED = {PageState.LIVE, *SELDOM}
"""States of a page that answered when it was last asked."""


class Pages:
    """Pages by id, with their state and how often each failed in a row.

    `sites` are beginnings of URLs whose pages are counted against a limit.
    """

    def __init__(self, sites: Iterable[str] = ()) -> None:
        self._sites = sorted(map(identity, sites), key=len, reverse=True)  # the closest first
        self._in_site: Counter[str] = Counter()
        self._unvisited: Counter[str] = Counter()  # of those in a site
        self._pages = PackedPages()
        self.get, self.state = self._pages.get, self._pages.state
        self._on_host: Counter[str] = Counter()
        self._not_asked: Counter[str] = Counter()  # of those on a host
        self.answered_on_host: Counter[str] = Counter()  # pages that answered when they were last asked
        self._failures: dict[int, int] = {}
        self._turned_away: dict[int, Trouble] = {}
        self._away: Counter[tuple[str, Trouble]] = Counter()  # of those, by origin

    def __len__(self) -> int:
        return len(self._pages)

    def __getitem__(self, page_id: int) -> Page:
        if (page := self.get(page_id)) is None:
            raise KeyError(page_id)
        return page

    def __iter__(self) -> Iterator[Page]:
        return iter(self._pages)

    def ids(self) -> list[int]:
        """The ids of all pages."""
        return self._pages.ids()

    def on_host(self, host: str) -> int:
        """Returns how many pages of a host are kept fresh."""
        return self._on_host[host]

    def site_of(self, url: str) -> str | None:
        """The site that a URL belongs to: of those that it begins with, the longest."""
        if not self._sites:
            return None
        key = identity(url)
        return next((site for site in self._sites if key.startswith(site)), None)

    def in_site(self, site: str) -> int:
        """Returns how many pages of a site are kept fresh."""
        return self._in_site[site]

    def unvisited_in_site(self, site: str) -> int:
        """Returns how many pages of a site were never crawled."""
        return self._unvisited[site]

    def count_hosts(self) -> int:
        """Returns how many hosts have pages."""
        return len(self._on_host)

    def hosts(self) -> list[str]:
        """Every host that has pages."""
        return list(self._on_host)

    def asked_on_host(self, host: str) -> int:
        """Returns how many pages of a host are being asked: neither gone nor forbidden."""
        return self._on_host[host] - self._not_asked[host]

    def put(self, page: Page, state: PageState = PageState.WAITING, failures: int = 0) -> None:
        """Take a page in, or over its new importance."""
        self.put_all([page], [state], [failures])

    def put_all(self, pages: Sequence[Page], states: Sequence[PageState], failures: Sequence[int]) -> None:
        """Take many pages in, or over their new importance."""
        for page, state in zip(pages, states, strict=True):
            if page.id not in self._pages:
                self._on_host[page.host] += 1
                self._count_state(page.host, None, state)
                self._count_site(page.url, 1, state is PageState.WAITING)
        self._pages.put(pages, states)
        self._failures |= {page.id: count for page, count in zip(pages, failures, strict=True) if count}

    def drop(self, page_ids: Iterable[int]) -> None:
        """Forget pages that were retired."""
        here = [page for page_id in dict.fromkeys(page_ids) if (page := self._pages.get(page_id)) is not None]
        for page in here:
            self._on_host[page.host] -= 1
            if not self._on_host[page.host]:
                del self._on_host[page.host]
            self._count_state(page.host, self._pages.state(page.id), None)
            self._count_site(page.url, -1, -(self._pages.state(page.id) is PageState.WAITING))
            self._failures.pop(page.id, None)
            self._note_turned_away(page, None)
        self._pages.remove([page.id for page in here])

    def change_state(self, page_id: int, state: PageState) -> bool:
        """Note where a page stands; whether that is news. Of a page that was retired meanwhile nothing is noted."""
        before, page = self._pages.state(page_id), self._pages.get(page_id)
        if page is None or before is state:
            return False
        self._count_state(page.host, before, state)
        if PageState.WAITING in (before, state):
            self._count_site(page.url, 0, 1 if state is PageState.WAITING else -1)
        self._pages.change_state(page_id, state)
        return True

    def _count_site(self, url: str, change: int, unvisited: int) -> None:
        if (site := self.site_of(url)) is not None:
            self._in_site[site] += change
            self._unvisited[site] += unvisited

    def _count_state(self, host: str, before: PageState | None, after: PageState | None) -> None:
        """Count a page of the host under its new state instead of the old one; None: it is not there."""
        for states, count in ((NOT_ASKED, self._not_asked), (ANSWERED, self.answered_on_host)):
            change = (after in states) - (before in states)
            if change:
                count[host] += change
                if not count[host]:
                    del count[host]

    def failures(self, page_id: int) -> int:
        """Returns how often the page itself failed in a row."""
        return self._failures.get(page_id, 0)

    def forgive(self, page_id: int) -> None:
        """Forget how often a page failed, or was asked whether it still is what it was."""
        self._failures.pop(page_id, None)

    def restore_turned_away(self, troubles: Mapping[int, Trouble]) -> None:
        """Take over which pages turned us away when they were last asked."""
        for page_id, trouble in troubles.items():
            if (page := self._pages.get(page_id)) is not None:
                self._note_turned_away(page, trouble)

    def turned_away(self) -> Mapping[tuple[str, Trouble], int]:
        """Returns how many pages turned us away when they were last asked, by origin and trouble."""
        return self._away

    def turned_away_by(self, trouble: Trouble) -> list[int]:
        """The pages whose last crawl ended in that trouble."""
        return [page_id for page_id, found in self._turned_away.items() if found is trouble]

    def _note_turned_away(self, page: Page, trouble: Trouble | None) -> None:
        before = self._turned_away.get(page.id)
        if before is trouble:
            return
        if before is not None:
            del self._turned_away[page.id]
            self._away -= Counter({(origin_of(page.url), before): 1})
        if trouble is not None:
            self._turned_away[page.id] = trouble
            self._away[origin_of(page.url), trouble] += 1

    def after(
        self, page_id: int, state: PageState, at: float, *, audit: bool = False, trouble: Trouble | None = None
    ) -> float:
        """Note how a crawl ended; the time before which the page is not asked again.

        A page that fails on its own account waits twice as long each time, by its `trouble` where its site turned us
        away. A page that is gone, or that is another
        address of a page, is asked again now and then. An audit comes out of turn: where it finds a page as bad as it
        was, the wait does not grow.
        """
        before = self.state(page_id)
        if before is PageState.RETIRED:
            return -math.inf
        if before is not state:
            self.change_state(page_id, state)
        if trouble in TURNED_AWAY_WAITS or page_id in self._turned_away:
            self._note_turned_away(self[page_id], trouble if trouble in TURNED_AWAY_WAITS else None)
        if state is PageState.LIVE:
            self._failures.pop(page_id, None)
            return -math.inf
        if not audit or page_id not in self._failures:
            self._failures[page_id] = self._failures.get(page_id, 0) + 1
        return self.wait_after(page_id, state, at)

    def relisted_after(self, page_id: int, last: float) -> float:
        """The time from which a gone page, last asked then, may be asked because it is listed anew.

        Each time that it was still gone doubles the wait: a file that lists it again and again gains little by that.
        """
        return last + LIMITS.relisted_wait * 2.0 ** min(self._failures.get(page_id, 1) - 1, 30)

    def wait_after(self, page_id: int, state: PageState, at: float) -> float:
        """The time before which a page is not asked again, given its last attempt."""
        count = self._failures.get(page_id, 0)
        if count == 0 or state not in {PageState.FAILING, *SELDOM}:
            return -math.inf
        first, longest = LIMITS.gone_wait if state in SELDOM else LIMITS.first_wait, MAX_WAIT
        if (trouble := self._turned_away.get(page_id)) is not None:
            first, longest = TURNED_AWAY_WAITS[trouble]
        return at + min(first * 2.0 ** min(count - 1, 30), longest)
