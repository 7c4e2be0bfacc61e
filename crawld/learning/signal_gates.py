"""Which sources of signals each host's pages listen to: those that have proved to foretell crawls better.

Every crawl is foretold twice, as if there were no signals and by one source of them. The differences of the
logarithms are summed in blocks of time as long as the usual time between visits, because pages hit by one event of
their site are no independent witnesses: a block has one vote. A source is heard while its sum is ahead by a margin and
by some standard errors over the blocks; at first none is (docs/method.md, Estimation).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.model.units import many

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCKS = 48  # the latest that count
MEMORY = 16.0  # blocks after which one counts 1/e
MARGIN = 3.0  # how far ahead a source must be to be heard
ERRORS, ERRORS_KEPT = 2.5, 1.0  # standard errors it must be ahead by to be heard, and to be heard on
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
    """Scores by host, source and block; a host that never had a signal takes no room."""

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._row: dict[int, int] = {}
        self._length = np.zeros(0)  # of a block
        self._visit = np.zeros((0, 2))  # lengths of intervals and how many, older ones fading
        self._newest = np.zeros(0, np.int64)  # number of the latest block
        self._sums = np.zeros((0, sources, BLOCKS), np.float32)  # block k at k modulo BLOCKS
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
        by_block = self._sums.transpose(0, 2, 1)  # a view
        np.add.at(by_block, (rows[place[recent]], block[recent] % BLOCKS), gain[recent].astype(np.float32))
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
        """By row and source, the sum over blocks and its standard error."""
        age = (self._newest[rows][:, None] - np.arange(BLOCKS)) % BLOCKS
        sums = self._sums[rows] * np.exp(-age / MEMORY)[:, None, :]
        return sums.sum(axis=2, dtype=float), np.sqrt((sums.astype(float) ** 2).sum(axis=2))

    def _decide(self, rows: Ints) -> Bools:
        score, error = self._scores(rows)
        before = self._open[rows]
        enough = (score > MARGIN) & (score > ERRORS * error)
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
        sums = np.zeros_like(self._sums[row])
        latest = int(moved.max())
        kept = moved > latest - BLOCKS
        np.add.at(sums.T, moved[kept] % BLOCKS, self._sums[row].T[kept])
        self._sums[row], self._newest[row], self._length[row] = sums, latest, length

    def _move_on(self, rows: Ints, latest: Ints) -> None:
        """Empty the blocks between the latest so far and the latest now."""
        for row, now, before in zip(rows.tolist(), latest.tolist(), self._newest[rows].tolist(), strict=True):
            if now > before:
                self._sums[row][:, np.arange(max(before + 1, now - BLOCKS + 1), now + 1) % BLOCKS] = 0.0
                self._newest[row] = now
