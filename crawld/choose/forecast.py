"""Freshness of all pages together at a bandwidth, now and at others (docs/method.md, "Forecast").

Busa-Fekete et al. 2025, Theorem 1, over what is believed: pages are crawled when their value reaches the level at which
the crawls of all of them spend the bandwidth. A host whose pages would then ask for more than its politeness allows has
a higher level, at which they ask for just that. The maximum interval comes first: what it forces is crawled whatever
the level.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from crawld.choose.forecast_curves import Curves, Kept, round_robin
from crawld.choose.page_table import Intervals
from crawld.choose.sample import Believed, Bools, Sample, draw_sample
from crawld.choose.valuation import Floats, Valuation


@dataclass(frozen=True)
class ForecastLimits:
    """Numbers that bound and tune this module."""

    halvings: int = 40
    max_round: float = 1e15  # seconds
    rounding: float = 1e-6
    given_up: float = 0.5  # a page is given up that has this chance to wait the whole maximum interval
    clearly: float = 1e-3  # a host is limited where its pages are worth so much more than it may be asked, relatively


LIMITS = ForecastLimits()


# One level for all pages, and one of its own for each host that may not be asked so often.


@dataclass(frozen=True, slots=True)
class Allotted:
    """Fate of the sampled pages."""

    kept: Kept
    level: float  # of all hosts that are not limited; inf where there is only time for what is overdue
    unlimited: Kept  # what would become of them if every host had that level


class Allocation:
    """Shares a bandwidth out to sampled pages by their curves."""

    def __init__(self, sample: Sample, curves: Curves, shortest: float) -> None:
        self._sample, self._curves, self._shortest = sample, curves, shortest
        self._group, self._groups = sample.group, len(sample.hosts)
        self._requests = sample.weight * sample.cost
        self._round = np.bincount(self._group, self._requests, self._groups)  # requests of one visit to each page

    def asked(self, kept: Kept) -> Floats:
        """Requests per second by group."""
        return np.bincount(self._group, self._requests * kept.rate, self._groups).astype(np.float64)

    def by_turns(self, available: float, allowed: Floats) -> Kept:
        """Round robin: every page at the same interval, a longer one on hosts that may not be asked so often."""
        own = self._own_round(allowed)
        low, high = self._shortest or 1e-9, LIMITS.max_round
        for _ in range(2 * LIMITS.halvings):
            middle = float(np.sqrt(low * high))
            with np.errstate(divide="ignore", invalid="ignore"):
                asked = np.where(self._round > 0, self._round / np.maximum(own, middle), 0.0).sum()
            low, high = (middle, high) if asked > available else (low, middle)
        return self._in_turn(np.maximum(own, high if available > 0 else np.inf))

    def by_value(self, available: float, allowed: Floats) -> Allotted:
        """Pages are crawled when their value reaches the level at which they spend what is available.

        `allowed` is what each group may be asked, in requests per second. What the maximum interval forces comes first.
        """
        least = self.asked(self._at(np.full(self._groups, self._curves.bounds[1])))
        if float(np.minimum(least, allowed).sum()) >= available:
            turns = self.by_turns(available, allowed)
            return Allotted(turns, np.inf, turns)

        def over_all(asked: Floats) -> Bools:
            return np.full(self._groups, np.minimum(asked, allowed).sum() > available)

        own, common = self._bracket(lambda asked: asked > allowed), self._bracket(over_all)
        limited = own[0] > common[0]
        low, high = (self._at(np.where(limited, own[side], common[side])) for side in (0, 1))
        asked = np.minimum(self.asked(low), allowed), np.minimum(self.asked(high), allowed)
        left = available - asked[1][limited].sum()
        share = np.where(
            limited,
            _share(self.asked(low), self.asked(high), allowed),
            _share(asked[0][~limited].sum(), asked[1][~limited].sum(), left),
        )
        kept = low.mixed(high, share[self._group])
        late = least > allowed
        if late.any():
            kept = self._in_turn(self._own_round(allowed)).where(late[self._group], kept)
        unused = common[0][0] == self._curves.bounds[0]
        return Allotted(kept, 0.0 if unused else float(np.exp(common[1][0])), self._at(common[1]))

    def _own_round(self, allowed: Floats) -> Floats:
        """Least time of one visit to each page, by group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._round > 0, self._round / allowed, 0.0)

    def _in_turn(self, interval: Floats) -> Kept:
        each = np.maximum(interval, self._shortest)[self._group]
        with np.errstate(divide="ignore"):
            return Kept(1.0 / each, round_robin(self._sample, each), np.where(each < np.inf, 1.0, 0.0))

    def _at(self, level: Floats) -> Kept:
        return self._curves.at(level[self._group])

    def _bracket(self, too_much: Callable[[Floats], Bools]) -> tuple[Floats, Floats]:
        """Logarithms of two neighbouring levels by group, at the lower of which too much is asked for."""
        low, high = (np.full(self._groups, bound) for bound in self._curves.bounds)
        for _ in range(LIMITS.halvings):
            middle = 0.5 * (low + high)
            above = too_much(self.asked(self._at(middle)))
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return low, high


def _share(low: Floats, high: Floats, goal: Floats) -> Floats:
    """The part of the time for which `low` is asked for, so that with `high` in the rest it is the goal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (goal - high) / (low - high)
    return np.clip(np.where(low > high, share, 1.0), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class LimitedHost:
    """A host whose pages are worth more requests than it may be asked."""

    host: int
    pages: int
    allowed: float  # requests per second
    wanted: float  # what its pages would be asked at the level of the other hosts
    freshness: float  # of its pages
    costs: float  # what of the freshness of all pages is lost to its politeness


@dataclass(frozen=True, slots=True)
class Point:
    """Gain of a bandwidth in the long run, if what is believed is true and stays so."""

    bandwidth: float  # requests per second, for all purposes
    freshness: float  # weighted by importance
    round_robin: float  # what even intervals for all pages would hold
    used: float  # requests per second that pages are asked
    level: float  # the crawl value at which pages are crawled; inf where there is only time for what is overdue
    given_up: int  # pages that more likely than not wait the whole maximum interval: no value gets them crawled before
    limited: tuple[LimitedHost, ...]  # hosts whose politeness limits this, the costliest first


class Forecast:
    """Forecasts at any bandwidth from one sample of the pages, by a policy's valuation.

    `spacing` is, by host, the seconds between two requests: 0 for no limit, inf for a host that is not asked at all.
    `share` is the part of the bandwidth that goes to pages. Building it takes a second or two for any number of pages,
    a point some hundredths of a second.
    """

    def __init__(
        self, believed: Believed, spacing: Floats, valuation: Valuation, intervals: Intervals, share: float = 1.0
    ) -> None:
        believed = believed.gathered()
        self.pages, self.page_share = len(believed.importance), share
        with np.errstate(divide="ignore"):
            self._sample = sample = draw_sample(believed, share / spacing, intervals.shortest)
        self._spacing = spacing[sample.hosts[1:]]
        self._allocation = Allocation(sample, Curves(sample, valuation, intervals), intervals.shortest)
        self._importance = sample.weight * sample.importance
        self._importance *= _ratio(float(believed.importance[~believed.closed].sum()), float(self._importance.sum()))
        self._total = float(believed.importance.sum())

    @property
    def sampled(self) -> int:
        """Number of pages that stand for all."""
        return len(self._sample.weight)

    def at(self, bandwidth: float) -> Point:
        """Returns what that many requests per second buy."""
        available, allowed = bandwidth * self.page_share, self._allowed(bandwidth)
        found = self._allocation.by_value(available, allowed)
        evenly = self._allocation.by_turns(available, allowed)
        return Point(
            bandwidth=bandwidth,
            freshness=self._mean(found.kept.freshness),
            round_robin=self._mean(evenly.freshness),
            used=float(self._allocation.asked(found.kept).sum()),
            level=found.level,
            given_up=round(self._count(found.kept.forced > LIMITS.given_up)),
            limited=self._limited(found, allowed),
        )

    def _allowed(self, bandwidth: float) -> Floats:
        """Requests per second that may go to the pages of each group: whole slots lie between two requests."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slots = np.maximum(np.ceil(self._spacing * bandwidth * (1 - LIMITS.rounding)), 1.0)
            rate = np.where(self._spacing > 0, bandwidth / slots, np.inf) * self.page_share
        return np.concatenate([[np.inf], np.where(self._spacing < np.inf, rate, 0.0)])

    def _limited(self, found: Allotted, allowed: Floats) -> tuple[LimitedHost, ...]:
        sample = self._sample
        wanted = self._allocation.asked(found.unlimited)
        gap = self._importance * (found.unlimited.freshness - found.kept.freshness)
        costs = np.bincount(sample.group, gap, len(allowed)) / (self._total or 1.0)
        weight = np.bincount(sample.group, self._importance, len(allowed))
        fresh = np.bincount(sample.group, self._importance * found.kept.freshness, len(allowed))
        limited = np.flatnonzero(wanted > allowed * (1 + LIMITS.clearly))
        return tuple(
            LimitedHost(
                host=int(sample.hosts[at]),
                pages=int(sample.pages[at]),
                allowed=float(allowed[at]),
                wanted=float(wanted[at]),
                freshness=_ratio(float(fresh[at]), float(weight[at])),
                costs=max(float(costs[at]), 0.0),
            )
            for at in limited[np.argsort(-costs[limited], kind="stable")].tolist()
        )

    def _count(self, which: Bools) -> float:
        weight = self._sample.weight
        return _ratio(float(weight @ which), float(weight.sum())) * float(self._sample.pages.sum())

    def _mean(self, freshness: Floats) -> float:
        return _ratio(float(self._importance @ freshness), self._total)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


# A forecast for all pages from a part of them that is like the whole: each host in it with all its pages.


class PartForecast:
    """Has the front of `Forecast`; `part` is the share of all pages that the forecast knows, above 0."""

    def __init__(self, forecast: Forecast, part: float) -> None:
        self._forecast, self._part = forecast, part
        self.pages = round(forecast.pages / part)
        self.page_share, self.sampled = forecast.page_share, forecast.sampled

    def at(self, bandwidth: float) -> Point:
        """Returns what that many requests per second buy: the part has its share of them."""
        point = self._forecast.at(bandwidth * self._part)
        return replace(
            point,
            bandwidth=bandwidth,
            used=point.used / self._part,
            given_up=round(point.given_up / self._part),
        )
