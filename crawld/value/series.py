"""The numbers under every crawl value: V, ψ and αψ′ for unit importance, each to full precision.

Formulas and regimes are those of docs/method.md, "Evaluating the crawl value". All columns are one-dimensional,
of equal length, and rates are in units of the larger of α and γ, so nothing here can overflow by its unit alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.value.rests import erlang2, eta
from crawld.value.unfolding import Unfolding

Floats = NDArray[np.float64]

SATURATION = 50.0  # e^−x·ψΔ ≤ (2x+1)e^−x is below the last digit from here on: V = 1/Δ


@dataclass(slots=True)
class Measures:
    """What one evaluation yields per page, for importance 1."""

    value: Floats  # V
    length: Floats  # ψ
    density: Floats  # αψ′, between 0 and 1
    unrest: Floats  # a bound on |α²ψ″| here and at every greater x: γ, or 0 where ψ has become a straight line


LOG_LOW, LOG_STEP = -15.0, 0.125  # the table's grid in ln(α/γκ)


def _oscillation_limits() -> Floats:
    """The signal count x/κ above which ψ's oscillations are below the last digit, by α/γκ.

    ψ − (x/m1 + m2/2m1²) is a sum over the roots of s + g(1−e^−s) = 0, g = γκ/α; the slowest decays as e^(x/κ·Re s).
    Each entry serves the cell above it, where decay is only faster; beyond the low end the lattice never smooths out,
    but there is a count at which it is finer than a float.
    """
    g = np.exp(-(LOG_LOW + LOG_STEP * np.arange(680)))
    s = np.full(g.shape, 2j * np.pi) - np.log1p(6.0 / g)
    for _ in range(60):
        s -= (s + np.log(1 + s / g) - 2j * np.pi) / (1 + 1 / (g + s))
    limits = np.clip(40.0 / -s.real, 1.0, 1e13)
    return np.concatenate(([1e13], limits))


LIMITS = _oscillation_limits()

_STAND_IN = np.array([[1.0], [1.0], [2.0], [1.0]])  # x, α, κ and γ of a page of one term
MANY = 40.0  # expected signals in a cycle from which on its first terms are closed


def _signal_limits() -> Floats:
    """The signal count that a cycle with at most n+1 expected signals does not reach, by n; endless from MANY on."""
    limits = []
    for mean in range(1, int(MANY) + 1):
        count, chance = mean, 1.0
        while chance > 1e-19:
            count += 1
            chance = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        limits.append(float(count))
    return np.array([*limits, np.inf])


REACH = _signal_limits()


def measure(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool, terms: float) -> Measures:
    """V, and where asked ψ and αψ′, of each page; call it with floating-point warnings off."""
    if terms < np.inf:
        return _truncated(x, alpha, kappa, gamma, terms)
    if np.count_nonzero(gamma) < gamma.size:
        kappa = np.where(gamma > 0, kappa, 0.0)
    signalled = gamma * kappa
    cell = np.log(alpha / signalled)
    cell *= 1 / LOG_STEP
    cell += 1 - LOG_LOW / LOG_STEP
    np.fmin(cell, 680.0, out=cell)
    rough = x / kappa > LIMITS.take(np.fmax(cell, 0.0, out=cell).astype(np.intp))  # settled, so far
    np.logical_not(rough, out=rough)
    rough &= signalled > 0
    rough &= x > 0
    if not length:
        rough &= x < SATURATION
    many = np.count_nonzero(rough)
    if many == x.size:
        result = _series(x, alpha, kappa, gamma, length=length)
    elif many == 0:
        result = _smooth(x, alpha, kappa, gamma)
    else:
        result = _both(rough, np.array((x, alpha, kappa, gamma)), length=length)
    _settle_ends(result, x, alpha, kappa, gamma)
    return result


def _both(rough: NDArray[np.bool_], page: Floats, *, length: bool) -> Measures:
    """Whichever are more go together, the others apart; the series sees pages of one term in their places."""
    if 2 * np.count_nonzero(rough) < rough.size:
        apart = rough.nonzero()[0]
        some, result = _series(*page[:, apart], length=length), _smooth(*page)
    else:
        apart = np.logical_not(rough).nonzero()[0]
        some = _smooth(*page[:, apart])
        page[:, apart] = _STAND_IN
        result = _series(*page, length=length)
    result.value[apart] = some.value
    if length:
        result.length[apart], result.density[apart], result.unrest[apart] = some.length, some.density, some.unrest
    return result


def _settle_ends(result: Measures, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> None:
    """Fill in x = 0, saturated x and pages that never change."""
    far = x >= SATURATION
    if np.count_nonzero(far):
        result.value[far] = 1.0 / (alpha[far] - gamma[far] * np.expm1(-kappa[far]))
    odd = x <= 0
    if np.count_nonzero(alpha) < alpha.size:
        odd |= (alpha == 0) & ((gamma == 0) | (kappa == 0))
    if np.count_nonzero(odd):
        result.value[odd] = 0.0
        result.length[odd] = np.where(x[odd] > 0, np.inf, 0.0)
        result.density[odd] = np.where(alpha[odd] > 0, 1.0, 0.0)
        result.unrest[odd] = np.where(kappa[odd] > 0, gamma[odd], 0.0)


def _smooth(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Measures:
    """The renewal asymptote, exact where oscillations have died out; κ = 0 or γ = 0 make it GREEDY."""
    m1 = alpha + gamma * kappa
    half = 0.5 * kappa * (gamma * kappa / m1)  # m2/2m1
    value = (erlang2(x) - half * np.expm1(-x)) / m1
    noisy = half > 0
    if np.count_nonzero(noisy):
        k, a, g, m = kappa[noisy], alpha[noisy], gamma[noisy], m1[noisy]
        k = np.minimum(k, SATURATION)
        rest = eta(k)
        epsilon = 0.5 * k * k - rest
        delta = a - g * np.expm1(-k)
        # V(∞) = 1/Δ fixes the constant that ψ's early oscillations leave behind: 1/Δ − 1/m1 − m2/2m1²
        value[noisy] += (g * (epsilon * k * 0.5 - rest) * k - a * rest) / m * (g / m) / delta
    return Measures(value, (x + half) / m1, alpha / m1, np.zeros_like(x))


def _series(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
    """Sum over the number i of signals in the cycle: a closed prefix where both P are 1, then term by term."""
    endless = kappa == np.inf  # one signal is all there can be, and x = ∞ may be it
    if np.count_nonzero(endless):
        x, kappa = np.minimum(x, 1e300), np.where(endless, 1e301, kappa)
    terms = x / kappa
    terms *= 1 - 4e-16
    np.maximum(np.ceil(terms, out=terms), 1.0, out=terms)
    columns = Unfolding(x, alpha, kappa, gamma)
    first = columns.ratio * x
    if np.count_nonzero(terms > REACH[0]):
        np.minimum(terms, REACH.take(np.minimum(first, MANY).astype(np.intp)), out=terms)
    closed = (first >= MANY).nonzero()[0]
    if closed.size:
        k = kappa[closed]
        prefix, last = _open_range(x[closed] / k, alpha[closed] / (gamma[closed] * k))
        prefix = np.minimum(prefix, terms[closed])
        columns.prefix[closed] = prefix
        terms[closed] = np.maximum(np.minimum(last, terms[closed]) - prefix, 0.0)
    fresh = np.exp(-x)
    sums, lengths, densities = columns.add_up(_cancelling(x, first, columns.ratio, fresh), terms, length=length)
    sums *= fresh
    if closed.size:
        sums[closed] += _prefix_sum(prefix, x[closed], kappa[closed], columns.decay[closed])
        lengths[closed] += prefix
    sums /= gamma
    if length:
        lengths /= gamma
    return Measures(sums, lengths, densities, gamma)


def _cancelling(x: Floats, first: Floats, ratio: Floats, fresh: Floats) -> NDArray[np.bool_]:
    """Where the finite sums would cancel: u is small, and so is e^Z·T_0 ≈ γ/α·(e^x − 1 − x) against 1."""
    gain = x * fresh
    np.subtract(1 - fresh, gain, out=gain)
    gain *= ratio
    low = gain < 0.05 * fresh
    low &= first < 3
    return low


def _open_range(real: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """The first signal count for which P is not yet 1 and one from which on it is 0, given x/κ and α/γκ."""
    spread = 4.5 * inverse / (1 + inverse)
    root = np.sqrt(np.maximum(spread * spread + (real - 40 * inverse) / (1 + inverse), 0.0)) - spread
    beyond = np.sqrt(spread * spread + (real + 1 + 2 * inverse) / (1 + inverse)) + spread
    return np.floor(root * root) + 1, np.ceil(beyond * beyond)


def _truncated(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, limit: float) -> Measures:
    """The same for the sums' first terms alone: APPROX-j, literally also where κ = 0."""
    result = _smooth(x, alpha, np.zeros_like(kappa), gamma)  # GREEDY is what remains without signals
    sees = np.flatnonzero((gamma > 0) & (x > 0))
    if sees.size:
        x_, a, g = np.minimum(x[sees], 1e300), alpha[sees], gamma[sees]
        k = np.minimum(kappa[sees], 1e301)
        count = np.minimum(np.maximum(np.ceil(x_ / k * (1 - 4e-16)), 1.0), limit)
        columns = Unfolding(x_, a, k, g)
        low = _cancelling(x_, g * (x_ / a), columns.ratio, np.exp(-x_))
        sums, lengths, densities = columns.add_up(low, count, length=True)
        value = np.exp(-x_) * sums
        far = x_ >= SATURATION  # every P that counts is 1: a geometric sum
        if far.any():
            s = columns.silent[far]
            r = (g / (a + g))[far]
            step = count[far] * (k[far] + columns.decay[far])
            value[far] = r * -np.expm1(-step) / (s - r * np.expm1(-k[far]))
        result.value[sees], result.length[sees] = value / g, lengths / g
        result.density[sees], result.unrest[sees] = densities, g
    odd = (x <= 0) | ((alpha == 0) & ((gamma == 0) | (kappa == 0)))
    if odd.any():
        result.value[odd] = result.length[odd] = 0.0
        result.density[odd] = np.where(alpha[odd] > 0, 1.0, 0.0)
        result.unrest[odd] = gamma[odd]
    return result


def _prefix_sum(m: Floats, x: Floats, kappa: Floats, decay: Floats) -> Floats:
    """Σ over i < m of e^−(ℓ+ih) − e^−x with h = κ+ℓ, kept positive where everything is small."""
    step = kappa + decay
    span = m * step
    geometric = np.expm1(-span) / np.expm1(-step)
    result = np.exp(-decay) * geometric - m * np.exp(-x)
    near = x < 1
    if np.count_nonzero(near):
        m, x, step, span = m[near], x[near], step[near], span[near]
        lost = (0.5 * span * span - eta(span) - m * (0.5 * step * step - eta(step))) / -np.expm1(-step)
        lost[m == 1] = 0.0  # whatever the step, there is none
        result[near] = -m * np.expm1(-x) - lost + (m - lost) * np.expm1(-decay[near])
    return result


BLOCK = 32768  # pages evaluated at once, so that temporaries stay in the cache


def columns(*arguments: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the arguments, and each as a flat column of that many floats."""
    arrays = [np.asarray(argument, dtype=np.float64) for argument in arguments]
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        arrays = [np.broadcast_to(array, shape) for array in arrays]
    return shape, [array.reshape(-1) for array in arrays]


def measure_pages(
    x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool = True, terms: float = np.inf
) -> Measures:
    """V, ψ and αψ′ of flat columns for importance 1, in any unit of time; of the first `terms` terms if limited."""
    if x.size <= BLOCK:
        return _measure_block(x, alpha, kappa, gamma, length=length, terms=terms)
    parts = [
        _measure_block(x[now], alpha[now], kappa[now], gamma[now], length=length, terms=terms)
        for now in (slice(start, start + BLOCK) for start in range(0, x.size, BLOCK))
    ]
    return Measures(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.density for part in parts]),
        np.concatenate([part.unrest for part in parts]),
    )


def _measure_block(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool, terms: float) -> Measures:
    with np.errstate(all="ignore"):
        unit = np.maximum(alpha, gamma)
        if np.count_nonzero(unit) < unit.size:
            unit = np.where(unit > 0, unit, 1.0)
        result = measure(x, alpha / unit, kappa, gamma / unit, length=length, terms=terms)
        result.value /= unit
        if length:
            result.length /= unit
            result.unrest = result.unrest * unit
    return result


def times(mu: Floats, value: Floats) -> Floats:
    """μ·V where an overflow is inf and nothing is ever worth a page of no importance."""
    with np.errstate(all="ignore"):
        return weigh(mu, value)


def weigh(mu: Floats, value: Floats) -> Floats:
    """The same where floating-point warnings are off already."""
    product = mu * value
    return product if np.count_nonzero(np.isfinite(product)) == product.size else np.where(mu > 0, product, 0.0)
