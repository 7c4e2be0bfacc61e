"""Which sources of signals each host's pages listen to: those that have proved to predict crawls better.

Every crawl is predicted twice, as if there were no signals and by one source of them. The differences of the
logarithms are summed in blocks of time as long as the usual time between visits. A source is heard while its sum is
ahead by a margin and by some standard errors; at first none is (docs/method.md, Estimation).

What counts as one vote differs. Pages hit by one event of their site are no independent witnesses, so a block has one
vote. A signal that came alone is an event of its own: there every crawl has a vote.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.model.units import many

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCKS = 48  # the latest that count
MEMORY = 16.0  # blocks after which one counts 1/e
MARGIN, LONE_MARGIN = 3.0, 1.0  # how far ahead a source must be to be heard; one whose signals come alone
ERRORS, LONE_ERRORS = 3.0, 2.0  # standard errors it must be ahead by to be heard
ERRORS_KEPT = 1.0  # and to be heard on
FADING = 0.99


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a host's crawls have said about one source: `crawls` found `changes` after `signals` of it."""

    source: int
    heard: bool
    score: float
    error: float
    crawls: int
    changes: int
    signals: int

    @property
    def why(self) -> str:
        """Why it is heard or not, in words."""
        seen = f"{many(self.changes, 'change')} in {many(self.crawls, 'crawl')} after a signal"
        ahead = f"{self.score:.1f}, give or take {self.error:.1f}"
        if self.heard:
            return f"listening predicts crawls better (by {ahead}); {seen}"
        if self.crawls == 0:
            return "no crawl has followed a signal yet"
        if self.score <= 0:
            return f"listening predicts crawls no better ({self.score:+.1f}); {seen}"
        return f"listening predicts crawls better by {ahead}, which is too little to go by; {seen}"


class SignalGates:
    """Scores by host, source and block; a host that never had a signal takes no room.

    `lone` are the sources whose signals come alone.
    """

    def __init__(self, sources: int, lone: Collection[int] = ()) -> None:
        self._sources = sources
        self._lone = list(lone)
        self._margin, self._errors = np.full(sources, MARGIN), np.full(sources, ERRORS)
        self._margin[self._lone], self._errors[self._lone] = LONE_MARGIN, LONE_ERRORS
        self._row: dict[int, int] = {}
        self._length = np.zeros(0)  # of a block
        self._visit = np.zeros((0, 2))  # lengths of intervals and how many, older ones fading
        self._newest = np.zeros(0, np.int64)  # number of the latest block
        self._sums = np.zeros((0, sources, BLOCKS), np.float32)  # block k at k modulo BLOCKS
        self._squares = np.zeros((0, len(lone), BLOCKS), np.float32)  # of single crawls, of lone sources
        self._open = np.zeros((0, sources), bool)
        self._seen = np.zeros((0, sources, 3), np.int64)  # crawls after a signal, changes found, signals

    def heard(self, hosts: Ints) -> Bools:
        """By host and source, whether it is listened to."""
        rows = self._rows(hosts)
        return np.asarray((rows >= 0)[:, None] & np.vstack([self._open, np.zeros((1, self._sources), bool)])[rows])

    def judge(self, hosts: Ints, end: Floats, tau: Floats, gain: Floats, signals: Ints, changed: Bools) -> Ints:
        """Take in how much better each source foretold these intervals; the hosts that listen otherwise from now on."""
        telling = (gain != 0).any(axis=1)
        rows = self._rows(hosts)
        telling |= rows >= 0
        if not telling.any():
            return np.empty(0, np.int64)
        hosts, end, tau, gain = hosts[telling], end[telling], tau[telling], gain[telling]
        signals, changed = signals[telling], changed[telling]
        self._start(np.unique(hosts))
        unique, place = np.unique(hosts, return_inverse=True)
        rows = self._rows(unique)
        self._keep_up(rows, place, tau)
        block = np.floor(end / self._length[rows][place]).astype(np.int64)
        latest = np.full(len(rows), np.iinfo(np.int64).min)
        np.maximum.at(latest, place, block)
        self._move_on(rows, latest)
        recent = block > self._newest[rows][place] - BLOCKS
        for table, ahead in ((self._sums, gain), (self._squares, gain[:, self._lone] ** 2)):
            by_block = table.transpose(0, 2, 1)  # a view
            np.add.at(by_block, (rows[place[recent]], block[recent] % BLOCKS), ahead[recent].astype(np.float32))
        after = signals > 0
        np.add.at(self._seen, rows[place], np.stack([after, after & changed[:, None], signals], axis=2))
        return unique[self._decide(rows)]

    def evidence(self, host: int) -> list[Evidence]:
        """What is known of each source of a host; nothing where it never had a signal."""
        row = self._row.get(host)
        if row is None:
            return []
        score, error = (column[0].tolist() for column in self._scores(np.array([row])))
        return [
            Evidence(s, bool(self._open[row, s]), score[s], error[s], *self._seen[row, s].tolist())
            for s in range(self._sources)
            if self._seen[row, s].any()
        ]

    def _scores(self, rows: Ints) -> tuple[Floats, Floats]:
        """By row and source, the sum over blocks and its standard error over votes."""
        age = (self._newest[rows][:, None] - np.arange(BLOCKS)) % BLOCKS
        weight = np.exp(-age / MEMORY)[:, None, :]
        sums = self._sums[rows] * weight
        votes = sums**2
        votes[:, self._lone] = self._squares[rows] * weight**2
        return sums.sum(axis=2, dtype=float), np.sqrt(votes.sum(axis=2, dtype=float))

    def _decide(self, rows: Ints) -> Bools:
        score, error = self._scores(rows)
        before = self._open[rows]
        enough = (score > self._margin) & (score > self._errors * error)
        still = before & (score > 0) & (score > ERRORS_KEPT * error)
        self._open[rows] = enough | still
        return np.asarray((self._open[rows] != before).any(axis=1))

    def _rows(self, hosts: Ints) -> Ints:
        return np.fromiter((self._row.get(host, -1) for host in hosts.tolist()), np.int64, len(hosts))

    def _start(self, hosts: Ints) -> None:
        new = [host for host in hosts.tolist() if host not in self._row]
        if not new:
            return
        self._row |= zip(new, range(len(self._length), len(self._length) + len(new)))
        more = len(new)
        self._length = np.append(self._length, np.zeros(more))
        self._visit = np.vstack([self._visit, np.zeros((more, 2))])
        self._newest = np.append(self._newest, np.full(more, np.iinfo(np.int64).min // 2))
        self._sums = np.concatenate([self._sums, np.zeros((more, self._sources, BLOCKS), np.float32)])
        self._squares = np.concatenate([self._squares, np.zeros((more, *self._squares.shape[1:]), np.float32)])
        self._open = np.vstack([self._open, np.zeros((more, self._sources), bool)])
        self._seen = np.concatenate([self._seen, np.zeros((more, self._sources, 3), np.int64)])

    def _keep_up(self, rows: Ints, place: Ints, tau: Floats) -> None:
        """Blocks as long as the usual time between visits; other lengths make the sums move to other blocks."""
        visits = np.column_stack([np.bincount(place, tau), np.bincount(place)]).astype(float)
        self._visit[rows] = FADING * self._visit[rows] + visits
        wanted = np.maximum(self._visit[rows, 0] / self._visit[rows, 1], 1.0)
        length = self._length[rows]
        self._length[rows[length == 0]] = wanted[length == 0]
        for at in np.flatnonzero((length > 0) & ((wanted > 2.0 * length) | (2.0 * wanted < length))).tolist():
            self._change_length(int(rows[at]), float(wanted[at]))

    def _change_length(self, row: int, length: float) -> None:
        newest, old = int(self._newest[row]), float(self._length[row])
        number = newest - (newest - np.arange(BLOCKS)) % BLOCKS
        moved = np.floor((number + 0.5) * old / length).astype(np.int64)
        latest = int(moved.max())
        kept = moved > latest - BLOCKS
        for table in (self._sums, self._squares):
            sums = np.zeros_like(table[row])
            np.add.at(sums.T, moved[kept] % BLOCKS, table[row].T[kept])
            table[row] = sums
        self._newest[row], self._length[row] = latest, length

    def _move_on(self, rows: Ints, latest: Ints) -> None:
        """Empty the blocks between the latest so far and the latest now."""
        for row, now, before in zip(rows.tolist(), latest.tolist(), self._newest[rows].tolist(), strict=True):
            if now > before:
                gone = np.arange(max(before + 1, now - BLOCKS + 1), now + 1) % BLOCKS
                self._sums[row][:, gone] = self._squares[row][:, gone] = 0.0
                self._newest[row] = now
