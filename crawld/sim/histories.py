"""Histories of pages kept in memory, as the store would give them: for learning without a database."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crawld.interfaces import Floats, Histories, Ints
from crawld.model.signal import SOURCES

MOST_ROWS = 200
"""The latest observations of a page that are kept, as many as the store gives."""


class MemoryHistories:
    """What crawls found, page by page; pages are numbered from 0 and `hosts` names the host of each."""

    def __init__(self, hosts: Sequence[str], sources: int = len(SOURCES), most_rows: int = MOST_ROWS) -> None:
        pages = len(hosts)
        self._hosts = np.array(hosts, object)
        self._most = most_rows
        self._count = np.zeros(pages, np.int64)
        self._first, self._last = np.full((2, pages), np.nan)
        self._heard = np.zeros((pages, sources), np.int64)
        self._at, self._tau = np.zeros((2, pages, 4))
        self._changed = np.zeros((pages, 4), bool)
        self._magnitude = np.full((pages, 4), np.nan)
        self._signals = np.zeros((pages, 4, sources), np.int64)

    def heard(self, page: int, source: int) -> None:
        """A signal of a page that has been crawled was counted."""
        self._heard[page, source] += 1

    def heard_many(self, pages: Ints, counts: Ints) -> None:
        """So many signals of each page and source were counted."""
        self._heard[pages] += counts

    def begin(self, pages: Ints, at: Floats | float) -> None:
        """First copies, which have nothing to be compared with."""
        self._first[pages] = self._last[pages] = at

    def crawled(
        self,
        pages: Ints,
        at: Floats | float,
        signals: Ints,
        changed: NDArray[np.bool_],
        magnitude: Floats | float = np.nan,
    ) -> None:
        """Pages were crawled at `at`: the signals counted since the crawl before (pages, sources), what was found."""
        magnitude = np.broadcast_to(magnitude, len(pages))
        new, at = np.isnan(self._last[pages]), np.broadcast_to(at, len(pages))
        self.begin(pages[new], at[new])
        pages, at, signals, changed, magnitude = (one[~new] for one in (pages, at, signals, changed, magnitude))
        self._make_room(pages)
        row = self._count[pages]
        self._at[pages, row], self._tau[pages, row] = at, at - self._last[pages]
        self._signals[pages, row], self._changed[pages, row], self._magnitude[pages, row] = signals, changed, magnitude
        self._count[pages] += 1
        self._last[pages] = at

    def of(self, pages: Ints) -> Histories:
        """The histories of these pages."""
        count = self._count[pages]
        used = np.arange(int(count.max(initial=0))) < count[:, None]
        take = pages[:, None], np.arange(used.shape[1])[None, :]
        return Histories(
            page_ids=pages,
            offsets=np.concatenate([[0], np.cumsum(count)]),
            at=self._at[take][used],
            tau=self._tau[take][used],
            signals=self._signals[take][used],
            changed=self._changed[take][used],
            magnitude=self._magnitude[take][used],
            hosts=self._hosts[pages].tolist(),
            first_success=self._first[pages],
            signal_counts=self._heard[pages],
        )

    def _make_room(self, pages: Ints) -> None:
        """A free row for each page: more rows for all, or the oldest of those forgotten that have the most."""
        have = self._at.shape[1]
        full = pages[self._count[pages] == have]
        if not len(full):
            return
        if have < self._most:
            more = min(2 * have, self._most) - have
            for name in ("_at", "_tau", "_changed", "_magnitude", "_signals"):
                column = getattr(self, name)
                room = np.zeros((len(column), more, *column.shape[2:]), column.dtype)
                setattr(self, name, np.concatenate([column, room], axis=1))
            return
        for column in (self._at, self._tau, self._changed, self._magnitude, self._signals):
            column[full, :-1] = column[full, 1:]
        self._count[full] -= 1
