"""The greedy policies' crawl values, one class per family: what a frontier picks by.

Where a page's α is known the value is the papers' formula; where it is learnt, its expectation over the posterior.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.choose.expected import expected_ceiling, expected_page, mixture, unsignalled_page, unsignalled_rows
from crawld.choose.objectives import age_pages, harmonic_pages, harmonic_slopes
from crawld.choose.scalar import Motion, measure_page
from crawld.choose.series import Measures, measure_pages, weigh
from crawld.choose.valuation import Beliefs, Floats, Number, Page, Taylor, Valuation


@dataclass(frozen=True)
class GreedyLimits:
    """Numbers that bound and tune this module."""

    singly: int = 16  # pages that are rather evaluated one by one than by arrays
    high_precision: float = 0.7  # the signals that GREEDY-CIS+ trusts
    high_recall: float = 0.6


LIMITS = GreedyLimits()


Find = Callable[[Floats, Floats, Beliefs], Floats]


class Penalty(NamedTuple):
    """Derivatives of the expected penalty C at x, and what bounds them from x on."""

    first: Floats  # C′
    second: Floats  # C″
    first_ahead: Floats  # the largest C′ from x on
    third: Floats  # the largest |C‴| from x on
    third_reach: Floats  # the largest (y−x)|C‴(y)| over y > x


class Greedy(Valuation):
    """A crawl value V_C = μ∫ψC′; families differ in what they take signals for, measure and minimise."""

    terms: float = inf  # how many of the terms of V's sums are taken

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now: to the last digit, whatever pages are evaluated with it."""
        with np.errstate(all="ignore"):
            seen, known = self.view(boost, beliefs.hearing)
            value = weigh(known.mu, self._rows(tau, seen, known)[0])
            if (deaf := beliefs.deaf) is not None:
                some, part = deaf
                value[some] += weigh(part.mu, self._rows(tau[some], part.kappa, part)[0])
            return value

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """The value now, its first two derivatives in τ, and a bound on the third from now on."""
        with np.errstate(all="ignore"):
            seen, known = self.view(boost, beliefs.hearing)
            rows = weigh(known.mu, self._rows(tau, seen, known))
            if (deaf := beliefs.deaf) is not None:
                some, part = deaf
                rows[:, some] += weigh(part.mu, self._rows(tau[some], part.kappa, part))
            return Taylor(*rows)

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """Returns beliefs as this family reads the signals."""
        return boost, beliefs

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Measures:
        """V, ψ and αψ′ of pages with known parameters, for importance 1."""
        return measure_pages(x, alpha, kappa, gamma, terms=self.terms)

    def penalty(self, x: Floats, delta: Floats) -> Penalty:  # noqa: ARG002 - not every penalty depends on Δ
        """The chance to be stale, C = 1 − e^−x."""
        fresh = np.exp(-x)
        return Penalty(fresh, -fresh, fresh, fresh, 0.368 * fresh)

    def learnt(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The rows of `Taylor` expected over the posterior of α, for importance 1."""
        return mixture(self._motion, tau, boost, beliefs)

    def _rows(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        known = (beliefs.shape == np.inf) | (beliefs.alpha == 0)
        return _either(known, self._known, self.learnt, tau, boost, beliefs)

    def _known(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        _, alpha, _, kappa, gamma = beliefs[:5]
        # Nothing drifts if α = 0, even in endless time.
        return self._motion(np.where(alpha > 0, alpha * tau + boost, boost), alpha, kappa, gamma)

    def _motion(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
        """V′ = αψC′, V″ = α(αψ′C′ + αψC″); |α²ψ″| ≤ unrest and αψ′ ≤ 1 bound V‴ from here on."""
        found = self.measures(x, alpha, kappa, gamma)
        penalty = self.penalty(x, change_rate(alpha, kappa, gamma))
        drift = alpha * found.length
        drift[np.logical_not(drift < np.inf)] = 0.0  # only where nothing moves any more, or nothing ever did
        curvature = alpha * (found.density * penalty.first + drift * penalty.second)
        bend = 2 * np.abs(penalty.second) + drift * penalty.third + penalty.third_reach
        bound = alpha * (found.unrest * penalty.first_ahead + alpha * bend)
        return np.array((found.value, drift * penalty.first, curvature, bound))


class Freshness(Greedy):
    """The families that minimise staleness: their values have closed forms, and a scalar twin for few pages."""

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """Value and motion; of few pages in plain floats."""
        if tau.size > LIMITS.singly:
            return super().taylor(tau, boost, beliefs)
        rows = self._taylor_singly(tau, *self.view(boost, beliefs.hearing))
        if (deaf := beliefs.deaf) is not None:
            some, part = deaf
            rows[some] += self._taylor_singly(tau[some], part.kappa, part)
        return Taylor(*rows.T)

    def _taylor_singly(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        pages = np.array((tau, boost, *beliefs[:5])).T.tolist()
        return np.array([self.taylor_page(*page) for page in pages]).reshape(-1, 4)

    def taylor_page(
        self, tau: float, boost: float, mu: float, alpha: float, shape: float, kappa: float, gamma: float
    ) -> Motion:
        """The scalar twin of `taylor`, with signals already taken for what this family takes them for."""
        if mu == 0:
            return 0.0, 0.0, 0.0, 0.0
        if shape < inf and alpha > 0:
            if boost == 0 and (kappa == 0 or gamma == 0):
                value, slope, curvature, bound = unsignalled_page(tau, shape, shape / alpha)
            else:
                value, slope, curvature, bound = expected_page(tau, boost, (alpha, shape), kappa, gamma, self.terms)
        else:
            x = alpha * tau + boost if alpha > 0 else boost
            value, drift, density, unrest = measure_page(x, alpha, kappa, gamma, self.terms)
            fresh = exp(-x)
            slope, curvature = fresh * drift, fresh * alpha * (density - drift)
            bound = fresh * alpha * (unrest + alpha * (2.368 + drift))
        return mu * value, mu * slope, mu * curvature, mu * bound

    def learnt(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """Expected rows: in closed form where there are no signals."""
        alone = ((beliefs.gamma == 0) | (beliefs.kappa == 0)) & (boost == 0)
        return _either(alone, _unsignalled, super().learnt, tau, boost, beliefs)

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """Δ bounds every family: V ≤ μ∫ψ ≤ μ∫y/α = ματ²/2, also over a posterior, whose points have its mean."""
        rate: Number = alpha - gamma * np.expm1(-kappa)
        return rate


class GreedyNcis(Freshness):
    """GREEDY-NCIS: noisy signals taken for what they are worth."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """Only drift counts before the first signal."""
        return alpha

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:
        """One page: here signals are taken as they are."""
        return self.taylor_page(tau, boost, *page)

    def ceiling(self, tau: float, boost: float, page: Page) -> float:
        """A bound also for pages with signals: over a posterior, their value takes nine times as long as another's."""
        mu, alpha, shape, kappa, gamma = page
        if boost == 0:
            return 0.5 * mu * alpha * tau * tau * (1 + 1e-9)  # what `early_rate` bounds
        if not (alpha > 0 and gamma > 0 and 0 < kappa < inf and boost < inf):
            return inf
        return mu * expected_ceiling(tau, boost, (alpha, shape), kappa, gamma)


class GreedyApproximate(GreedyNcis):
    """G-NCIS-APPROX-j: the first terms of V's sums. Each term rises with x, so this value never falls either."""

    def __init__(self, terms: int) -> None:
        self.terms = terms

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:
        """One page, seen as by `view`."""
        mu, alpha, shape, kappa, gamma = page
        return self.taylor_page(tau, boost, mu, alpha, shape, kappa, gamma if kappa > 0 else 0.0)

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """Useless signals (κ = 0) are none: taken literally the truncated sum would not tend to GREEDY."""
        return boost, beliefs._replace(gamma=np.where(beliefs.kappa > 0, beliefs.gamma, 0.0))


class GreedyBlind(Freshness):
    """GREEDY: signals ignored, every change at rate Δ counts as unannounced."""

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:  # noqa: ARG002 - signals are ignored
        """One page, seen as by `view`."""
        mu, alpha, shape, kappa, gamma = page
        return self.taylor_page(tau, 0.0, mu, alpha - gamma * expm1(-kappa), shape, 0.0, 0.0)

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """No signals; what was learnt of α is taken as learnt of Δ."""
        delta, nothing = change_rate(beliefs.alpha, beliefs.kappa, beliefs.gamma), np.zeros_like(boost)
        return nothing, Beliefs(beliefs.mu, delta, beliefs.shape, nothing, nothing)


class GreedyCis(Freshness):
    """GREEDY-CIS: every signal believed."""

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:
        """One page, seen as by `view`."""
        mu, alpha, shape, kappa, gamma = page
        return self.taylor_page(tau, inf if boost > 0 else 0.0, mu, alpha, shape, inf, -gamma * expm1(-kappa))

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """One signal means stale; signals are taken to come at the rate of the true ones, so Δ stays what it is."""
        true = beliefs.gamma * -np.expm1(-beliefs.kappa)
        return np.where(boost > 0, np.inf, 0.0), beliefs._replace(kappa=np.full_like(boost, np.inf), gamma=true)


class GreedyCisPlus(Freshness):
    """GREEDY-CIS+: signals of high precision and recall believed, all others ignored."""

    _trusting, _ignoring = GreedyCis(), GreedyBlind()

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:
        """One page: GREEDY-CIS where signals are good, else GREEDY."""
        _, alpha, _, kappa, gamma = page
        precision = -expm1(-kappa)
        true = gamma * precision
        good = precision > LIMITS.high_precision and true > LIMITS.high_recall * (alpha + true)
        return (self._trusting if good else self._ignoring).taylor_of(tau, boost, page)

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """GREEDY-CIS where signals are good, else GREEDY."""
        precision = -np.expm1(-beliefs.kappa)
        true = beliefs.gamma * precision
        good = (precision > LIMITS.high_precision) & (true > LIMITS.high_recall * (beliefs.alpha + true))
        trusting, believed = self._trusting.view(boost, beliefs)
        ignoring, plain = self._ignoring.view(boost, beliefs)
        chosen = Beliefs(*(np.where(good, one, other) for one, other in zip(believed[:5], plain[:5], strict=True)))
        return np.where(good, trusting, ignoring), chosen


class GreedyHarmonic(Greedy):
    """The harmonic penalty H(n) of n missed changes: no page is ever given up."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """As for freshness, because C′ = (1−e^−x)/x is at most 1."""
        return alpha

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Measures:
        """The harmonic value with the same ψ."""
        return super().measures(x, alpha, kappa, gamma)._replace(value=harmonic_pages(x, alpha, kappa, gamma))

    def penalty(self, x: Floats, delta: Floats) -> Penalty:  # noqa: ARG002 - the same for every Δ
        """C′ = (1−e^−x)/x and its derivatives, all of them falling in size."""
        first, second, third = harmonic_slopes(x)
        return Penalty(first, second, first, third, np.abs(second))


class GreedyAge(Greedy):
    """The age of the copy."""

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Measures:
        """The age value with the same ψ."""
        return super().measures(x, alpha, kappa, gamma)._replace(value=age_pages(x, alpha, kappa, gamma))

    def penalty(self, x: Floats, delta: Floats) -> Penalty:
        """C′ = (1−e^−x)/Δ."""
        each = np.where(delta > 0, 1 / delta, 0.0)
        fresh = np.exp(-x) * each
        return Penalty(-np.expm1(-x) * each, fresh, each, fresh, 0.368 * fresh)


def change_rate(alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """Δ = α + γ(1−e^−κ)."""
    return alpha - gamma * np.expm1(-kappa)


def _unsignalled(tau: Floats, _: Floats, beliefs: Beliefs) -> Floats:
    return unsignalled_rows(tau, beliefs.shape, beliefs.shape / beliefs.alpha)


def _either(mask: NDArray[np.bool_], yes: Find, no: Find, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
    """Rows of the marked pages by one function, of the others by another."""
    many = np.count_nonzero(mask)
    if many in (0, mask.size):
        return yes(tau, boost, beliefs) if many == mask.size else no(tau, boost, beliefs)
    rows = np.empty((4, tau.size))
    for part, find in ((mask, yes), (~mask, no)):
        rows[:, part] = find(tau[part], boost[part], beliefs.select(part))
    return rows
