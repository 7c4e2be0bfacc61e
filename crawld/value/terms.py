"""Single terms of the crawl value's series over the number of signals in a cycle.

A pair is one page at one signal count i, with Z = x − iκ left to drift, u = γZ/α and r = γ/(α+γ). A kernel gives for
each pair e^Z·T_i(Z), P(i+1, u) and the Poisson probability pois(i; u); formulas as in docs/method.md. Whatever depends
on the company a pair is in costs time only: every digit of its result is its own.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Triple = tuple[Floats, Floats, Floats]

LATE = 256  # from this signal count on, terms are integrated instead of summed
SMALL = 0.25  # expected signals below which P is not what its complement leaves
TALL = 700.0  # e^u is a float up to here, and for i < LATE nothing is left of e^−u·uⁱ/i! beyond
_FACTORIAL = np.array([math.factorial(i) for i in range(171)], dtype=np.float64)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


@dataclass(slots=True)
class Pairs:
    """Page and signal count pairs, in rising order of the count."""

    count: Floats  # i
    z: Floats  # Z
    u: Floats  # at most TALL where all counts are below LATE
    ratio: Floats  # γ/α
    decay: Floats  # −ln r
    silent: Floats  # 1 − r

    def select(self, some: slice) -> "Pairs":
        """Some of the pairs."""
        columns = (self.count, self.z, self.u, self.ratio, self.decay, self.silent)
        return Pairs(*(column[some] for column in columns))


def lower_terms(pairs: Pairs, *, length: bool) -> Triple:
    """Rising series, every term positive: where finite sums would cancel."""
    i, u = pairs.count, pairs.u
    total = _rising_sum(u + np.minimum(pairs.z, 60.0), i, pairs.silent)
    scale = np.exp(-u)
    if i[-1] > 0:
        scale *= u**i / _FACTORIAL.take(i.astype(np.intp))
    up = scale * u / (i + 1)
    mass = 1 + _rising_sum(u, i, None) if length else scale
    return up * total, up * mass, scale


def _rising_sum(y: Floats, i: Floats, silent: Floats | None) -> Floats:
    """Σ over k ≥ 1 of (1−r^k)·y^k/((i+2)…(i+1+k)), or without its first factor."""
    order = np.argsort(y)  # so that those whose series end first lie together
    total = np.empty_like(y)
    total[order] = _rising_sums(y[order], i[order], None if silent is None else silent[order])
    return total


def _rising_sums(y: Floats, i: Floats, s: Floats | None) -> Floats:
    total = sums = np.zeros_like(y)
    p, factor, below = np.ones_like(y), np.empty_like(y), i + 1
    q, r = (p, p) if s is None else (np.zeros_like(y), 1 - s)
    for k in range(1, 400):
        below += 1
        p *= np.divide(y, below, out=factor)
        if s is None:
            np.copyto(factor, p)
        else:
            q *= r
            q += s
            np.multiply(p, q, out=factor)
        total += factor
        if k % 4 == 0:
            factor *= 1e17
            open_ = factor > total
            start = int(open_.argmax())
            if not open_[start]:
                break
            if 8 * start > y.size:  # whose terms no longer count have ended
                y, below, p, q, r, total, factor = (a[start:] for a in (y, below, p, q, r, total, factor))
                s = s if s is None else s[start:]
    return sums


def upper_terms(pairs: Pairs, *, length: bool) -> Triple:
    """Finite sums over fewer than i+1 changes of count: where nothing that matters cancels."""
    i = pairs.count
    if i[-1] >= LATE:
        return _upper_and_late(pairs, int(np.searchsorted(i, LATE)), length=length)
    u = pairs.u
    none = np.exp(-u)
    term = (i + 1) * pairs.decay
    np.expm1(np.subtract(pairs.z, term, out=term), out=term)
    if i[-1] == 0:
        term += none * pairs.silent
        return np.maximum(term, 0.0, out=term), -np.expm1(-u) if length else none, none
    total, mass, last = _finite_sums(i, u, pairs.silent)
    total *= pairs.silent
    total *= none
    term += total
    np.maximum(term, 0.0, out=term)
    return (term, _chance(none * mass, none * last, i, u), none * last) if length else (term, none, none)


def _chance(still: Floats, pois: Floats, i: Floats, u: Floats) -> Floats:
    """P(i+1, u), given its complement: where u is small a rising series, so that ψ keeps its digits."""
    chance = np.maximum(1 - still, 0.0)
    small = (u < SMALL).nonzero()[0]
    if small.size:
        v, j = u[small], i[small]
        chance[small] = pois[small] * v / (j + 1) * (1 + _rising_sum(v, j, None))
    if i[0] == 0:
        alone = slice(int(np.searchsorted(i, 1.0)))
        chance[alone] = -np.expm1(-u[alone])
    return chance


def _finite_sums(i: Floats, u: Floats, silent: Floats) -> Triple:
    """Σ over m ≤ i of (1−r^(i−m+1))/(1−r)·u^m/m!, the same without its first factor, and u^i/i!."""
    r, last, factor = 1 - silent, u.copy(), np.empty_like(u)
    mass = u + 1
    total = r + mass
    top = int(i[-1])
    starts = [0] * (top + 1) if i[0] == top else np.searchsorted(i, np.arange(top + 1)).tolist()
    last[: starts[1]] = mass[: starts[1]] = total[: starts[1]] = 1.0
    for m in range(2, top + 1):
        start = starts[m]
        f, t, a, g = factor[start:], last[start:], mass[start:], total[start:]
        t *= np.divide(u[start:], m, out=f)
        a += t
        g *= r[start:]
        g += a
    return total, mass, last


def _upper_and_late(pairs: Pairs, late: int, *, length: bool) -> Triple:
    """Summed terms followed by integrated ones."""
    tail = _late_terms(pairs.select(slice(late, None)))
    if late == 0:
        return tail
    summed = pairs.select(slice(late))
    np.minimum(summed.u, TALL, out=summed.u)
    head = upper_terms(summed, length=length)
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
