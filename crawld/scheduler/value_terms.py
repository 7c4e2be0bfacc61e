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
_HUGE = 1e300
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
    odds: Floats  # α/γ
    decay: Floats  # −ln r
    silent: Floats  # 1 − r


def lower_terms(pairs: Pairs, *, length: bool) -> Triple:
    """Rising series, every term positive: for u < 3, where finite sums would cancel."""
    i, u, s = pairs.count, pairs.u, pairs.silent
    y = u + np.minimum(pairs.z, 60.0)
    r = 1 - s
    p, q, total = np.ones_like(y), np.zeros_like(y), np.zeros_like(y)
    pu, mass = np.ones_like(y), np.ones_like(y)
    below, factor = i + 1, np.empty_like(y)
    for k in range(1, 160):
        below += 1
        np.divide(y, below, out=factor)
        p *= factor
        q *= r
        q += s
        np.multiply(p, q, out=factor)
        total += factor
        if length and k < 30:
            np.divide(u, below, out=pu if k == 1 else factor)
            if k > 1:
                pu *= factor
            mass += pu
            np.multiply(p, q, out=factor)
        if k % 4 == 0 and not (factor > 1e-17 * total).any():
            break
    scale = np.exp(-u) * u**i / _FACTORIAL.take(i.astype(np.intp))
    up = scale * u / (i + 1)
    return up * total, up * mass, scale


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
    total, mass = _finite_sums(i, mean, pairs.silent, length=length)
    term = excess + pois * total
    chance = 1 - pois * mass
    if dead.any():
        term[dead] = chance[dead] = pois[dead] = 0.0
    return np.maximum(term, 0.0), np.maximum(chance, 0.0), pois


def _finite_sums(i: Floats, u: Floats, s: Floats, *, length: bool) -> tuple[Floats, Floats]:
    """Σ over j ≤ i of (1−r^(j+1))·i!/(i−j)!/u^j, and the same without its first factor."""
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
    columns = (pairs.count, pairs.z, pairs.u, pairs.odds, pairs.decay, pairs.silent)
    tail = _late_terms(Pairs(*(column[late:] for column in columns)))
    if late == 0:
        return tail
    head = upper_terms(Pairs(*(column[:late] for column in columns)), length=length)
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
    gain = np.expm1((u[:, None] - v) * pairs.odds[:, None])
    shift = (u - i) / i
    scale = peak * width
    pois = peak * np.exp(i * (np.log1p(shift) - shift))
    return scale * np.einsum("ij,ij->i", weight, gain), np.minimum(scale * weight.sum(axis=1), 1.0), pois
