"""What all greedy crawl values share: known and learnt parameters, motion in time, crossings of a level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.value.expected import Measure, mixture
from crawld.value.inverse import SAFETY, rising_crossing
from crawld.value.series import Measures, measure_pages, weigh
from crawld.value.valuation import Beliefs, Floats, Jet, Valuation

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Rows = Sequence[Floats] | Floats

EARLY = 1e-6  # how much too early, relatively, a crossing may be: an early waking costs one value, no more
_END = 1e300  # a time by which every value has arrived


class Penalty(NamedTuple):
    """Derivatives of the expected penalty C at x, and what bounds them from x on."""

    first: Floats  # C′
    second: Floats  # C″
    first_ahead: Floats  # the largest C′ from x on
    third: Floats  # the largest |C‴| from x on
    third_reach: Floats  # the largest (y−x)|C‴(y)| over y > x


class Greedy(Valuation):
    """A crawl value V_C = μ∫ψC′; families differ in what they take signals for, measure and minimise.

    Where a page's α is known the value is the papers' formula; where it is learnt, its expectation over the posterior.
    """

    additive = True

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        with np.errstate(all="ignore"):
            boost, beliefs = self.view(boost, beliefs)
            return weigh(beliefs.mu, self._rows(self._value_row, tau, boost, beliefs)[0])

    def jet(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        """The value now, its first two derivatives in τ, and a bound on the third from now on."""
        with np.errstate(all="ignore"):
            boost, beliefs = self.view(boost, beliefs)
            rows = self._rows(self._jet_rows, tau, boost, beliefs)
            return Jet(*(weigh(beliefs.mu, row) for row in rows))

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""
        result = np.empty_like(boost)
        with np.errstate(all="ignore"):
            boost, beliefs = self.view(boost, beliefs)
            goal = np.where(beliefs.mu > 0, level / beliefs.mu, 0.0 if level <= 0 else np.inf)
            known = _known(beliefs)
            for part, cross in ((known, self._known_crossing), (~known, self._learnt_crossing)):
                if part.any():
                    result[part] = cross(goal[part], boost[part], beliefs.select(part))
        return result

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """What this family takes the signals for."""
        return boost, beliefs

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
        """V, ψ and αψ′ of pages with known parameters, for importance 1."""
        return measure_pages(x, alpha, kappa, gamma, length=length)

    def penalty(self, x: Floats, delta: Floats) -> Penalty:  # noqa: ARG002 - not every penalty depends on Δ
        """The chance to be stale, C = 1 − e^−x."""
        fresh = np.exp(-x)
        return Penalty(fresh, -fresh, fresh, fresh, 0.368 * fresh)

    def learnt(self, measure: Measure, tau: Floats, boost: Floats, beliefs: Beliefs) -> Rows:
        """Rows of `measure` expected over the posterior of α."""
        return mixture(measure, tau, boost, (beliefs.shape, beliefs.alpha), beliefs.kappa, beliefs.gamma)

    def _rows(self, measure: Measure, tau: Floats, boost: Floats, beliefs: Beliefs) -> Rows:
        known = _known(beliefs)
        many = np.count_nonzero(known)
        if many == known.size:
            return measure(staleness(tau, boost, beliefs.alpha), beliefs.alpha, beliefs.kappa, beliefs.gamma)
        if many == 0:
            return self.learnt(measure, tau, boost, beliefs)
        parts = [(part, self._rows(measure, tau[part], boost[part], beliefs.select(part))) for part in (known, ~known)]
        rows = np.empty((len(parts[0][1]), tau.size))
        for part, found in parts:
            rows[:, part] = found
        return rows

    def _value_row(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> list[Floats]:
        return [self.measures(x, alpha, kappa, gamma, length=False).value]

    def _jet_rows(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> list[Floats]:
        """V′ = αψC′, V″ = α(αψ′C′ + αψC″); |α²ψ″| ≤ unrest and αψ′ ≤ 1 bound V‴ from here on."""
        found = self.measures(x, alpha, kappa, gamma, length=True)
        penalty = self.penalty(x, change_rate(alpha, kappa, gamma))
        drift = alpha * found.length
        drift[np.logical_not(drift < np.inf)] = 0.0  # only where nothing moves any more, or nothing ever did
        curvature = alpha * (found.density * penalty.first + drift * penalty.second)
        bend = 2 * np.abs(penalty.second) + drift * penalty.third + penalty.third_reach
        bound = alpha * (found.unrest * penalty.first_ahead + alpha * bend)
        return [found.value, drift * penalty.first, curvature, bound]

    def _known_crossing(self, goal: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """Solved in x, which is the same for every boost."""
        alpha, kappa, gamma = beliefs.alpha, beliefs.kappa, beliefs.gamma
        delta = change_rate(alpha, kappa, gamma)

        def evaluate(x: Floats, pages: Indices) -> tuple[Floats, Floats]:
            found = self.measures(x, alpha[pages], kappa[pages], gamma[pages], length=True)
            return found.value, found.length * self.penalty(x, delta[pages]).first

        top = self.measures(np.full_like(boost, np.inf), alpha, kappa, gamma, length=False).value
        low = rising_crossing(evaluate, goal, top, greedy_staleness(goal, top, delta), EARLY)[0]
        gap = low * (1 - 1e-14) - boost
        wait = np.where(gap > 0, gap * (1 - 1e-15) / alpha, 0.0)
        return np.where(low == np.inf, np.inf, wait)

    def _learnt_crossing(self, goal: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """Solved in τ, over the same points of α as the values, so that no rounding of theirs can break the bound."""

        def evaluate(tau: Floats, pages: Indices) -> tuple[Floats, Floats]:
            rows = self.learnt(self._jet_rows, tau, boost[pages], beliefs.select(pages))
            return rows[0], rows[1]

        now, end = (self.learnt(self._value_row, np.full_like(boost, t), boost, beliefs)[0] for t in (0.0, _END))
        start = np.maximum(greedy_staleness(goal, end, beliefs.alpha) - boost, 0.1) / beliefs.alpha
        reached = now >= goal * (1 - SAFETY)
        low = rising_crossing(evaluate, np.where(reached, 0.0, goal), end, start, EARLY)[0]
        return low * (1 - 1e-12)


def _known(beliefs: Beliefs) -> Mask:
    unspread: Mask = beliefs.shape == np.inf
    unspread |= beliefs.alpha == 0
    return unspread


def staleness(tau: Floats, boost: Floats, alpha: Floats) -> Floats:
    """Log-staleness ατ + boost, where nothing drifts even in endless time if α = 0."""
    x = alpha * tau + boost
    return x if np.count_nonzero(alpha) == alpha.size else np.where(alpha > 0, x, boost)


def change_rate(alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """Δ = α + γ(1−e^−κ)."""
    return alpha - gamma * np.expm1(-kappa)


def greedy_staleness(goal: Floats, top: Floats, delta: Floats) -> Floats:
    """A guess at where a value with this top reaches the goal: as GREEDY's does, where x − ln(1+x) = −ln(1−V/top)."""
    depth = -2 * np.log1p(-goal / np.minimum(top, goal + 1 / delta))
    start: Floats = np.sqrt(depth) + depth / (2 + 0.5 * np.sqrt(depth))
    return start
