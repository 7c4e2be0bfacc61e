"""A quick look at the crawl value of one page, in plain floats with an error bound.

After a signal or a crawl the frontier has to know where one page stands. For one page the overhead of arrays costs far
more than the arithmetic, so this evaluates the sums of docs/method.md "The model" directly, without the care that
"Evaluating the crawl value" takes for the last digits, and says how far off it may be: what it cannot tell apart the
frontier evaluates exactly.
"""

from collections.abc import Callable
from functools import partial
from math import exp, expm1, inf, log1p
from typing import NamedTuple

import numpy as np

from crawld.scheduler.greedy import (
    HIGH_PRECISION,
    HIGH_RECALL,
    GreedyApproximate,
    GreedyBlind,
    GreedyCis,
    GreedyCisPlus,
    GreedyNcis,
)
from crawld.scheduler.valuation import Beliefs, Floats, Valuation

Page = tuple[float, float, float, float, float]  # μ, α, shape, κ, γ

MANY = 16  # terms of the sums from which on bounds or the asymptote serve
SLACK = 1e-9  # relative
QUADRATIC = 0.505  # V ≤ ματ²/2, also over a posterior of α; quadrature may be a little above
TINY = 1e-200  # the part of γ below which α is no rate to reckon with


class Glimpse(NamedTuple):
    """The value of one page: |V(τ+d) − (value + slope·d + bend·d²)| ≤ twist·d³ + error.

    That holds for every d ≥ 0 if it is lasting, else within the span that was looked at.
    """

    value: float
    slope: float
    bend: float
    twist: float
    error: float
    lasting: bool = True

    def high(self, ahead: float) -> float:
        """What the value does not exceed up to then."""
        value, slope, bend, twist, error, _ = self
        return value + ahead * (slope + ahead * (bend + ahead * twist)) + error


NOTHING = Glimpse(0.0, 0.0, 0.0, 0.0, 0.0)
Glance = Callable[[float, float, float, Page], Glimpse]
Ceiling = Callable[[Floats, Floats, Beliefs], Floats]


def quick_look(valuation: Valuation) -> Glance | None:
    """How to look at single pages under a valuation: (tau, span, boost, page) → Glimpse; None if there is no way."""
    own: Glance | None = getattr(valuation, "glance", None)
    if own is not None:
        return own
    if type(valuation) is GreedyApproximate:
        return partial(glance_ncis, limit=valuation.terms)
    known: dict[type, Glance] = {
        GreedyNcis: glance_ncis,
        GreedyBlind: glance_blind,
        GreedyCis: glance_cis,
        GreedyCisPlus: glance_cis_plus,
    }
    return known.get(type(valuation))


def quick_ceiling(valuation: Valuation) -> Ceiling | None:
    """What values cannot exceed, for many pages and almost for free: (tau, boost, beliefs); None if there is no way."""
    return greedy_ceiling if type(valuation) in (GreedyNcis, GreedyCis) else None


def greedy_ceiling(tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
    """V ≤ ματ²/2 before the first signal, or inf where that is useless."""
    return np.where(boost > 0, np.inf, QUADRATIC * beliefs.mu * beliefs.alpha * tau * tau)


def glance_blind(tau: float, span: float, boost: float, page: Page) -> Glimpse:  # noqa: ARG001 - signals are ignored
    """GREEDY: every change at rate Δ is unannounced."""
    mu, alpha, shape, kappa, gamma = page
    return glance_ncis(tau, span, 0.0, (mu, alpha - gamma * expm1(-kappa), shape, 0.0, 0.0))


def glance_cis(tau: float, span: float, boost: float, page: Page) -> Glimpse:
    """GREEDY-CIS: every signal is believed."""
    mu, alpha, shape, kappa, gamma = page
    return glance_ncis(tau, span, inf if boost > 0 else 0.0, (mu, alpha, shape, inf, -gamma * expm1(-kappa)))


def glance_cis_plus(tau: float, span: float, boost: float, page: Page) -> Glimpse:
    """GREEDY-CIS+: GREEDY-CIS where signals are good, else GREEDY."""
    _, alpha, _, kappa, gamma = page
    precision = -expm1(-kappa)
    true = gamma * precision
    # Beside the thresholds rounding may decide otherwise than arrays do: such a page is no page for a quick look.
    if abs(precision - HIGH_PRECISION) < SLACK or abs(true - HIGH_RECALL * (alpha + true)) <= SLACK * (alpha + true):
        return Glimpse(0.0, 0.0, 0.0, 0.0, 1e250, lasting=False)
    good = precision > HIGH_PRECISION and true > HIGH_RECALL * (alpha + true)
    return (glance_cis if good else glance_blind)(tau, span, boost, page)


def glance_ncis(tau: float, span: float, boost: float, page: Page, limit: int = MANY) -> Glimpse:
    """GREEDY-NCIS, for a known α or one of which a Gamma posterior is known; of the first terms alone if limited."""
    mu, alpha, shape, kappa, gamma = page
    if shape < inf and alpha > 0:
        return _learnt(tau, span, boost, page)
    delta = alpha - gamma * expm1(-kappa)
    if mu == 0 or delta <= 0:
        return NOTHING
    if boost == inf:
        return Glimpse(mu / delta, 0.0, 0.0, 0.0, SLACK * mu / delta)
    if alpha <= TINY * gamma:
        return Glimpse(0.0, 0.0, 0.0, 0.0, mu / delta * (1 + SLACK)) if boost > 0 or alpha > 0 else NOTHING
    x = alpha * tau + boost
    if kappa == 0:
        gamma = 0.0
    if x == 0:
        return Glimpse(0.0, 0.0, 0.5 * mu * alpha, mu * alpha * (gamma + 2.368 * alpha) / 6, 0.0)
    fresh = exp(-x)
    unrest = gamma  # a bound on |α²ψ″|
    if gamma == 0:
        value, drift, density, error = _blind(x) / alpha, x, 1.0, 0.0
    elif x < MANY * kappa or limit < MANY:
        value, drift, density, error = _few_terms(x, limit, alpha, kappa, gamma)
    elif gamma * kappa < (5 * alpha if x > 0.3 else 0.5 * alpha):
        # The asymptote: its oscillations have died out, the sooner the less signals hasten a cycle.
        pace = alpha + gamma * kappa
        late = 0.5 * gamma * kappa * kappa / pace
        value = (_blind(x) - late * expm1(-x) - 1 - late) / pace + 1 / delta
        drift, density = alpha * (x + late) / pace, alpha / pace
        error, unrest = (1e-7 if gamma * kappa > 0.5 * alpha else 1e-14) / delta, 0.0
    elif x > 12:
        rest = (2 * x + 3) * fresh  # ψ ≤ (2x+1)/Δ, and V lacks ∫e^−xψ from here on
        return Glimpse((1 - 0.5 * rest) * mu / delta, 0.0, 0.0, 0.0, (0.5 * rest + SLACK) * mu / delta)
    else:
        # x/(α+γκ) ≤ ψ ≤ x/α: a crossing overshoots, and signals only hasten it.
        low = mu * _blind(x) / (alpha + gamma * kappa)
        high = mu * min(_blind(x + alpha * span) / alpha, 1 / delta)
        return Glimpse(0.5 * (low + high), 0.0, 0.0, 0.0, 0.5 * (high - low) + SLACK * high, lasting=False)
    # V′ = μαe^−xψ and V″ = μα²e^−x(ψ′−ψ), with αψ = drift and αψ′ = density; V‴ is bounded as in greedy_base.
    weight = mu * fresh
    twist = weight * alpha * (unrest + alpha * (2.368 + drift)) / 6
    bend = 0.5 * weight * alpha * (density - drift)
    return Glimpse(mu * value, weight * drift, bend, twist, mu * error + SLACK * mu * value)


def _blind(x: float) -> float:
    """Δ times the value without signals."""
    return -expm1(-x) - x * exp(-x) if x > 1e-3 else x * x * (0.5 - x / 3 + x * x / 8)


def _few_terms(x: float, limit: int, alpha: float, kappa: float, gamma: float) -> tuple[float, float, float, float]:
    """V, αψ and αψ′ by their sums, and how far off V may be."""
    c = gamma / alpha
    u = c * x
    silent, fresh = exp(-u), exp(-x)
    chance = -expm1(-u)  # P(1, cZ)
    share = c / (1 + c)
    value = share * (1 - silent * fresh) - fresh * chance
    length, density = chance, silent
    if x > kappa:
        step = exp(-kappa)
        weight, power, z, i = 1.0, share, x - kappa, 1
        while z > 0 and i < limit:
            weight *= step
            power *= share
            u, y = c * z, (1 + c) * z
            left = exp(-z)
            term = exp(-u)
            other = term * left
            total, rest = term, other
            for k in range(1, i + 1):
                term *= u / k
                total += term
                other *= y / k
                rest += other
            chance = 1 - total
            length += chance
            density += term
            value += weight * (power * (1 - rest) - left * chance)
            i += 1
            z = x - i * kappa
    return max(value, 0.0) / gamma, length / c, min(density, 1.0), 4e-15 * MANY / gamma


def _learnt(tau: float, span: float, boost: float, page: Page) -> Glimpse:
    """α of a Gamma posterior: closed without signals, else bounded."""
    mu, alpha, shape, kappa, gamma = page
    if boost == 0 and (kappa == 0 or gamma == 0):
        scale = shape / alpha
        grown = log1p(tau / scale)
        survival = exp(-shape * grown)
        off = abs(shape - 1)
        if off < 1e-6:  # at 1 exactly, which is where values are mostly taken; beside it the next term bounds the rest
            held, error, loss = scale * grown, 0.51 * off * scale * grown * grown, 1.0
        else:
            held, error, loss = -scale * expm1((1 - shape) * grown) / (shape - 1), 0.0, 1 + 1 / off
        hazard = mu * shape / scale * exp(-(shape + 1) * grown)
        value = max(mu * (held - tau * survival), 0.0)
        rounding = 1e-13 * mu * (tau + abs(held)) * loss
        bend = 0.5 * hazard * (1 - (shape + 1) * tau / (scale + tau))
        peak = max(tau / scale, 1 / (shape + 2))
        arch = (shape + 2) * peak * exp(-(shape + 3) * log1p(peak))
        steep = mu * shape * (shape + 1) / (6 * scale * scale)
        twist = steep * (2 * exp(-(shape + 2) * grown) + arch)
        return Glimpse(value, hazard * tau, bend, twist, mu * error + rounding + SLACK * value)
    if boost == 0:
        high = QUADRATIC * mu * alpha * (tau + span) ** 2
        return Glimpse(0.5 * high, 0.0, 0.0, 0.0, 0.5 * high, lasting=False)
    announced = -gamma * expm1(-kappa)
    high = 1.01 * mu / announced if announced > 0 else 1e250  # V ≤ μ/Δ and Δ is at least the rate of true signals
    return Glimpse(0.5 * high, 0.0, 0.0, 0.0, 0.5 * high, lasting=False)
