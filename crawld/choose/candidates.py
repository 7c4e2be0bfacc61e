"""The candidates: pages whose crawl value may reach the level before the horizon, each with a model of its value.

A model is a Taylor polynomial: |V(t) − (value + slope·d + bend·d²)| ≤ twist·d³ + error with d = t − `at`, for every
time t from `at` on. `error` also covers the rounding of the value itself, so that an order that models call certain is
the order of the rounded values too. A value may be inf (an unbounded one, after a sure signal): its model is huge
instead, and such pages are told apart by exact values.
"""

from dataclasses import dataclass
from operator import add

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import Ints, PageTable
from crawld.choose.valuation import Beliefs, Floats, Valuation


@dataclass(frozen=True)
class CandidatesLimits:
    """Numbers that bound and tune this module."""

    huge: float = 1e250
    singly: int = 16  # pages up to which models are made in plain floats
    rounding: float = 1e-10  # relative, far above what a value's own rounding can do


LIMITS = CandidatesLimits()


GONE = -np.inf  # the value of a place left behind
_AT, _VALUE, _SLOPE, _BEND, _TWIST, _ERROR, _NOT_BEFORE = range(7)  # rows: a model, and when a page may be picked


def models(valuation: Valuation, pages: PageTable, rows: Ints, now: float) -> Floats:
    """Models of pages from now on, one a column, and when each may be picked."""
    pages.evaluations += len(rows)
    if len(rows) <= LIMITS.singly and (made := _singly(valuation, pages.table[rows].tolist(), now)) is not None:
        return made
    *beliefs, last, boost, not_before, _ = pages.take(rows)
    # A copy from after `now` (the clock stepped back) does not age before its own time.
    at = np.maximum(now, last)
    value, slope, curvature, third = valuation.taylor(at - last, boost, Beliefs(*beliefs))
    made = np.empty((7, len(rows)))
    made[_AT], made[_VALUE], made[_SLOPE], made[_BEND], made[_TWIST] = at, value, slope, 0.5 * curvature, third / 6
    made[_ERROR], made[_NOT_BEFORE] = LIMITS.rounding * value, not_before
    if value.max() >= LIMITS.huge:
        endless = value >= LIMITS.huge
        made[_VALUE, endless], made[_SLOPE:_ERROR, endless], made[_ERROR, endless] = (
            LIMITS.huge,
            0.0,
            LIMITS.rounding * LIMITS.huge,
        )
    return made


def _singly(valuation: Valuation, pages: list[list[float]], now: float) -> Floats | None:
    """The same of few pages, given by their rows of the table; None where the valuation has no plain floats."""
    made: list[tuple[float, ...]] = []
    for mu, alpha, shape, kappa, gamma, heard, deaf_alpha, deaf_shape, last, boost, not_before, _ in pages:
        at = max(now, last)
        found = valuation.taylor_of(at - last, boost, (heard * mu, alpha, shape, kappa, gamma))
        if found is None:
            return None
        value, slope, curvature, third = found
        if heard < 1:
            deaf = valuation.taylor_of(at - last, 0.0, ((1 - heard) * mu, deaf_alpha, deaf_shape, 0.0, 0.0))
            assert deaf is not None, "a valuation has plain floats for all pages or none"
            value, slope, curvature, third = map(add, found, deaf)
        if value >= LIMITS.huge:
            value, slope, curvature, third = LIMITS.huge, 0.0, 0.0, 0.0
        made.append((at, value, slope, 0.5 * curvature, third / 6, LIMITS.rounding * value, not_before))
    return np.array(made).T


def highest(made: Floats, at: float) -> Floats:
    """What values cannot exceed up to that time."""
    ahead = np.maximum(at - made[_AT], 0.0)
    rise = ahead * (made[_SLOPE] + ahead * (made[_BEND] + ahead * made[_TWIST]))
    return np.asarray(made[_VALUE] + rise + made[_ERROR])


class Candidates:
    """The models of the candidates, packed; the place of a page is found by its row.

    Invariant: `place[row]` is where the row stands, -1 if it does not stand here; a place left behind has row -1.
    """

    def __init__(self) -> None:
        self.size = self._left = 0  # places in use, and those of them left behind
        self.row: Ints = np.full(64, -1, dtype=np.int64)
        self._host: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._place: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._models = np.zeros((7, 64))
        self._seen_at = np.nan  # when the models were read, and what the page at each place was worth then, about
        self._lowest = self._highest = np.zeros(0)

    def __len__(self) -> int:
        return self.size - self._left

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        place = np.full(rows, -1, dtype=np.int32)
        place[: len(self._place)] = self._place
        self._place = place

    def models(self) -> Floats:
        """The models of all places, to read; of those left behind the value is -inf."""
        return self._models[:, : self.size]

    def insert(self, rows: Ints, hosts: NDArray[np.int32], made: Floats) -> None:
        """Take in pages."""
        assert np.all(self._place[rows] == -1), "a page is a candidate only once"
        begin, end = self.size, self.size + len(rows)
        if end > len(self.row):
            more = max(end, 2 * len(self.row)) - len(self.row)
            self.row = np.concatenate([self.row, np.full(more, -1, dtype=np.int64)])
            self._host = np.concatenate([self._host, np.zeros(more, dtype=np.int32)])
            self._models = np.hstack([self._models, np.zeros((7, more))])
        self.row[begin:end], self._host[begin:end], self._models[:, begin:end] = rows, hosts, made
        self._place[rows] = np.arange(begin, end)
        self.size, self._seen_at = end, np.nan

    def remove(self, row: int) -> None:
        """Take a page out if it stands here."""
        place = self._place.item(row)
        if place >= 0:
            self._place[row] = self.row[place] = -1
            self._models[_VALUE, place] = GONE
            self._left += 1
            if place < len(self._lowest):
                self._lowest[place] = self._highest[place] = GONE

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Pack the places that are marked and drop all others."""
        rows, kept = self.row[: self.size], np.flatnonzero(mask)
        self._place[rows[rows >= 0]] = -1
        self.size, self._left, self._seen_at = len(kept), 0, np.nan
        self.row[: self.size], self._host[: self.size] = rows[kept], self._host[kept]
        self._models[:, : self.size] = self._models[:, kept]
        self._place[self.row[: self.size]] = np.arange(self.size)

    def lead(self, now: float, ready_at: Floats | None) -> tuple[Ints, float]:
        """The places among which the best page is that may be asked now, and the least it is worth."""
        if self._seen_at != now:
            self._see(now)
        lowest = self._lowest
        if ready_at is not None:
            closed = ready_at.take(self._host[: self.size]) > now
            lowest = np.where(closed, GONE, lowest)
        least = float(np.maximum.reduce(lowest, initial=GONE))
        if least == GONE:
            return np.zeros(0, dtype=np.int64), 0.0
        leading = self._highest >= least
        if ready_at is not None:
            leading &= ~closed
        return leading.nonzero()[0], least

    def renew(self, places: Ints, made: Floats) -> None:
        """Put models made now in place of earlier ones."""
        self._models[:, places] = made
        if len(places) and self._seen_at == made[_AT, 0] == made[_AT].max():
            may = made[_NOT_BEFORE] <= self._seen_at
            self._lowest[places] = np.where(may, made[_VALUE] - made[_ERROR], GONE)
            self._highest[places] = np.where(may, made[_VALUE] + made[_ERROR], GONE)
        else:
            self._seen_at = np.nan

    def _see(self, now: float) -> None:
        """Read all models: several slots may come at one time, and only a few places change between them."""
        at, value, slope, bend, twist, error, not_before = self.models()
        ahead = np.maximum(now - at, 0.0)
        here = bend * ahead
        here += slope
        here *= ahead
        here += value
        blur = twist * ahead
        blur *= ahead
        blur *= ahead
        blur += error
        np.putmask(here, not_before > now, GONE)
        self._seen_at, self._lowest = now, here - blur
        here += blur
        self._highest = here
