"""The greedy policies' crawl values, one class per family."""

import numpy as np

from crawld.scheduler.greedy_base import Greedy, Penalty, Rows, change_rate
from crawld.scheduler.valuation import Beliefs, Floats
from crawld.scheduler.value_expected import Measure, blind_jet, blind_pages, blind_value
from crawld.scheduler.value_objectives import age_pages, harmonic_pages, harmonic_slopes
from crawld.scheduler.value_pages import measure_pages
from crawld.scheduler.value_series import Measures

HIGH_PRECISION, HIGH_RECALL = 0.7, 0.6  # the signals that GREEDY-CIS+ trusts


class GreedyNcis(Greedy):
    """GREEDY-NCIS: noisy signals taken for what they are worth."""

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


class GreedyCis(GreedyNcis):
    """GREEDY-CIS: every signal believed."""

    additive = False

    def view(self, boost: Floats, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """One signal means stale; signals are taken to come at the rate of the true ones, so Δ stays what it is."""
        true = beliefs.gamma * -np.expm1(-beliefs.kappa)
        sure = np.full_like(boost, np.inf)
        return np.where(boost > 0, np.inf, 0.0), Beliefs(beliefs.mu, beliefs.alpha, beliefs.shape, sure, true)


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
