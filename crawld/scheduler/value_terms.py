"""Single terms of the crawl value's series over the number of signals in a cycle.

A pair is one page at one signal count i, with Z = x − iκ left to drift, u = γZ/α and r = γ/(α+γ). A kernel gives for
each pair e^Z·T_i(Z), P(i+1, u) and the Poisson probability pois(i; u); formulas as in docs/method.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Triple = tuple[Floats, Floats, Floats]

LATE = 256  # from this signal count on, terms are integrated instead of summed
_FLAT = 8192  # up to so many numbers a sum is one table; beyond, a loop over its terms
_COUNTS = np.arange(LATE + 2, dtype=np.float64)
# iⁱe^−i/i!, so that pois(i; u) = PEAK[i]·exp(i − u + i·ln(u/i)) keeps its digits at every i
_PEAK = np.array([1.0] + [i**i / math.factorial(i) * math.exp(-i) for i in range(1, LATE + 1)])
_FACTORIAL = np.array([math.factorial(i) for i in range(171)], dtype=np.float64)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


@dataclass(slots=True)
class Pairs:
    """Page and signal count pairs, in rising order of the count."""

    count: Floats  # i
    z: Floats  # Z
    u: Floats
    ratio: Floats  # γ/α
    decay: Floats  # −ln r
    silent: Floats  # 1 − r

    def select(self, some: NDArray[np.intp] | slice) -> "Pairs":
        """Some of the pairs."""
        columns = (self.count, self.z, self.u, self.ratio, self.decay, self.silent)
        return Pairs(*(column[some] for column in columns))


def lower_terms(pairs: Pairs, *, length: bool) -> Triple:
    """Rising series, every term positive: for u < 3, where finite sums would cancel."""
    i, u = pairs.count, pairs.u
    y = u + np.minimum(pairs.z, 60.0)
    total = _rising_total(y, pairs)
    scale = np.exp(-u)
    if i[-1] > 0:
        scale *= u**i / _FACTORIAL.take(i.astype(np.intp))
    up = scale * u / (i + 1)
    mass = 1 + _rising_sum(u, i, None, 30) if length else scale
    return up * total, up * mass, scale


def _rising_total(y: Floats, pairs: Pairs) -> Floats:
    """Σ over k ≥ 1 of (1−r^k)·y^k/((i+2)…(i+1+k)): for i = 0 and Z ≥ 1 a difference that does not cancel."""
    if y.size <= 64:
        return _rising_sum(y, pairs.count, pairs, _steps(y))
    plain = (pairs.z >= 1) & (pairs.count == 0)
    total = np.empty_like(y)
    near = np.flatnonzero(~plain)
    near = near[np.argsort(y[near])]  # alike together, so that short series end early
    for start in range(0, near.size, 1024):
        now = near[start : start + 1024]
        some = pairs.select(now)
        total[now] = _rising_sum(y[now], some.count, some, _steps(y[now]))
    far = np.flatnonzero(plain)
    if far.size:
        u, w = pairs.u[far], y[far]
        total[far] = np.expm1(w) / w - np.expm1(u) / u
    return total


def _steps(y: Floats) -> int:
    widest = float(y.max())
    return int(widest + 8 * math.sqrt(widest)) + 20


def _rising_sum(y: Floats, i: Floats, pairs: Pairs | None, steps: int) -> Floats:
    """Σ over k ≥ 1 of (1−r^k)·y^k/((i+2)…(i+1+k)), or without its first factor."""
    if y.size * steps <= _FLAT:
        counts = _COUNTS[1 : steps + 1]
        table: Floats = np.multiply.accumulate(y[:, None] / (i[:, None] + (counts + 1)), axis=1)
        if pairs is not None:
            table *= -np.expm1(pairs.decay[:, None] * -counts)
        sums: Floats = np.add.reduce(table, axis=1)
        return sums
    p, q, total = np.ones_like(y), np.ones_like(y), np.zeros_like(y)
    below, factor = i + 1, np.empty_like(y)
    if pairs is not None:
        q, s, r = np.zeros_like(y), pairs.silent, 1 - pairs.silent
    for k in range(1, steps + 1):
        below += 1
        np.divide(y, below, out=factor)
        p *= factor
        if pairs is not None:
            q *= r
            q += s
        np.multiply(p, q, out=factor)
        total += factor
        if k % 4 == 0 and not (factor > 1e-17 * total).any():
            break
    return total


def upper_terms(pairs: Pairs, *, length: bool) -> Triple:
    """Finite sums over fewer than i+1 changes of count: for u not small."""
    i, u = pairs.count, pairs.u
    late = int(np.searchsorted(i, LATE))
    if late < i.size:
        return _upper_and_late(pairs, late, length=length)
    exponent = i - u
    top = int(i[-1])
    if top:
        exponent += i * np.log(u / np.maximum(i, 1.0))
    excess = np.expm1(pairs.z - (i + 1) * pairs.decay)
    if top == 0:
        pois = np.exp(exponent)
        return excess + pois * pairs.silent, 1 - pois, pois
    dead = (exponent < -60) & (u < i)
    pois = np.exp(exponent) * _PEAK.take(i.astype(np.intp))
    mean = np.where(dead, i, u)
    total, mass = _finite_sums(i, mean, pairs, length=length)
    term = excess + pois * total
    chance = 1 - pois * mass
    if dead.any():
        term[dead] = chance[dead] = pois[dead] = 0.0
    return np.maximum(term, 0.0), np.maximum(chance, 0.0), pois


def _finite_sums(i: Floats, u: Floats, pairs: Pairs, *, length: bool) -> tuple[Floats, Floats]:
    """Σ over j ≤ i of (1−r^(j+1))·i!/(i−j)!/u^j, and the same without its first factor."""
    s, steps = pairs.silent, int(i[-1])
    if i.size * steps <= _FLAT:
        counts = _COUNTS[1 : steps + 1]
        table: Floats = np.multiply.accumulate((i[:, None] - (counts - 1)) / u[:, None], axis=1)
        mass = 1 + np.add.reduce(table, axis=1) if length else s
        table *= -np.expm1(pairs.decay[:, None] * -(counts + 1))
        return s + np.add.reduce(table, axis=1), mass
    r, per = 1 - s, 1 / u
    p, q = np.ones_like(u), s.copy()
    total, mass = s.copy(), np.ones_like(u)
    factor = np.empty_like(u)
    top = int(i[-1])
    starts = np.searchsorted(i, np.arange(top + 1))
    for j in range(1, top + 1):
        now = slice(int(starts[j]), None)
        f, pj, qj = factor[now], p[now], q[now]
        np.subtract(i[now], j - 1, out=f)
        f *= per[now]
        pj *= f
        qj *= r[now]
        qj += s[now]
        np.multiply(pj, qj, out=f)
        total[now] += f
        if length:
            mass[now] += pj
        if (
            j % 16 == 0
            and not ((pj > 1e-18 * mass[now] if length else f > 1e-18 * total[now]) | (i[now] - j > u[now])).any()
        ):
            break
    return total, mass


def _upper_and_late(pairs: Pairs, late: int, *, length: bool) -> Triple:
    """Summed terms followed by integrated ones."""
    tail = _late_terms(pairs.select(slice(late, None)))
    if late == 0:
        return tail
    head = upper_terms(pairs.select(slice(late)), length=length)
    return (
        np.concatenate((head[0], tail[0])),
        np.concatenate((head[1], tail[1])),
        np.concatenate((head[2], tail[2])),
    )


def _late_terms(pairs: Pairs) -> Triple:
    """∫ pois(i; v)·(e^((u−v)α/γ) − 1) dv over v < u by Gauss-Legendre, for counts too high to sum."""
    i, u = pairs.count, pairs.u
    peak = np.exp(-1 / (12 * i) + 1 / (360 * i**3)) / np.sqrt(2 * np.pi * i)
    low = np.maximum(np.minimum(i, u) - 10 * np.sqrt(i), 0.0)
    width = u - low
    v = low[:, None] + width[:, None] * _NODES
    shift = (v - i[:, None]) / i[:, None]
    weight = np.exp(i[:, None] * (np.log1p(shift) - shift)) * _WEIGHTS
    gain = np.expm1((u[:, None] - v) / pairs.ratio[:, None])
    shift = (u - i) / i
    scale = peak * width
    pois = peak * np.exp(i * (np.log1p(shift) - shift))
    return scale * np.einsum("ij,ij->i", weight, gain), np.minimum(scale * weight.sum(axis=1), 1.0), pois
