"""What all pages together reach at a bandwidth, now and at others (docs/method.md, "Forecast").

Busa-Fekete et al. 2025, Theorem 1, over what is believed: pages are crawled when their value reaches the level at which
the crawls of all of them spend the bandwidth. A host whose pages would then ask for more than its politeness allows has
a higher level, at which they ask for just that. The maximum interval comes first: what it forces is crawled whatever
the level.
"""

from dataclasses import dataclass

import numpy as np

from crawld.choose.allocation_of_forecast import Allocation, Allotted
from crawld.choose.forecast_curves import Curves
from crawld.choose.page_table import Intervals
from crawld.choose.sample import Believed, Bools, draw_sample
from crawld.choose.valuation import Floats, Valuation

ROUNDING = 1e-6
GIVEN_UP = 0.5  # a page is given up that has this chance to wait the whole maximum interval
CLEARLY = 1e-3  # a host is limited where its pages are worth so much more than it may be asked, relatively


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
    """What a bandwidth buys in the long run, if what is believed is true and stays so."""

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
        """How many pages stand for all."""
        return len(self._sample.weight)

    def at(self, bandwidth: float) -> Point:
        """What that many requests per second buy."""
        available, allowed = bandwidth * self.page_share, self._allowed(bandwidth)
        found = self._allocation.by_value(available, allowed)
        evenly = self._allocation.by_turns(available, allowed)
        return Point(
            bandwidth=bandwidth,
            freshness=self._mean(found.kept.freshness),
            round_robin=self._mean(evenly.freshness),
            used=float(self._allocation.asked(found.kept).sum()),
            level=found.level,
            given_up=round(self._count(found.kept.forced > GIVEN_UP)),
            limited=self._limited(found, allowed),
        )

    def _allowed(self, bandwidth: float) -> Floats:
        """By group, how many requests per second may go to its pages: whole slots lie between two requests."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slots = np.maximum(np.ceil(self._spacing * bandwidth * (1 - ROUNDING)), 1.0)
            rate = np.where(self._spacing > 0, bandwidth / slots, np.inf) * self.page_share
        return np.concatenate([[np.inf], np.where(self._spacing < np.inf, rate, 0.0)])

    def _limited(self, found: Allotted, allowed: Floats) -> tuple[LimitedHost, ...]:
        sample = self._sample
        wanted = self._allocation.asked(found.unlimited)
        gap = self._importance * (found.unlimited.freshness - found.kept.freshness)
        costs = np.bincount(sample.group, gap, len(allowed)) / (self._total or 1.0)
        weight = np.bincount(sample.group, self._importance, len(allowed))
        fresh = np.bincount(sample.group, self._importance * found.kept.freshness, len(allowed))
        limited = np.flatnonzero(wanted > allowed * (1 + CLEARLY))
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
