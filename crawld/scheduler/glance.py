"""A quick look at the crawl value of one page, in plain floats with an error bound.

After a signal or a crawl the frontier has to know where one page stands. For one page the overhead of arrays costs far
more than the arithmetic, so this evaluates the sums of docs/method.md "The model" directly, without the care that
"Evaluating the crawl value" takes for the last digits, and says how far off it may be: what it cannot tell apart the
frontier evaluates exactly.
"""

from collections.abc import Callable
from math import exp, expm1, floor, inf, log1p
from typing import NamedTuple

import numpy as np

from crawld.scheduler.greedy import GreedyBlind, GreedyCis, GreedyNcis
from crawld.scheduler.valuation import Beliefs, Floats, Valuation

Page = tuple[float, float, float, float, float]  # μ, α, shape, κ, γ

MANY = 16  # terms of the sums from which on bounds or the asymptote serve
SLACK = 1e-9  # relative


class Glimpse(NamedTuple):
    """The value of one page over a span: |V(τ+d) − value − slope·d| ≤ bend·d² + error."""

    value: float
    slope: float
    bend: float
    error: float


Glance = Callable[[float, float, float, Page], Glimpse]
Ceiling = Callable[[Floats, Floats, Beliefs], Floats]


def quick_look(valuation: Valuation) -> Glance | None:
    """How to look at single pages under a valuation: (tau, span, boost, page) → Glimpse; None if there is no way."""
    own: Glance | None = getattr(valuation, "glance", None)
    if own is not None:
        return own
    known: dict[type, Glance] = {GreedyNcis: glance_ncis, GreedyBlind: glance_blind, GreedyCis: glance_cis}
    return known.get(type(valuation))


def quick_ceiling(valuation: Valuation) -> Ceiling | None:
    """What values cannot exceed, for many pages and almost for free: (tau, boost, beliefs); None if there is no way."""
    return greedy_ceiling if type(valuation) in (GreedyNcis, GreedyCis) else None


def greedy_ceiling(tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
    """V ≤ μx²/(2α), or inf where a signal makes that useless."""
    quadratic = 0.505 * beliefs.mu * beliefs.alpha * tau * tau
    return np.where(boost > 0, np.inf, quadratic)


def glance_blind(tau: float, span: float, boost: float, page: Page) -> Glimpse:  # noqa: ARG001 - signals are ignored
    """GREEDY: every change at rate Δ is unannounced."""
    mu, alpha, shape, kappa, gamma = page
    return glance_ncis(tau, span, 0.0, (mu, alpha - gamma * expm1(-kappa), shape, 0.0, 0.0))


def glance_cis(tau: float, span: float, boost: float, page: Page) -> Glimpse:
    """GREEDY-CIS: every signal is believed."""
    mu, alpha, shape, kappa, gamma = page
    return glance_ncis(tau, span, inf if boost > 0 else 0.0, (mu, alpha, shape, inf, -gamma * expm1(-kappa)))


def glance_ncis(tau: float, span: float, boost: float, page: Page) -> Glimpse:
    """GREEDY-NCIS, for a known α or one of which a Gamma posterior is known."""
    mu, alpha, shape, kappa, gamma = page
    if shape < inf and alpha > 0:
        return _learnt(tau, span, boost, page)
    delta = alpha - gamma * expm1(-kappa)
    if mu == 0 or delta <= 0:
        return Glimpse(0.0, 0.0, 0.0, 0.0)
    if boost == inf:
        return Glimpse(mu / delta, 0.0, 0.0, SLACK * mu / delta)
    if alpha == 0:
        return Glimpse(0.0, 0.0, 0.0, mu / delta * (1 + SLACK)) if boost > 0 else Glimpse(0.0, 0.0, 0.0, 0.0)
    x = alpha * tau + boost
    if x == 0:
        return Glimpse(0.0, 0.0, 0.5 * mu * alpha * max(1.0, alpha * span), 0.0)
    fresh = exp(-x)
    drift = alpha + gamma * kappa if gamma else alpha
    if gamma == 0 or kappa == 0:
        value, length, error = _blind(x) / alpha, x / alpha, 0.0
    elif x < MANY * kappa:
        value, length, error = _few_terms(x, floor(x / kappa) + 1, alpha, kappa, gamma)
    elif x > 0.3 and gamma * kappa < 5 * alpha:
        late = 0.5 * gamma * kappa * kappa / (drift * drift)
        value, length, error = 1 / delta - fresh * ((x + 1) / drift + late), x / drift + late, 1e-7 / delta
    else:
        # x/(α+γκ) ≤ ψ ≤ x/α: a crossing overshoots, and signals only hasten it.
        low, high = mu * _blind(x) / drift, mu * min(_blind(x + alpha * span) / alpha, 1 / delta)
        return Glimpse(0.5 * (low + high), 0.0, 0.0, 0.5 * (high - low) + SLACK * high)
    # V′ = αμe^−xψ and V″ = α²μe^−x(ψ′−ψ) with 0 ≤ ψ′ ≤ 1/α, so that ψ grows by less than the span within it.
    bend = 0.5 * mu * alpha * fresh * max(1.0, alpha * (length + span))
    return Glimpse(mu * value, mu * alpha * fresh * length, bend, mu * error + SLACK * mu * value)


def _blind(x: float) -> float:
    """Δ times the value without signals."""
    return -expm1(-x) - x * exp(-x) if x > 1e-3 else x * x * (0.5 - x / 3 + x * x / 8)


def _few_terms(x: float, terms: int, alpha: float, kappa: float, gamma: float) -> tuple[float, float, float]:
    c = gamma / alpha
    share = c / (1 + c)
    value = length = 0.0
    weight, power = 1.0, share
    step = exp(-kappa) if terms > 1 else 0.0
    for i in range(terms):
        z = x - i * kappa if i else x
        slow = _erlang(i, c * z)
        length += slow
        value += weight * (power * _erlang(i, (1 + c) * z) - exp(-z) * slow)
        weight *= step
        power *= share
    return max(value, 0.0) / gamma, length / gamma, 4e-15 * terms / gamma


def _erlang(i: int, y: float) -> float:
    """P(i+1, y), to an absolute error of some 1e-16."""
    term = total = exp(-y)
    for k in range(1, i + 1):
        term *= y / k
        total += term
    return 1.0 - total if i else -expm1(-y)


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
        return Glimpse(value, hazard * tau, 0.5 * hazard * max(1.0, shape), mu * error + rounding + SLACK * value)
    if boost == 0:
        high = 0.505 * mu * alpha * (tau + span) ** 2  # V ≤ ματ²/2 is linear in α; quadrature may be a little above
        return Glimpse(0.5 * high, 0.0, 0.0, 0.5 * high)
    announced = -gamma * expm1(-kappa)
    high = 1.01 * mu / announced if announced > 0 else 1e250  # V ≤ μ/Δ and Δ is at least the rate of true signals
    return Glimpse(0.5 * high, 0.0, 0.0, 0.5 * high)
