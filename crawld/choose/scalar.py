"""V, αψ and αψ′ of one page in plain floats: the twin of `series.py`, with the same formulas.

For a single page the overhead of arrays costs a hundred times the arithmetic. Tests hold the twins equal to 1e-12. The
few pages that need integrated terms, or whose rates are beyond any unit, are handed to the arrays.
"""

from math import ceil, exp, expm1, inf, log, log1p, sqrt

import numpy as np

from crawld.choose.series import ETA, LATE, LIMITS, LOG_LOW, LOG_STEP, MANY, P2, SATURATION, SMALL, TALL, measure_pages

Motion = tuple[float, float, float, float]  # V, αψ, αψ′ and a bound on |α²ψ″| from here on

_LIMITS, _P2, _ETA = LIMITS.tolist(), P2.tolist(), ETA.tolist()
_TINY, _HUGE = 1e-100, 1e100  # rates beyond, or further apart than this, are left to the arrays, which choose a unit


def measure_page(x: float, alpha: float, kappa: float, gamma: float, terms: float = inf) -> Motion:
    """V, αψ, αψ′ and a bound on |α²ψ″| of one page of importance 1; of the sums' first terms if limited."""
    if gamma == 0 or kappa == 0:
        gamma = kappa = 0.0
    if x <= 0:
        return 0.0, 0.0, 1.0 if alpha > 0 else 0.0, gamma
    if not _TINY < alpha < _HUGE or gamma > _HUGE * alpha or gamma > _HUGE:
        return _by_arrays(x, alpha, kappa, gamma, terms)
    if gamma == 0:
        return (_erlang2(x) if x < SATURATION else 1.0) / alpha, min(1e300, x), 1.0, 0.0
    if x >= SATURATION:  # what is still to come is below the last digit
        left = -expm1(-terms * (kappa + log1p(alpha / gamma))) if terms < inf else 1.0
        return left / (alpha - gamma * expm1(-kappa)), 0.0, 0.0, 0.0
    if x > kappa and terms == inf:
        cell = int(log(alpha / (gamma * kappa)) / LOG_STEP + (1 - LOG_LOW / LOG_STEP))
        if x / kappa > _LIMITS[min(max(cell, 0), len(_LIMITS) - 1)]:
            return _asymptote(x, alpha, kappa, gamma)
    return _series(x, alpha, kappa, gamma, terms)


def _by_arrays(x: float, alpha: float, kappa: float, gamma: float, terms: float) -> Motion:
    found = measure_pages(*(np.array([column]) for column in (x, alpha, kappa, gamma)), terms=terms)
    drift = alpha * float(found.length[0])
    return float(found.value[0]), drift if drift < inf else 0.0, float(found.density[0]), float(found.unrest[0])


def _asymptote(x: float, alpha: float, kappa: float, gamma: float) -> Motion:
    """The renewal asymptote."""
    pace = alpha + gamma * kappa
    half = 0.5 * kappa * (gamma * kappa / pace)
    k = min(kappa, SATURATION)
    rest = _eta(k)
    second = 0.5 * k * k - rest
    delta = alpha - gamma * expm1(-k)
    constant = (gamma * (second * k * 0.5 - rest) * k - alpha * rest) / pace * (gamma / pace) / delta
    return (_erlang2(x) - half * expm1(-x)) / pace + constant, alpha * (x + half) / pace, alpha / pace, 0.0


def _series(x: float, alpha: float, kappa: float, gamma: float, limit: float) -> Motion:
    """Sum over the number of signals in the cycle."""
    ratio, decay, silent = gamma / alpha, log1p(alpha / gamma), alpha / (alpha + gamma)
    fresh, first = exp(-x), ratio * x
    start, end, value, length, density, sums = 0, 1, 0.0, 0.0, 0.0, 0.0
    if x > kappa:
        end = ceil(x / kappa * (1 - 4e-16)) or 1
        end = int(min(end, limit if limit < inf else first + 10 * sqrt(first) + 18))
    if first >= MANY and limit == inf:
        inverse = alpha / (gamma * kappa)
        spread, scale = 4.5 * inverse / (1 + inverse), 1 + inverse
        root = sqrt(max(spread * spread + (x / kappa - MANY * inverse) / scale, 0.0)) - spread
        beyond = sqrt(spread * spread + (x / kappa + 1 + 2 * inverse) / scale) + spread
        start = int(min(root * root // 1 + 1, end))
        end = int(min(ceil(beyond * beyond), end))
        value, length = _prefix_sum(start, x, kappa, decay), float(start)
    if end > LATE:
        return _by_arrays(x, alpha, kappa, gamma, limit)
    rising = first < 3 and ratio * (1 - fresh - x * fresh) < 0.05 * fresh
    for i in range(start, end):
        z = x - i * kappa if i else x
        if z < 0:
            z = 0.0
        u = ratio * z
        u = min(u, TALL)
        none = exp(-u)
        total = mass = last = 1.0
        for m in range(1, i + 1):
            last *= u / m
            mass += last
            total = total * (1 - silent) + mass
        last *= none
        if rising:
            sums += last * u / (i + 1) * _rising(u + (z if z < 60 else 60.0), i, silent)
        else:
            term = expm1(z - (i + 1) * decay) + none * silent * total
            if term > 0:
                sums += term
        if i == 0:
            length -= expm1(-u)
        elif u < SMALL:
            length += last * u / (i + 1) * (1 + _rising(u, i, 1.0))
        elif none * mass < 1:
            length += 1 - none * mass
        density += last
    return (value + sums * fresh) / gamma, length / ratio, density, gamma


def _rising(y: float, i: int, silent: float) -> float:
    """Σ over k ≥ 1 of (1−r^k)·y^k/((i+2)…(i+1+k))."""
    power, share, total, below, term = 1.0, 0.0, 0.0, i + 1, 1.0
    while term > 1e-17 * total:
        below += 1
        power *= y / below
        share = share * (1 - silent) + silent
        term = power * share
        total += term
    return total


def _prefix_sum(m: int, x: float, kappa: float, decay: float) -> float:
    """The terms of which both P are 1: Σ over i < m of e^−(ℓ+ih) − e^−x with h = κ+ℓ."""
    step = kappa + decay
    span = m * step
    if x >= 1:
        return exp(-decay) * expm1(-span) / expm1(-step) - m * exp(-x)
    lost = 0.0
    if m > 1:
        lost = (0.5 * span * span - _eta(span) - m * (0.5 * step * step - _eta(step))) / -expm1(-step)
    return -m * expm1(-x) - lost + (m - lost) * expm1(-decay)


def _erlang2(x: float) -> float:
    if x >= 0.3:
        return -expm1(-x) - x * exp(-x)
    total = 0.0
    for coefficient in _P2:
        total = total * x + coefficient
    return x * x * total


def _eta(y: float) -> float:
    if y >= 1:
        return y * (0.5 * y - 1) - expm1(-y)
    total = 0.0
    for coefficient in _ETA:
        total = total * y + coefficient
    return y * y * y * total
