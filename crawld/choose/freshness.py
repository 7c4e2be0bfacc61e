"""The one definition of freshness: the probability that our copy is what the page is now.

A copy ages by its host's clock. Without a copy, or with one from the future (the clock was set back: its age is
unknown), freshness is 0. A page known to be gone stays what we know of it; only signals make that doubtful. The view
`page_stats` says the same in SQL, and a test keeps the two equal.
"""

import math

import numpy as np
from numpy.typing import NDArray

from crawld.choose.valuation import Beliefs
from crawld.model.estimate import LIMITS as ESTIMATE_LIMITS
from crawld.model.estimate import AgeCurve

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SKEW = 60.0
"""Seconds that a copy may be ahead of our clock and still count as new: clocks of two machines differ."""


class Ages:
    """Ages of copies by the clocks of their hosts, which are numbered."""

    def __init__(self) -> None:
        self._first = np.zeros(0)
        self._step = np.ones(0)
        self._extra = np.zeros((0, ESTIMATE_LIMITS.steps + 1))  # zeros where a host goes by plain time
        self._curved: set[int] = set()  # the other hosts

    def put(self, host: int, curve: AgeCurve | None) -> None:
        """Let copies of the host's pages age by this curve; None: by plain time."""
        more = host + 1 - len(self._first)
        if more > 0:
            more += len(self._first) // 2
            self._extra = np.vstack([self._extra, np.zeros((more, ESTIMATE_LIMITS.steps + 1))])
            self._step = np.append(self._step, np.ones(more))
            self._first = np.append(self._first, np.zeros(more))  # last: it tells other threads which hosts there are
        self._extra[host] = 0.0 if curve is None else curve.extra
        self._curved.discard(host)
        if curve is not None:
            self._curved.add(host)
            self._first[host], self._step[host] = curve.first, curve.step

    def of(self, hosts: Ints, last: Floats, now: float) -> Floats:
        """The ages of copies made at `last`."""
        age = now - last
        there = np.flatnonzero(hosts < len(self._first))
        which = hosts[there]
        at = np.clip((last[there] - self._first[which]) / self._step[which], 0.0, float(ESTIMATE_LIMITS.steps))
        low = np.minimum(at.astype(np.int64), ESTIMATE_LIMITS.steps - 1)
        age[there] += (1.0 - (at - low)) * self._extra[which, low] + (at - low) * self._extra[which, low + 1]
        return np.maximum(age, 0.0)

    def of_one(self, host: int, last: float, now: float) -> float:
        """The age of one copy, without numpy's overhead."""
        age = now - last
        if host in self._curved:
            at = min(
                max((last - float(self._first[host])) / float(self._step[host]), 0.0), float(ESTIMATE_LIMITS.steps)
            )
            low = min(int(at), ESTIMATE_LIMITS.steps - 1)
            extra = self._extra[host]
            age += (1.0 - (at - low)) * float(extra[low]) + (at - low) * float(extra[low + 1])
        return max(age, 0.0)


def survival(age: Floats, alpha: Floats, shape: Floats) -> Floats:
    """The probability that no unannounced change came within `age`, over the posterior of α."""
    known = np.isinf(shape)
    spread = np.where(known, 1.0, shape)
    return np.asarray(np.where(known, np.exp(-alpha * age), np.exp(-spread * np.log1p(alpha * age / spread))))


def mean_freshness(age: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
    """The chance that copies of that age are fresh after signals that have added `boost`, over both beliefs."""
    fresh = survival(age, beliefs.alpha, beliefs.shape) * np.exp(-boost)
    if (deaf := beliefs.deaf) is not None and beliefs.heard is not None:
        some, part = deaf
        heard = beliefs.heard[some]
        fresh[some] = heard * fresh[some] + (1.0 - heard) * survival(age[some], part.alpha, part.shape)
    return fresh


def survival_of_one(age: float, alpha: float, shape: float) -> float:
    """The same of one page, without numpy's overhead."""
    x = alpha * age
    return math.exp(-x if math.isinf(shape) else -shape * math.log1p(x / shape))
