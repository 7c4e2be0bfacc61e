"""The greedy policies' crawl values, one class per family."""

from math import exp, expm1, inf

import numpy as np

from crawld.value.expected import (
    Measure,
    blind_jet,
    blind_page,
    blind_pages,
    blind_value,
    expected_ceiling,
    expected_page,
)
from crawld.value.greedy_base import Greedy, Penalty, Rows, change_rate
from crawld.value.objectives import age_pages, harmonic_pages, harmonic_slopes
from crawld.value.scalar import measure_page
from crawld.value.series import Measures, measure_pages
from crawld.value.valuation import Beliefs, Floats, Number, Page, Valuation

HIGH_PRECISION, HIGH_RECALL = 0.7, 0.6  # the signals that GREEDY-CIS+ trusts


class GreedyNcis(Greedy):
    """GREEDY-NCIS: noisy signals taken for what they are worth."""

    quick = True
    terms: float = inf  # how many of V's sums are taken

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """V ≤ μ∫ψ ≤ μ∫y/α = ματ²/2, also over a posterior of α, whose points have its mean."""
        return alpha

    def view_page(self, boost: float, page: Page) -> tuple[float, Page]:
        """The scalar twin of `view`."""
        return boost, page

    def ceiling_of(self, tau: float, boost: float, page: Page) -> float:
        """A bound for pages of learnt α with signals, whose value takes nine times as long as another's."""
        boost, (mu, alpha, shape, kappa, gamma) = self.view_page(boost, page)
        if not (shape < inf and alpha > 0 and gamma > 0 and 0 < kappa < inf and boost < inf):
            return inf
        return mu * expected_ceiling(tau, boost, (shape, alpha), kappa, gamma)

    def jet_of(self, tau: float, boost: float, page: Page) -> tuple[float, float, float, float]:
        """Value and motion of one page, in plain floats."""
        boost, (mu, alpha, shape, kappa, gamma) = self.view_page(boost, page)
        if mu == 0:
            return 0.0, 0.0, 0.0, 0.0
        if shape < inf and alpha > 0:
            if boost == 0 and (kappa == 0 or gamma == 0):
                value, slope, curvature, bound = blind_page(tau, shape, shape / alpha)
            else:
                value, slope, curvature, bound = expected_page(tau, boost, (shape, alpha), kappa, gamma, self.terms)
        else:
            x = alpha * tau + boost if alpha > 0 else boost
            value, drift, density, unrest = measure_page(x, alpha, kappa, gamma, self.terms)
            fresh = exp(-x)
            slope, curvature = fresh * drift, fresh * alpha * (density - drift)
            bound = fresh * alpha * (unrest + alpha * (2.368 + drift))
        return mu * value, mu * slope, mu * curvature, mu * bound

    def learnt(self, measure: Measure, tau: Floats, boost: Floats, beliefs: Beliefs) -> Rows:
        """Expected rows: in closed form where there are no signals."""
        blind = blind_pages(boost, beliefs.kappa, beliefs.gamma)
        many = np.count_nonzero(blind)
        if many == 0:
            return super().learnt(measure, tau, boost, beliefs)
        if many < blind.size:
            seen = ~blind
            signalled = super().learnt(measure, tau[seen], boost[seen], beliefs.select(seen))
            rows = np.empty((len(signalled), tau.size))
            rows[:, seen] = signalled
            rows[:, blind] = self.learnt(measure, tau[blind], boost[blind], beliefs.select(blind))
            return rows
        rate = beliefs.shape / beliefs.alpha
        closed = [blind_value(tau, beliefs.shape, rate)]
        if measure == self._jet_rows:
            closed.extend(blind_jet(tau, beliefs.shape, rate))
        return closed


class GreedyBlind(GreedyNcis):
    """GREEDY: signals ignored, every change at rate Δ counts as unannounced."""

    additive, deaf = False, True

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """No signals; what was learnt of α is taken as learnt of Δ."""
        delta = change_rate(beliefs.alpha, beliefs.kappa, beliefs.gamma)
        nothing = np.zeros_like(boost)
        return nothing, Beliefs(beliefs.mu, delta, beliefs.shape, nothing, nothing)

    def view_page(self, boost: float, page: Page) -> tuple[float, Page]:  # noqa: ARG002 - signals are ignored
        """The scalar twin of `view`."""
        mu, alpha, shape, kappa, gamma = page
        return 0.0, (mu, alpha - gamma * expm1(-kappa), shape, 0.0, 0.0)

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """The total change rate."""
        rate: Number = alpha - gamma * np.expm1(-kappa)
        return rate


class GreedyCis(GreedyNcis):
    """GREEDY-CIS: every signal believed."""

    additive = False

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """One signal means stale; signals are taken to come at the rate of the true ones, so Δ stays what it is."""
        true = beliefs.gamma * -np.expm1(-beliefs.kappa)
        sure = np.full_like(boost, np.inf)
        return np.where(boost > 0, np.inf, 0.0), Beliefs(beliefs.mu, beliefs.alpha, beliefs.shape, sure, true)

    def view_page(self, boost: float, page: Page) -> tuple[float, Page]:
        """The scalar twin of `view`."""
        mu, alpha, shape, kappa, gamma = page
        return inf if boost > 0 else 0.0, (mu, alpha, shape, inf, -gamma * expm1(-kappa))


class GreedyCisPlus(GreedyNcis):
    """GREEDY-CIS+: signals of high precision and recall believed, all others ignored."""

    additive = False

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """GREEDY-CIS where signals are good, else GREEDY."""
        precision = -np.expm1(-beliefs.kappa)
        recall = beliefs.gamma * precision / change_rate(beliefs.alpha, beliefs.kappa, beliefs.gamma)
        good = (precision > HIGH_PRECISION) & (recall > HIGH_RECALL)
        trusting, naive = GreedyCis().view(boost, beliefs)
        ignoring, plain = GreedyBlind().view(boost, beliefs)
        chosen = Beliefs(
            beliefs.mu,
            np.where(good, naive.alpha, plain.alpha),
            beliefs.shape,
            np.where(good, naive.kappa, plain.kappa),
            np.where(good, naive.gamma, plain.gamma),
        )
        return np.where(good, trusting, ignoring), chosen

    def jet_of(self, tau: float, boost: float, page: Page) -> tuple[float, float, float, float]:
        """As one or the other family; beside the thresholds, where roundings may differ, as the arrays have it."""
        _, alpha, _, kappa, gamma = page
        precision = -expm1(-kappa)
        true = gamma * precision
        margin = true - HIGH_RECALL * (alpha + true)
        if abs(precision - HIGH_PRECISION) < 1e-9 or abs(margin) <= 1e-9 * (alpha + true):
            return Valuation.jet_of(self, tau, boost, page)
        family = GreedyCis() if precision > HIGH_PRECISION and margin > 0 else GreedyBlind()
        return family.jet_of(tau, boost, page)

    def ceiling_of(self, tau: float, boost: float, page: Page) -> float:  # noqa: ARG002 - there is none
        """None: which family a page belongs to would have to be decided first."""
        return inf

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """The total change rate, which is the larger of the two families'."""
        rate: Number = alpha - gamma * np.expm1(-kappa)
        return rate


class GreedyApproximate(GreedyNcis):
    """G-NCIS-APPROX-j: the first terms of V's sums. Each term rises with x, so this value never falls either."""

    def __init__(self, terms: int) -> None:
        self.terms = terms

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """Useless signals (κ = 0) are none: taken literally the truncated sum would not tend to GREEDY."""
        gamma = np.where(beliefs.kappa > 0, beliefs.gamma, 0.0)
        return boost, Beliefs(beliefs.mu, beliefs.alpha, beliefs.shape, beliefs.kappa, gamma)

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
        """V, ψ and αψ′ of the truncated sums."""
        return measure_pages(x, alpha, kappa, gamma, length=length, terms=self.terms)


class GreedyHarmonic(Greedy):
    """The harmonic penalty H(n) of n missed changes: no page is ever given up."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """As for freshness, because C′ = (1−e^−x)/x is at most 1."""
        return alpha

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
        """The harmonic value with the same ψ."""
        return _with_value(harmonic_pages(x, alpha, kappa, gamma), x, alpha, kappa, gamma, length=length)

    def penalty(self, x: Floats, delta: Floats) -> Penalty:  # noqa: ARG002 - the same for every Δ
        """C′ = (1−e^−x)/x and its derivatives, all of them falling in size."""
        first, second, third = harmonic_slopes(x)
        return Penalty(first, second, first, third, np.abs(second))


class GreedyAge(Greedy):
    """The age of the copy."""

    def measures(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
        """The age value with the same ψ."""
        return _with_value(age_pages(x, alpha, kappa, gamma), x, alpha, kappa, gamma, length=length)

    def penalty(self, x: Floats, delta: Floats) -> Penalty:
        """C′ = (1−e^−x)/Δ."""
        each = np.where(delta > 0, 1 / delta, 0.0)
        fresh = np.exp(-x) * each
        return Penalty(-np.expm1(-x) * each, fresh, each, fresh, 0.368 * fresh)


def _with_value(value: Floats, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
    if not length:
        return Measures(value, value, value, value)
    found = measure_pages(x, alpha, kappa, gamma)
    found.value = value
    return found
