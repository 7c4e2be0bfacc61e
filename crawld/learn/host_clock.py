"""A clock for each host that jumps when its pages change together.

Changes come in mass events, so one changed page is evidence about its siblings, and about *when*. Between two times a
page has aged by α(C(t) − C(s)) instead of α(t − s), where C runs at a factor of its own in each bin of time. A factor
is one of `FACTORS`; their prior has the mean 1, and every finished interval that overlaps the bin changes what is
believed of it (docs/method.md, Estimation).
"""

import numpy as np
from numpy.typing import NDArray

from crawld.model.estimate import LIMITS as ESTIMATE_LIMITS
from crawld.model.estimate import AgeCurve
from crawld.model.row_index import grown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 128
LIKELY = np.array([0.06, 0.10, 0.20, 0.20, 0.19, 0.14, 0.06, 0.03, 0.012, 0.002])
LIKELY /= LIKELY.sum()
FACTORS = np.array([0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 10.0, 30.0, 100.0])
FACTORS /= FACTORS @ LIKELY


class HostClocks:
    """What is believed of the factors by host and bin. Outside its bins a clock runs like any other.

    A host that `observe` was never told of takes no room.
    """

    narrowest_bin, widest_bin = 60.0, 7 * 86400.0
    bins_per_visit = 8.0
    fading = 0.99
    unlikely = -1e4  # log-likelihood below which a factor is as good as impossible
    precision: type[np.floating] = np.float16  # of the log-likelihoods

    def __init__(self) -> None:
        self._row = np.full(0, -1, np.int64)  # by host; −1 where it has no clock
        self._clocks = 0  # that there are: all columns are longer or equal
        self._visit = np.zeros((0, 2))  # lengths of intervals and how many, older ones fading
        self._width = np.empty(0)
        self._first = np.empty(0)  # time at which the first bin begins
        # Log-likelihoods of the factors, over the largest of each bin.
        self._log: NDArray[np.floating] = np.empty((0, BINS, len(FACTORS)), self.precision)
        self._factor = np.empty((0, BINS), np.float32)  # and the mean that follows from it

    @property
    def bytes_a_host(self) -> int:
        """Memory of one clock."""
        return BINS * (len(FACTORS) * self._log.itemsize + self._factor.itemsize) + 4 * self._width.itemsize

    def reserve(self, clocks: int) -> None:
        """Make room for that many clocks at once."""
        self._log, self._factor = grown(self._log, clocks, 0.0), grown(self._factor, clocks, 1.0)

    def running(self, hosts: Ints) -> NDArray[np.bool_]:
        """Which hosts have a clock."""
        there = hosts < len(self._row)
        there[there] = self._row[hosts[there]] >= 0
        return there

    def reading(self, hosts: Ints, at: Floats | float) -> Floats:
        """C of each host at a time; only differences mean anything."""
        return self._reading(self._row[hosts], at)

    def _reading(self, rows: Ints, at: Floats | float) -> Floats:
        unique, place = np.unique(rows, return_inverse=True)
        factor = self._factor[unique].astype(float)
        run = np.zeros((len(unique), BINS + 1))
        np.cumsum(factor, axis=1, out=run[:, 1:])
        position = (at - self._first[rows]) / self._width[rows]
        inside = np.clip(position, 0.0, BINS)
        bin_ = np.minimum(inside.astype(np.int64), BINS - 1)
        bins = run[place, bin_] + (inside - bin_) * factor[place, bin_] + (position - inside)
        return np.asarray(bins * self._width[rows])

    def curves(self, hosts: Ints, now: float, weight: Floats) -> list[AgeCurve]:
        """How much older than plain time says copies are by now, back over half of each host's bins.

        `weight` is how far each clock is believed.
        """
        step = self._width[self._row[hosts]]
        back = step[:, None] * np.arange(ESTIMATE_LIMITS.steps, -1.0, -1.0)
        each = np.repeat(hosts, ESTIMATE_LIMITS.steps + 1)
        begun = self.reading(each, (now - back).ravel()).reshape(back.shape)
        extra = weight[:, None] * (begun[:, -1:] - begun - back)
        first = now - back[:, 0]
        return [AgeCurve.of(*curve) for curve in zip(first.tolist(), step.tolist(), extra.tolist(), strict=True)]

    def observe(self, hosts: Ints, end: Floats, tau: Floats, alpha: Floats, changed: NDArray[np.bool_]) -> None:
        """Take in finished intervals of pages whose rate is about `alpha`; a host without a clock gets one."""
        self._start(np.unique(hosts))
        unique, place = np.unique(self._row[hosts], return_inverse=True)
        visits = np.column_stack([np.bincount(place, tau), np.bincount(place)]).astype(float)
        self._keep_up(unique, visits, float(end.max()))
        rows = unique[place]
        x = alpha * (self._reading(rows, end) - self._reading(rows, end - tau))
        width, first = self._width[rows], self._first[rows]
        low = np.clip((end - tau - first) / width, 0.0, BINS)
        high = np.clip((end - first) / width, 0.0, BINS)
        interval, bin_, overlap = _overlaps(low, high)
        row, exposure = rows[interval], (alpha * width)[interval] * overlap
        rest = np.maximum(x[interval] - exposure * self._factor[row, bin_], 0.0)
        cell = place[interval] * BINS + bin_
        touched = np.zeros(len(unique) * BINS, bool)
        touched[cell] = True
        cells = np.flatnonzero(touched)
        of_cell = np.cumsum(touched)[cell] - 1
        worth = -np.bincount(of_cell, np.where(changed[interval], 0.0, exposure))[:, None] * FACTORS
        found = np.flatnonzero(changed[interval])
        stale = rest[found, None] + exposure[found, None] * FACTORS
        logs = np.log(-np.expm1(-np.maximum(stale, 1e-12)))
        for factor, column in enumerate(logs.T):  # faster than adding row by row
            worth[:, factor] += np.bincount(of_cell[found], column, minlength=len(worth))
        touched_row, touched_bin = unique[cells // BINS], cells % BINS
        self._add(touched_row, touched_bin, worth)

    def _add(self, row: Ints, bin_: Ints, worth: Floats) -> None:
        """Add log-likelihoods of the factors of these bins; kept near 0, where half a float is exact to 0.001."""
        logs = self._log[row, bin_] + worth
        logs -= logs.max(axis=1, keepdims=True)
        self._log[row, bin_] = np.maximum(logs, self.unlikely)
        mass = np.exp(logs) * LIKELY
        self._factor[row, bin_] = mass @ FACTORS / mass.sum(axis=1)

    def _start(self, hosts: Ints) -> None:
        more = int(hosts.max(initial=-1)) + 1 - len(self._row)
        if more > 0:
            self._row = np.append(self._row, np.full(more + len(self._row) // 2, -1, np.int64))
        new = hosts[self._row[hosts] < 0]
        if len(new):
            count = len(new)
            self._row[new] = self._clocks + np.arange(count)
            self._clocks += count
            self._visit = grown(self._visit, self._clocks, 0.0)
            self._width, self._first = grown(self._width, self._clocks, 0.0), grown(self._first, self._clocks, 0.0)
            self._log, self._factor = grown(self._log, self._clocks, 0.0), grown(self._factor, self._clocks, 1.0)

    def _keep_up(self, rows: Ints, visits: Floats, now: float) -> None:
        """Bins that suit how often the host's pages are visited, and that reach beyond the present."""
        self._visit[rows] = self.fading * self._visit[rows] + visits
        visit = self._visit[rows, 0] / self._visit[rows, 1]
        wanted = np.clip(visit / self.bins_per_visit, self.narrowest_bin, self.widest_bin)
        width = self._width[rows]
        misfit = (width > 3.0 * wanted) | (3.0 * width < wanted)
        self._set(rows[misfit], wanted[misfit], now)
        self._move_on(rows, now)

    def _set(self, rows: Ints, width: Floats, now: float) -> None:
        """Start clocks anew, most of their bins in the past."""
        self._width[rows], self._first[rows] = width, now - 0.9 * BINS * width
        self._log[rows], self._factor[rows] = 0.0, 1.0

    def _move_on(self, rows: Ints, now: float) -> None:
        """Forget the oldest quarter of the bins where the present has reached the last."""
        late = rows[now >= self._first[rows] + BINS * self._width[rows]]
        if not len(late):
            return
        step = BINS // 4
        steps = np.ceil((now - self._first[late] - 0.9 * BINS * self._width[late]) / (step * self._width[late]))
        self._first[late] += steps * step * self._width[late]
        once, often = late[steps <= 1], late[steps > 1]
        self._log[once, :-step], self._factor[once, :-step] = self._log[once, step:], self._factor[once, step:]
        self._log[once, -step:], self._factor[once, -step:] = 0.0, 1.0
        self._log[often], self._factor[often] = 0.0, 1.0


def _overlaps(low: Floats, high: Floats) -> tuple[Ints, Ints, Floats]:
    """Every bin that each span low..high reaches into: the span's number, the bin, and how much of it is covered."""
    first = low.astype(np.int64)
    count = np.maximum(np.ceil(high).astype(np.int64) - first, 0)
    span = np.repeat(np.arange(len(low)), count)
    bin_ = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    covered = np.minimum(high[span], bin_ + 1) - np.maximum(low[span], bin_)
    return span, bin_, covered
