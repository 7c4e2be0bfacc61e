"""V, ψ and αψ′ of many pages, for importance 1 and to full precision (docs/method.md, "Evaluating the crawl value").

Columns are one-dimensional and of equal length. To the last digit, a page's numbers do not depend on the pages that are
measured with it. `scalar.py` is the twin of this file for one page.
"""

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Triple = tuple[Floats, Floats, Floats]

SATURATION = 50.0  # e^−x·ψΔ ≤ (2x+1)e^−x is below the last digit from here on: V = 1/Δ
LATE = 256  # from this signal count on, terms are integrated instead of summed
SMALL = 0.25  # expected signals below which P is not what its complement leaves
TALL = 700.0  # e^u is a float up to here, and for i < LATE nothing is left of e^−u·uⁱ/i! beyond
MANY = 40.0  # expected signals in a cycle from which on its first terms are closed
LOG_LOW, LOG_STEP, CELLS = -15.0, 0.125, 680  # the grid of LIMITS in ln(α/γκ)
P2 = np.array([(-1) ** k * (k + 1) / factorial(k + 2) for k in range(12, -1, -1)])  # P(2, x)/x², highest power first
ETA = np.array([(-1) ** k / factorial(k + 3) for k in range(16, -1, -1)])

_BLOCK = 16384  # pages measured at once, so that temporaries stay in the cache
_FACTORIAL = np.array([factorial(i) for i in range(171)], dtype=np.float64)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


class Measures(NamedTuple):
    """Results of one evaluation per page, for importance 1."""

    value: Floats  # V
    length: Floats  # ψ
    density: Floats  # αψ′, between 0 and 1
    unrest: Floats  # a bound on |α²ψ″| here and at every greater x: γ, or 0 where ψ has become a straight line


def _oscillation_limits() -> Floats:
    """The signal count x/κ above which ψ's oscillations are below the last digit, by α/γκ.

    ψ − (x/m1 + m2/2m1²) is a sum over the roots of s + g(1−e^−s) = 0, g = γκ/α; the slowest decays as e^(x/κ·Re s).
    Each entry serves the cell above it, where decay is only faster; beyond the low end the lattice never smooths out,
    but there is a count at which it is finer than a float.
    """
    g = np.exp(-(LOG_LOW + LOG_STEP * np.arange(CELLS)))
    s = np.full(g.shape, 2j * np.pi) - np.log1p(6.0 / g)
    for _ in range(60):
        s -= (s + np.log(1 + s / g) - 2j * np.pi) / (1 + 1 / (g + s))
    return np.concatenate(([1e13], np.clip(40.0 / -s.real, 1.0, 1e13)))


LIMITS = _oscillation_limits()


def measure_pages(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, terms: float = np.inf) -> Measures:
    """V, ψ and αψ′ in any unit of time; of the first `terms` terms of the sums alone if limited (APPROX-j)."""
    if x.size <= _BLOCK:
        return Measures(*_measure(x, alpha, kappa, gamma, terms))
    blocks = (slice(start, start + _BLOCK) for start in range(0, x.size, _BLOCK))
    return Measures(*np.hstack([_measure(x[now], alpha[now], kappa[now], gamma[now], terms) for now in blocks]))


def _measure(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, limit: float) -> Floats:
    """The rows of `Measures`, found in units of the larger of α and γ, so that no unit makes anything overflow."""
    with np.errstate(all="ignore"):
        unit = np.maximum(alpha, gamma)
        unit[unit == 0] = 1.0
        a, g = alpha / unit, gamma / unit
        k = np.where(g > 0, kappa, 0.0)
        signalled = g * k
        summed = (x > 0) & (g > 0)
        if limit == np.inf:
            cell = np.clip(np.log(a / signalled) / LOG_STEP + (1 - LOG_LOW / LOG_STEP), 0, CELLS)
            cell[np.isnan(cell)] = 0
            summed &= (signalled > 0) & ~(x / k > LIMITS[cell.astype(np.intp)])
        found = _asymptote(x, a, k, g)
        pages = summed.nonzero()[0]
        if pages.size:
            found[:, pages] = _series(x[pages], a[pages], k[pages], g[pages], limit)
        far = (x >= SATURATION).nonzero()[0]
        if far.size:  # every P that counts is 1: a geometric sum
            a_, k_, g_ = a[far], k[far], g[far]
            left = -np.expm1(-limit * (k_ + np.log1p(a_ / g_))) if limit < np.inf else 1.0
            found[0, far] = left / (a_ - g_ * np.expm1(-k_))
        still = ((x <= 0) | ((a == 0) & (signalled == 0))).nonzero()[0]
        if still.size:  # nothing has happened yet, or nothing ever does
            found[0, still], found[1, still] = 0.0, np.where(x[still] > 0, np.inf, 0.0)
            found[2, still], found[3, still] = a[still] > 0, np.where(k[still] > 0, g[still], 0.0)
        found[:2] /= unit
        found[3] *= unit
    return found


def _asymptote(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """The renewal asymptote, exact where oscillations have died out; κ = 0 or γ = 0 make it GREEDY."""
    m1 = alpha + gamma * kappa
    half = 0.5 * kappa * (gamma * kappa / m1)  # m2/2m1
    value = (erlang2(x) - half * np.expm1(-x)) / m1
    noisy = (half > 0).nonzero()[0]
    if noisy.size:
        k, a, g, m = np.minimum(kappa[noisy], SATURATION), alpha[noisy], gamma[noisy], m1[noisy]
        rest = eta(k)
        # V(∞) = 1/Δ fixes the constant that ψ's early oscillations leave behind: 1/Δ − 1/m1 − m2/2m1²
        constant = (g * ((0.5 * k * k - rest) * k * 0.5 - rest) * k - a * rest) / m * (g / m)
        value[noisy] += constant / (a - g * np.expm1(-k))
    return np.array((value, (x + half) / m1, alpha / m1, np.zeros_like(x)))


def _series(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, limit: float) -> Floats:
    """Sum over the number i of signals in the cycle: a closed prefix where both P are 1, then term by term."""
    x, kappa = np.minimum(x, 1e300), np.minimum(kappa, 1e301)  # κ = ∞: one signal is all there can be
    ratio, decay = np.minimum(gamma / alpha, 1e300), np.log1p(alpha / gamma)
    first, fresh = ratio * x, np.exp(-x)
    start, end = np.zeros_like(x), np.maximum(np.ceil(x / kappa * (1 - 4e-16)), 1.0)
    if limit < np.inf:
        end = np.minimum(end, limit)
    else:
        start, last = _open_range(x / kappa, alpha / (gamma * kappa), first)
        start, end = np.minimum(start, end), np.fmin(end, last)
    # Where u is small and e^Z·T_0 ≈ γ/α·(e^x − 1 − x) is small against 1, finite sums would cancel.
    rising = (first < 3) & (ratio * (1 - fresh - x * fresh) < 0.05 * fresh)
    columns = np.array((start, end, x, kappa, ratio, decay, alpha / (alpha + gamma)))
    sums = np.zeros((3, x.size))
    for some, kernel in ((rising, _rising_terms), (~rising, _finite_terms)):
        pages = (some & (end > start)).nonzero()[0]
        if pages.size:
            sums[:, pages] = _add_up(kernel, *columns[:, pages])
    sums[0] *= fresh
    closed = (start > 0).nonzero()[0]
    if closed.size:
        sums[0, closed] += _prefix_sum(start[closed], x[closed], kappa[closed], decay[closed])
        sums[1, closed] += start[closed]
    return np.array((sums[0] / gamma, sums[1] / gamma, sums[2], gamma))


def _open_range(real: Floats, inverse: Floats, first: Floats) -> tuple[Floats, Floats]:
    """The first signal count for which P is not yet 1 and one from which on it is 0, given x/κ, α/γκ and γx/α."""
    spread = 4.5 * inverse / (1 + inverse)
    root = np.sqrt(np.maximum(spread * spread + (real - MANY * inverse) / (1 + inverse), 0.0)) - spread
    beyond = np.sqrt(spread * spread + (real + 1 + 2 * inverse) / (1 + inverse)) + spread
    start = np.where(first >= MANY, np.floor(root * root) + 1, 0.0)
    return start, np.ceil(np.fmin(beyond * beyond, first + 10 * np.sqrt(first) + 17))


Kernel = Callable[[Floats, Floats, Floats, Floats, Floats, Floats], Triple]


def _add_up(
    kernel: Kernel, start: Floats, end: Floats, x: Floats, kappa: Floats, ratio: Floats, decay: Floats, silent: Floats
) -> Floats:
    """Per page, the sums of e^Z·T_i, P(i+1, u) and pois(i; u) over start ≤ i < end, where Z = x − iκ and u = γZ/α.

    Pages are unfolded into one list of terms, in rising order of i. A kernel gets i, Z, u, γ/α, −ln r and 1 − r of
    each term, r = γ/(α+γ).
    """
    counts = (end - start).astype(np.intp)
    page = np.repeat(np.arange(x.size), counts)
    i = np.arange(page.size) - np.repeat(np.cumsum(counts) - counts, counts) + start[page]
    order = np.argsort(i, kind="stable")
    page, i = page[order], i[order]
    z = np.maximum(x[page] - i * kappa[page], 0.0)
    u = np.minimum(ratio[page] * z, np.where(i < LATE, TALL, 1e300))
    found = kernel(i, z, u, ratio[page], decay[page], silent[page])
    return np.array([np.bincount(page, row, x.size) for row in found])


def _rising_terms(i: Floats, z: Floats, u: Floats, _ratio: Floats, _decay: Floats, silent: Floats) -> Triple:
    """Series of positive terms: where finite sums would cancel."""
    pois, more = np.exp(-u), slice(int(np.searchsorted(i, 1)), None)
    pois[more] *= u[more] ** i[more] / _FACTORIAL[i[more].astype(np.intp)]
    value = pois * u / (i + 1) * _rising_sum(u + np.minimum(z, 60.0), i, silent)
    return value, _rising_chance(i, u, pois), pois


def _rising_chance(i: Floats, u: Floats, pois: Floats) -> Floats:
    """P(i+1, u) as a series of positive terms, i in rising order; in closed form where i = 0."""
    chance, more = -np.expm1(-u), slice(int(np.searchsorted(i, 1)), None)
    u, i = u[more], i[more]
    chance[more] = pois[more] * u / (i + 1) * (1 + _rising_sum(u, i, np.ones_like(u)))
    return chance


def _rising_sum(y: Floats, i: Floats, silent: Floats) -> Floats:
    """Σ over k ≥ 1 of (1−r^k)·y^k/((i+2)…(i+1+k)); what is added after a page's own end is below its last digit."""
    found, where = np.zeros_like(y), np.arange(y.size)
    total, power, share = np.zeros_like(y), np.ones_like(y), np.zeros_like(y)
    for k in range(1, 400):
        power *= y / (i + 1 + k)
        share *= 1 - silent
        share += silent
        term = power * share
        total += term
        if k % 4 == 0:
            found[where] = total
            going = (term > 1e-17 * total).nonzero()[0]
            if not going.size:
                break
            if 2 * going.size < where.size:
                where, total, power, share = where[going], total[going], power[going], share[going]
                y, i, silent = y[going], i[going], silent[going]
    return found


def _finite_terms(i: Floats, z: Floats, u: Floats, ratio: Floats, decay: Floats, silent: Floats) -> Triple:
    """Finite sums over fewer than i+1 changes of count: where nothing that matters cancels."""
    late = int(np.searchsorted(i, LATE))
    if late < i.size:
        columns = np.array((i, z, u, ratio, decay, silent))
        tail = _integrated_terms(i[late:], u[late:], ratio[late:])
        both = np.hstack((_finite_terms(*columns[:, :late]), tail)) if late else np.array(tail)
        return both[0], both[1], both[2]
    none, r = np.exp(-u), 1 - silent
    total, mass, pois = np.ones((3, i.size))  # Σ over m ≤ i of (1−r^(i−m+1))/(1−r)·u^m/m!, of u^m/m!, and u^i/i!
    for m, begin in enumerate(np.searchsorted(i, np.arange(1, i[-1] + 1)).tolist(), start=1):
        pois[begin:] *= u[begin:] / m
        mass[begin:] += pois[begin:]
        total[begin:] *= r[begin:]
        total[begin:] += mass[begin:]
    pois *= none
    chance = np.maximum(1 - none * mass, 0.0)
    small = (u < SMALL).nonzero()[0]  # where the complement would cost ψ its digits
    if small.size:
        chance[small] = _rising_chance(i[small], u[small], pois[small])
    return np.maximum(np.expm1(z - (i + 1) * decay) + none * silent * total, 0.0), chance, pois


def _integrated_terms(i: Floats, u: Floats, ratio: Floats) -> Triple:
    """∫ pois(i; v)·(e^((u−v)α/γ) − 1) dv over v < u by Gauss-Legendre, for counts too high to sum."""
    peak = np.exp(-1 / (12 * i) + 1 / (360 * i**3)) / np.sqrt(2 * np.pi * i)
    low = np.maximum(np.minimum(i, u) - 10 * np.sqrt(i), 0.0)
    width = u - low
    v = low[:, None] + width[:, None] * _NODES
    shift = (v - i[:, None]) / i[:, None]
    weight = np.exp(i[:, None] * (np.log1p(shift) - shift)) * _WEIGHTS
    gain = np.expm1((u[:, None] - v) / ratio[:, None])
    shift = (u - i) / i
    scale, pois = peak * width, peak * np.exp(i * (np.log1p(shift) - shift))
    return scale * np.einsum("ij,ij->i", weight, gain), np.minimum(scale * weight.sum(axis=1), 1.0), pois


def _prefix_sum(m: Floats, x: Floats, kappa: Floats, decay: Floats) -> Floats:
    """Σ over i < m of e^−(ℓ+ih) − e^−x with h = κ+ℓ, kept positive where everything is small."""
    step = kappa + decay
    span = m * step
    result = np.exp(-decay) * np.expm1(-span) / np.expm1(-step) - m * np.exp(-x)
    near = (x < 1).nonzero()[0]
    if near.size:
        m, x, step, span = m[near], x[near], step[near], span[near]
        lost = (0.5 * span * span - eta(span) - m * (0.5 * step * step - eta(step))) / -np.expm1(-step)
        lost[m == 1] = 0.0  # whatever the step, there is none
        result[near] = -m * np.expm1(-x) - lost + (m - lost) * np.expm1(-decay[near])
    return result


def erlang2(x: Floats) -> Floats:
    """P(2, x) = 1 − (1+x)e^−x without cancellation."""
    x = np.minimum(x, 800.0)
    return np.where(x < 0.3, x * x * np.polyval(P2, np.minimum(x, 0.3)), -np.expm1(-x) - x * np.exp(-x))


def eta(y: Floats) -> Floats:
    """The value of y²/2 − y + 1 − e^−y, the third-order rest of the exponential, without cancellation."""
    near = np.minimum(y, 1.0)
    return np.where(y < 1, near**3 * np.polyval(ETA, near), y * (0.5 * y - 1) - np.expm1(-y))


def weigh(mu: Floats, value: Floats) -> Floats:
    """μ·V where an overflow is inf and nothing is ever worth a page of no importance."""
    with np.errstate(all="ignore"):
        return np.where(mu > 0, mu * value, 0.0)
