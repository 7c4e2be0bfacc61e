"""A clock for each host that runs faster while its pages change together.

Changes come in mass events, so one changed page is evidence about its siblings, and about *when*. Between two times a
page has aged by α(C(t) − C(s)) instead of α(t − s), where C runs at a factor of its own in each bin of time. A factor
has the prior Gamma(1, 1); an interval that ended changed adds the events expected in each of its bins, every interval
adds α times its length to their exposure, and the factor is (1 + events)/(1 + exposure) (docs/method.md, Estimation).
"""

import numpy as np
from numpy.typing import NDArray

from crawld.model.age_curve import STEPS, AgeCurve

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 128
NARROWEST_BIN, WIDEST_BIN = 60.0, 7 * 86400.0
BINS_PER_VISIT = 8.0
FADING = 0.99


class HostClocks:
    """Factors by host and bin. Before its first bin and after its last a clock runs like any other."""

    def __init__(self) -> None:
        self._visit = np.zeros((0, 2))  # lengths of intervals and how many, older ones fading
        self._width = np.empty(0)
        self._first = np.empty(0)  # time at which the first bin begins
        self._events = np.empty((0, BINS))
        self._exposure = np.empty((0, BINS))

    def running(self, hosts: Ints) -> NDArray[np.bool_]:
        """Which hosts have a clock."""
        there = hosts < len(self._width)
        there[there] = self._width[hosts[there]] > 0
        return there

    def reading(self, hosts: Ints, at: Floats | float) -> Floats:
        """C of each host at a time; only differences mean anything."""
        unique, place = np.unique(hosts, return_inverse=True)
        factor = (1.0 + self._events[unique]) / (1.0 + self._exposure[unique])
        run = np.zeros((len(unique), BINS + 1))
        np.cumsum(factor, axis=1, out=run[:, 1:])
        position = (at - self._first[hosts]) / self._width[hosts]
        inside = np.clip(position, 0.0, BINS)
        bin_ = np.minimum(inside.astype(np.int64), BINS - 1)
        bins = run[place, bin_] + (inside - bin_) * factor[place, bin_] + (position - inside)
        return np.asarray(bins * self._width[hosts])

    def curves(self, hosts: Ints, now: float) -> list[AgeCurve]:
        """How much older than plain time says copies of each host's pages are by now, back over half of its bins."""
        step = self._width[hosts]
        back = step[:, None] * np.arange(STEPS, -1.0, -1.0)
        each = np.repeat(hosts, STEPS + 1)
        begun = self.reading(each, (now - back).ravel()).reshape(back.shape)
        extra = begun[:, -1:] - begun - back
        first = now - back[:, 0]
        return [AgeCurve.of(*curve) for curve in zip(first.tolist(), step.tolist(), extra.tolist(), strict=True)]

    def observe(self, hosts: Ints, end: Floats, tau: Floats, alpha: Floats, changed: NDArray[np.bool_]) -> None:
        """Take in finished intervals of pages whose rate is about `alpha`."""
        unique, place = np.unique(hosts, return_inverse=True)
        self._grow(int(unique.max(initial=-1)) + 1)
        visits = np.column_stack([np.bincount(place, tau), np.bincount(place)]).astype(float)
        self._keep_up(unique, visits, float(end.max()))
        x = alpha * (self.reading(hosts, end) - self.reading(hosts, end - tau))
        width, first = self._width[hosts], self._first[hosts]
        low = np.clip((end - tau - first) / width, 0.0, BINS)
        high = np.clip((end - first) / width, 0.0, BINS)
        expected = np.where(changed, alpha * width / -np.expm1(-np.maximum(x, 1e-12)), 0.0)
        factor = (1.0 + self._events[unique]) / (1.0 + self._exposure[unique])
        self._events[unique] += factor * _coverage(place, low, high, expected, len(unique))
        self._exposure[unique] += _coverage(place, low, high, alpha * width, len(unique))

    def _grow(self, hosts: int) -> None:
        new = hosts - len(self._width)
        if new > 0:
            self._visit = np.vstack([self._visit, np.zeros((new, 2))])
            self._width = np.append(self._width, np.zeros(new))
            self._first = np.append(self._first, np.zeros(new))
            self._events = np.vstack([self._events, np.zeros((new, BINS))])
            self._exposure = np.vstack([self._exposure, np.zeros((new, BINS))])

    def _keep_up(self, hosts: Ints, visits: Floats, now: float) -> None:
        """Bins that suit how often the host's pages are visited, and that reach beyond the present."""
        self._visit[hosts] = FADING * self._visit[hosts] + visits
        visit = self._visit[hosts, 0] / self._visit[hosts, 1]
        wanted = np.clip(visit / BINS_PER_VISIT, NARROWEST_BIN, WIDEST_BIN)
        width = self._width[hosts]
        misfit = (width > 3.0 * wanted) | (3.0 * width < wanted)
        self._set(hosts[misfit], wanted[misfit], now)
        self._move_on(hosts, now)

    def _set(self, hosts: Ints, width: Floats, now: float) -> None:
        """Start clocks anew, most of their bins in the past."""
        self._width[hosts], self._first[hosts] = width, now - 0.9 * BINS * width
        self._events[hosts] = self._exposure[hosts] = 0.0

    def _move_on(self, hosts: Ints, now: float) -> None:
        """Forget the oldest quarter of the bins where the present has reached the last."""
        late = hosts[now >= self._first[hosts] + BINS * self._width[hosts]]
        if not len(late):
            return
        step = BINS // 4
        steps = np.ceil((now - self._first[late] - 0.9 * BINS * self._width[late]) / (step * self._width[late]))
        self._first[late] += steps * step * self._width[late]
        once = late[steps <= 1]
        for table in (self._events, self._exposure):
            table[once, :-step] = table[once, step:]
            table[once, -step:] = 0.0
            table[late[steps > 1]] = 0.0


def _coverage(row: Ints, low: Floats, high: Floats, weight: Floats, rows: int) -> Floats:
    """Σ weight · overlap by row and bin, of the spans low..high given in bins."""
    size = rows * (BINS + 1)
    first, last = low.astype(np.int64), high.astype(np.int64)
    start, end = row * (BINS + 1) + first, row * (BINS + 1) + last
    steps = np.bincount(start, weight, minlength=size) - np.bincount(end, weight, minlength=size)
    covered = np.cumsum(steps.reshape(rows, BINS + 1), axis=1)
    covered -= np.bincount(start, weight * (low - first), minlength=size).reshape(rows, BINS + 1)
    covered += np.bincount(end, weight * (high - last), minlength=size).reshape(rows, BINS + 1)
    return np.asarray(np.maximum(covered[:, :BINS], 0.0))
