"""One level for all pages, and one of its own for each host that may not be asked so often."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crawld.choose.forecast_curves import Curves, Kept, round_robin
from crawld.choose.sample import Bools, Sample
from crawld.choose.valuation import Floats

HALVINGS = 40
LONGEST_ROUND = 1e15  # seconds


@dataclass(frozen=True, slots=True)
class Allotted:
    """What becomes of the sampled pages."""

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
        low, high = self._shortest or 1e-9, LONGEST_ROUND
        for _ in range(2 * HALVINGS):
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
        """By group, how long one visit to each of its pages takes at least."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._round > 0, self._round / allowed, 0.0)

    def _in_turn(self, interval: Floats) -> Kept:
        each = np.maximum(interval, self._shortest)[self._group]
        with np.errstate(divide="ignore"):
            return Kept(1.0 / each, round_robin(self._sample, each), np.where(each < np.inf, 1.0, 0.0))

    def _at(self, level: Floats) -> Kept:
        return self._curves.at(level[self._group])

    def _bracket(self, too_much: Callable[[Floats], Bools]) -> tuple[Floats, Floats]:
        """By group the logarithms of two neighbouring levels, at the lower of which too much is asked for."""
        low, high = (np.full(self._groups, bound) for bound in self._curves.bounds)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            above = too_much(self.asked(self._at(middle)))
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return low, high


def _share(low: Floats, high: Floats, goal: Floats) -> Floats:
    """The part of the time for which `low` is asked for, so that with `high` in the rest it is the goal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (goal - high) / (low - high)
    return np.clip(np.where(low > high, share, 1.0), 0.0, 1.0)
