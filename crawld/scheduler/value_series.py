"""The numbers under every crawl value: V, ψ and αψ′ for unit importance, each to full precision.

Formulas and regimes are those of docs/method.md, "Evaluating the crawl value". All columns are one-dimensional,
of equal length, and rates are in units of the larger of α and γ, so nothing here can overflow by its unit alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.value_terms import Pairs, Triple, lower_terms, upper_terms

Floats = NDArray[np.float64]

_FEW = 128
SATURATION = 50.0  # e^−x·ψΔ ≤ (2x+1)e^−x is below the last digit from here on: V = 1/Δ
PAIRS = 16384  # pairs evaluated at once, so that temporaries stay in the cache


@dataclass(slots=True)
class Measures:
    """What one evaluation yields per page, for importance 1."""

    value: Floats  # V
    length: Floats  # ψ
    density: Floats  # αψ′, between 0 and 1
    unrest: Floats  # a bound on |α²ψ″| here and at every greater x: γ, or 0 where ψ has become a straight line


_LOG_LOW, _LOG_STEP = -15.0, 0.125  # the table's grid in ln(α/γκ)


def _oscillation_limits() -> Floats:
    """The signal count x/κ above which ψ's oscillations are below the last digit, by α/γκ.

    ψ − (x/m1 + m2/2m1²) is a sum over the roots of s + g(1−e^−s) = 0, g = γκ/α; the slowest decays as e^(x/κ·Re s).
    Each entry serves the cell above it, where decay is only faster; beyond the low end the lattice never smooths out,
    but there is a count at which it is finer than a float.
    """
    g = np.exp(-(_LOG_LOW + _LOG_STEP * np.arange(680)))
    s = np.full(g.shape, 2j * np.pi) - np.log1p(6.0 / g)
    for _ in range(60):
        s -= (s + np.log(1 + s / g) - 2j * np.pi) / (1 + 1 / (g + s))
    limits = np.clip(40.0 / -s.real, 1.0, 1e13)
    return np.concatenate(([1e13], limits))


_LIMITS = _oscillation_limits()

_P2 = np.array([(k + 1) / float(np.prod(np.arange(1.0, k + 3))) * (-1) ** k for k in range(13)])
_ETA = np.array([(-1) ** k / float(np.prod(np.arange(1.0, k + 4))) for k in range(17)])

_REST = np.array([(k + 2) / float(np.prod(np.arange(1.0, k + 4))) * (-1) ** k for k in range(19)])


def _horner(x: Floats, coefficients: Floats) -> Floats:
    """A polynomial; few points at once as one product, since a call costs more than the arithmetic."""
    if x.size <= _FEW:
        powers = np.empty((x.size, coefficients.size))
        powers[:, 0] = 1.0
        powers[:, 1:] = x[:, None]
        return np.multiply.accumulate(powers, axis=1) @ coefficients
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1].tolist():
        total *= x
        total += coefficient
    return total


def erlang2(x: Floats) -> Floats:
    """P(2, x) = 1 − (1+x)e^−x without cancellation."""
    x = np.minimum(x, 800.0)
    result = -np.expm1(-x) - x * np.exp(-x)
    small = x < 0.3
    if small.any():
        y = x[small]
        result[small] = y * y * _horner(y, _P2)
    return result


def eta(y: Floats) -> Floats:
    """The value of y²/2 − y + 1 − e^−y, the third-order rest of the exponential, without cancellation."""
    result = y * (0.5 * y - 1) - np.expm1(-y)
    small = y < 1
    if small.any():
        z = y[small]
        result[small] = z * z * z * _horner(z, _ETA)
    return result


def epsilon(y: Floats) -> Floats:
    """The value of y − 1 + e^−y, the second-order rest of the exponential, without cancellation."""
    return np.where(y < 1, 0.5 * y * y - eta(np.minimum(y, 1.0)), y + np.expm1(-y))


def erlang2_rest(x: Floats) -> Floats:
    """x²/2 − P(2, x) without cancellation."""
    y = np.minimum(x, 1.0)
    return np.where(x < 1, y * y * y * _horner(y, _REST), 0.5 * x * x - erlang2(x))


def measure(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool, terms: float) -> Measures:
    """V, and where asked ψ and αψ′, of each page; call it with floating-point warnings off."""
    if terms < np.inf:
        return _truncated(x, alpha, kappa, gamma, terms)
    kappa = np.where(gamma > 0, kappa, 0.0)
    signalled = gamma * kappa
    cell = np.fmin((np.log(alpha / signalled) - _LOG_LOW) * (1 / _LOG_STEP), 679.0) + 1
    settled = x / kappa > _LIMITS.take(np.fmax(cell, 0.0).astype(np.intp))
    rough = (x > 0) & (signalled > 0) & ~settled
    if not length:
        rough &= x < SATURATION
    if rough.all():
        result = _series(x, alpha, kappa, gamma, length=length)
    elif not rough.any():
        result = _smooth(x, alpha, kappa, gamma)
    else:
        result = Measures(*(np.empty_like(x) for _ in range(4)))
        for part, found in (
            (np.flatnonzero(rough), partial(_series, length=length)),
            (np.flatnonzero(~rough), _smooth),
        ):
            some = found(x[part], alpha[part], kappa[part], gamma[part])
            result.value[part] = some.value
            if length:
                result.length[part], result.density[part], result.unrest[part] = some.length, some.density, some.unrest
    _settle_ends(result, x, alpha, kappa, gamma)
    return result


def _settle_ends(result: Measures, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> None:
    """Fill in x = 0, saturated x and pages that never change."""
    far = x >= SATURATION
    if far.any():
        result.value[far] = 1.0 / (alpha[far] - gamma[far] * np.expm1(-kappa[far]))
    changeless = (alpha == 0) & ((gamma == 0) | (kappa == 0))
    odd = (x <= 0) | changeless
    if odd.any():
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
    if noisy.any():
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
    if endless.any():
        x, kappa = np.minimum(x, 1e300), np.where(endless, 1e301, kappa)
    real = x / kappa
    terms = np.maximum(np.ceil(real * (1 - 4e-16)), 1.0)
    first = gamma * (x / alpha)
    inverse = alpha / (gamma * kappa)
    spread = 4.5 * inverse / (1 + inverse)
    root = np.sqrt(np.maximum(spread * spread + (real - 40 * inverse) / (1 + inverse), 0.0)) - spread
    prefix = np.where(first >= 40, np.minimum(np.floor(root * root) + 1, terms), 0.0)
    root = np.sqrt(spread * spread + (real + 1 + 2 * inverse) / (1 + inverse)) + spread
    last = np.minimum(np.ceil(root * root), terms)
    columns = _Columns(x, alpha, kappa, gamma, prefix)
    low = first < 3  # below, the finite sums would cancel
    sums, lengths, densities = columns.add_up(low, np.maximum(last - prefix, 0.0), length=length)
    value = np.exp(-x) * sums
    closed = prefix > 0
    if closed.any():
        value[closed] += _prefix_sum(prefix[closed], x[closed], kappa[closed], columns.decay[closed])
    return Measures(value / gamma, (prefix + lengths) / gamma, densities, gamma)


def _truncated(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, limit: float) -> Measures:
    """The same for the sums' first terms alone: APPROX-j, literally also where κ = 0."""
    result = _smooth(x, alpha, np.zeros_like(kappa), gamma)  # GREEDY is what remains without signals
    sees = np.flatnonzero((gamma > 0) & (x > 0))
    if sees.size:
        x_, a, g = np.minimum(x[sees], 1e300), alpha[sees], gamma[sees]
        k = np.minimum(kappa[sees], 1e301)
        count = np.minimum(np.maximum(np.ceil(x_ / k * (1 - 4e-16)), 1.0), limit)
        columns = _Columns(x_, a, k, g, np.zeros_like(a))
        sums, lengths, densities = columns.add_up(g * (x_ / a) < 3, count, length=True)
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


class _Columns:
    """Pages of the series, able to unfold themselves into pairs."""

    def __init__(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, prefix: Floats) -> None:
        self.x, self.kappa, self.prefix = x, kappa, prefix
        self.ratio = np.minimum(gamma / alpha, 1e300)
        self.decay = np.log1p(alpha / gamma)
        self.silent = alpha / (alpha + gamma)

    def add_up(self, low: NDArray[np.bool_], terms: Floats, *, length: bool) -> Triple:
        """Per page, the sums over so many terms from the prefix on of e^Z·T, P and pois."""
        size = self.x.size
        totals = [np.zeros(size), np.zeros(size), np.zeros(size)]
        for members, kernel in ((low, lower_terms), (~low, upper_terms)):
            pages = np.flatnonzero(members & (terms > 0))
            for page, pairs in self.pairs(pages, terms):
                rows = kernel(pairs, length=length)
                for i in range(3 if length else 1):
                    totals[i] += np.bincount(page, rows[i], size)
        return totals[0], totals[1], totals[2]

    def pairs(self, pages: NDArray[np.intp], open_terms: Floats) -> Iterator[tuple[NDArray[np.intp], Pairs]]:
        """Blocks of pairs, each in rising order of the signal count."""
        counts = open_terms[pages].astype(np.intp)
        ends = np.cumsum(counts)
        start = done = 0
        while start < pages.size:
            stop = max(int(np.searchsorted(ends, done + PAIRS, side="right")), start + 1)
            yield self._block(pages[start:stop], counts[start:stop])
            start, done = stop, int(ends[stop - 1])

    def _block(self, pages: NDArray[np.intp], counts: NDArray[np.intp]) -> tuple[NDArray[np.intp], Pairs]:
        if counts.max() == 1:
            page, i = pages, self.prefix[pages]
        else:
            page = np.repeat(pages, counts)
            within = np.arange(page.size) - np.repeat(np.cumsum(counts) - counts, counts)
            i = self.prefix[page] + within
        if i.size > 1 and i.max() > 0:
            order = np.argsort(np.minimum(i, 32767).astype(np.int16), kind="stable")
            page, i = page[order], i[order]
        z = np.maximum(self.x[page] - i * self.kappa[page], 0.0)
        ratio = self.ratio[page]
        return page, Pairs(i, z, np.minimum(ratio * z, 1e300), ratio, self.decay[page], self.silent[page])


def _prefix_sum(m: Floats, x: Floats, kappa: Floats, decay: Floats) -> Floats:
    """Σ over i < m of e^−(ℓ+ih) − e^−x with h = κ+ℓ, kept positive where everything is small."""
    step = kappa + decay
    span = m * step
    geometric = np.expm1(-span) / np.expm1(-step)
    result = np.exp(-decay) * geometric - m * np.exp(-x)
    near = x < 1
    if near.any():
        m, x, step, span = m[near], x[near], step[near], span[near]
        lost = (0.5 * span * span - eta(span) - m * (0.5 * step * step - eta(step))) / -np.expm1(-step)
        lost[m == 1] = 0.0  # whatever the step, there is none
        result[near] = -m * np.expm1(-x) - lost + (m - lost) * np.expm1(-decay[near])
    return result
