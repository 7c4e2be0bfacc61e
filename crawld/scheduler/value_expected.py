"""The crawl value expected over what is not known of α (docs/method.md, "Evaluating the crawl value")."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.scheduler.value_pages import columns, measure_pages, times

Floats = NDArray[np.float64]
Gamma = tuple[Floats, Floats]  # shape and mean of each page's distribution of α
Measure = Callable[[Floats, Floats, Floats, Floats], Sequence[Floats]]

NARROW = 8.0  # from this shape on, a Gamma is a bell in ln α and a few points about its mean carry it
_BELL = 6.0  # half width of that bell in standard deviations: what lies outside weighs 2e-9
_PAGES = 512  # learnt pages evaluated at once
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
_REACH = 18.0  # how far below the mean, in ln α, a wide Gamma is followed


def expected_value(
    tau: ArrayLike,
    signals: ArrayLike,
    shape: ArrayLike,
    rate: ArrayLike,
    kappa: ArrayLike,
    gamma: ArrayLike,
    mu: ArrayLike = 1.0,
) -> Floats:
    """The crawl value after `tau` and so many signals, expected over α ~ Gamma(shape, rate)."""
    form, (taus, counts, shapes, rates, kappas, gammas, mus) = columns(tau, signals, shape, rate, kappa, gamma, mu)
    with np.errstate(all="ignore"):
        boost = np.where(counts > 0, kappas * counts, 0.0)
        blind = blind_pages(boost, kappas, gammas)
        value = np.empty_like(taus)
        value[blind] = blind_value(taus[blind], shapes[blind], rates[blind])
        if not blind.all():
            seen = ~blind
            posterior = (shapes[seen], shapes[seen] / rates[seen])
            rows = mixture(_values, taus[seen], boost[seen], posterior, kappas[seen], gammas[seen], fineness=3)
            value[seen] = rows[0]
    return times(mus, value).reshape(form)[()]


def _values(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> tuple[Floats]:
    return (measure_pages(x, alpha, kappa, gamma, length=False).value,)


def mixture(
    measure: Measure, tau: Floats, boost: Floats, posterior: Gamma, kappa: Floats, gamma: Floats, fineness: int = 1
) -> Floats:
    """Rows of what `measure(x, α, κ, γ)` gives, expected over each page's Gamma posterior of α."""
    blocks = []
    shape, mean = posterior
    narrow = shape >= NARROW
    pages = np.concatenate((np.flatnonzero(narrow), np.flatnonzero(~narrow)))
    cut = int(narrow.sum())
    for start, stop in _spans(cut, pages.size):
        now = pages[start:stop]
        alpha, weight = alpha_points(shape[now], mean[now], narrow=start < cut, fineness=fineness)
        points = alpha.shape[1]
        flat = alpha.ravel()
        x = np.where(flat > 0, flat * np.repeat(tau[now], points), 0.0) + np.repeat(boost[now], points)
        rows = measure(x, flat, np.repeat(kappa[now], points), np.repeat(gamma[now], points))
        starts = np.arange(0, flat.size, points)
        shares = np.asarray(rows) * weight.ravel()
        shares[:, weight.ravel() == 0] = 0.0  # no mass counts for nothing, even of an endless value
        blocks.append(np.add.reduceat(shares, starts, axis=1))
    result = np.empty((blocks[0].shape[0], pages.size))
    result[:, pages] = np.concatenate(blocks, axis=1)
    return result


def _spans(cut: int, size: int) -> Iterator[tuple[int, int]]:
    """Blocks of pages that do not straddle the cut."""
    for first, last in ((0, cut), (cut, size)):
        for start in range(first, last, _PAGES):
            yield start, min(start + _PAGES, last)


def blind_pages(boost: Floats, kappa: Floats, gamma: Floats) -> NDArray[np.bool_]:
    """Where no signal has counted nor ever will."""
    blind: NDArray[np.bool_] = gamma == 0
    blind |= kappa == 0
    blind &= boost == 0
    return blind


def alpha_points(shape: Floats, mean: Floats, *, narrow: bool, fineness: int) -> tuple[Floats, Floats]:
    """Points and weights (pages × points) of a Gamma with these shapes and means; they do not depend on time.

    The trapezoidal rule in ln α. As the shape grows every point tends to the mean. A wide Gamma has one more point for
    the mass that lies below the others, at its own mean, so that Σw = 1 and Σwα is the mean.
    """
    a = shape[:, None]
    if narrow:
        low, high, steps = -_BELL / np.sqrt(a) - _BELL / a, _BELL / np.sqrt(a), 13 * fineness
    else:
        low, high = np.maximum(np.log1p(1 / a) - _REACH, -20 / a - 1.5), np.log1p((_REACH + np.log1p(1 / a)) / a)
        steps = 30 * fineness
    offset = low + (high - low) * np.linspace(0.0, 1.0, steps + 1)
    alpha = mean[:, None] * np.exp(offset)
    weight = np.exp(-a * (np.expm1(offset) - offset))
    if narrow:
        return alpha, weight / weight.sum(axis=1, keepdims=True)
    weight[:, 0] *= 0.5
    weight *= (high - low) / steps / _gamma_mass(a)
    rest = np.maximum(1 - weight.sum(axis=1), 0.0)
    centre = (mean - np.einsum("ij,ij->i", alpha, weight)) / rest
    centre = np.fmin(np.fmax(centre, 0.0), alpha[:, 0])
    return np.column_stack((centre, alpha)), np.column_stack((rest, weight))


def _gamma_mass(a: Floats) -> Floats:
    """Γ(a)·e^a·a^−a, by Stirling's series eight steps up."""
    z = a + 8
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (1680 * z**7)
    rising = a * (a + 1) * (a + 2) * (a + 3) * (a + 4) * (a + 5) * (a + 6) * (a + 7)
    return np.exp(8 * np.log(z) - 8 + a * np.log1p(8 / a) + series) * np.sqrt(2 * np.pi / z) / rising


def blind_value(tau: Floats, shape: Floats, rate: Floats) -> Floats:
    """E[V] without signals: ∫S − τS with S(τ) = (1+τ/b)^−a the chance to be still fresh.

    With l = ln(1+τ/b) it is b·a∫(e^l−1)e^−al dl: integrated where the closed forms would cancel.
    """
    a, y = shape, np.minimum(tau, 1e300) / rate
    log = np.log1p(y)
    span = a * log
    near = (np.maximum(span, log) <= 8).nonzero()[0]
    if near.size == a.size:
        result = _blind_near(a, log)
    else:
        steep = (1 - np.exp(-span) * (1 + a * y)) / (a - 1)
        excess = a - 1
        with_log = np.where(excess == 0, log, -np.expm1(-excess * log) / excess)
        result = np.where(a >= 2, steep, a * with_log + np.expm1(-span))
        result[near] = _blind_near(a[near], log[near])
    result *= rate
    result[np.logical_not(rate < np.inf)] = 0.0
    result[rate == 0] = 0.0
    return result


def _blind_near(a: Floats, log: Floats) -> Floats:
    depth = log[:, None] * _NODES
    heights = np.exp(depth * -a[:, None])
    heights *= np.expm1(depth, out=depth)
    heights *= _WEIGHTS
    sums: Floats = np.add.reduce(heights, axis=1)
    sums *= a * log
    return sums


def blind_jet(tau: Floats, shape: Floats, rate: Floats) -> tuple[Floats, Floats, Floats]:
    """dE[V]/dτ, d²E[V]/dτ² and a bound on the third derivative from τ on, without signals."""
    a, y = shape, np.minimum(tau, 1e300) / rate
    log = np.log1p(y)
    stay = np.exp(-(a + 1) * log)
    slope = a * y * stay
    curvature = a * (1 - (a + 1) * y / (1 + y)) * stay / rate
    peak = np.maximum(y, 1 / (a + 2))
    arch = peak * np.exp(-(a + 3) * np.log1p(peak))
    bound = a * (a + 1) * (2 * stay / (1 + y) + (a + 2) * arch) / rate / rate
    fixed = (rate == np.inf).nonzero()[0]
    if fixed.size:
        slope[fixed] = curvature[fixed] = bound[fixed] = 0.0
    return slope, curvature, bound
