"""The crawl value expected over what is not known of α (docs/method.md, "Evaluating the crawl value")."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.scheduler.value import columns, measure_pages, times

Floats = NDArray[np.float64]
Quad = tuple[Floats, Floats, Floats, Floats]

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
        value = expected_pages(taus, boost, shapes, shapes / rates, kappas, gammas, fineness=3)[0]
    return times(mus, value).reshape(form)[()]


def expected_pages(
    tau: Floats, boost: Floats, shape: Floats, mean: Floats, kappa: Floats, gamma: Floats, *, fineness: int = 1
) -> Quad:
    """E[V], its first two derivatives in τ and a bound on the third from τ on, of flat columns for importance 1."""
    out = np.zeros((4, tau.size))
    blind = blind_pages(boost, kappa, gamma)
    bell = shape >= NARROW
    if blind.any():
        rate = shape[blind] / mean[blind]
        out[0, blind] = blind_value(tau[blind], shape[blind], rate)
        out[1:, blind] = blind_jet(tau[blind], shape[blind], rate)
    for narrow, members in ((True, ~blind & bell), (False, ~blind & ~bell)):
        pages = np.flatnonzero(members)
        for start in range(0, pages.size, _PAGES):
            now = pages[start : start + _PAGES]
            alpha, weight = alpha_points(shape[now], mean[now], narrow=narrow, fineness=fineness)
            out[:, now] = _mixture(tau[now], boost[now], alpha, weight, kappa[now], gamma[now])
    return out[0], out[1], out[2], out[3]


def blind_pages(boost: Floats, kappa: Floats, gamma: Floats) -> NDArray[np.bool_]:
    """Where no signal has counted nor ever will."""
    blind: NDArray[np.bool_] = gamma == 0
    blind |= kappa == 0
    blind &= boost == 0
    return blind


def expected_top(boost: Floats, shape: Floats, mean: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """E[V] at τ = ∞ by the same points: unbounded only without signals and with a shape of 1 or less."""
    blind = blind_pages(boost, kappa, gamma)
    top = np.where(shape > 1, shape / mean / (shape - 1), np.inf)
    for narrow, members in ((True, ~blind & (shape >= NARROW)), (False, ~blind & (shape < NARROW))):
        if members.any():
            alpha, weight = alpha_points(shape[members], mean[members], narrow=narrow, fineness=1)
            signalled = np.where(gamma[members] > 0, -gamma[members] * np.expm1(-kappa[members]), 0.0)
            each = np.where(weight > 0, weight / (alpha + signalled[:, None]), 0.0)
            top[members] = each.sum(axis=1)
    return top


def _mixture(tau: Floats, boost: Floats, alpha: Floats, weight: Floats, kappa: Floats, gamma: Floats) -> Quad:
    points = alpha.shape[1]
    flat, weights = alpha.ravel(), weight.ravel()
    x = np.where(flat > 0, flat * np.repeat(tau, points), 0.0) + np.repeat(boost, points)
    jet = page_jet(x, flat, np.repeat(kappa, points), np.repeat(gamma, points))
    starts = np.arange(0, flat.size, points)
    mixed = [np.add.reduceat(column * weights, starts) for column in jet]
    return mixed[0], mixed[1], mixed[2], mixed[3]


def page_jet(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Quad:
    """V, its first two derivatives in τ and a bound on the third from here on, for importance 1 and known α."""
    measures = measure_pages(x, alpha, kappa, gamma)
    stir = alpha * np.exp(-x)
    stirred = stir > 0
    slope = np.where(stirred, stir * measures.length, 0.0)
    drift = np.where(stirred, alpha * measures.length, 0.0)
    # |α²ψ″| ≤ unrest, αψ′ ≤ 1, and e^−y·αψ(y) exceeds e^−x·αψ(x) by at most e^−x/e at any later y
    bound = stir * (measures.unrest + alpha * (2.4 + drift))
    return measures.value, slope, stir * (measures.density - drift), bound


def alpha_points(shape: Floats, mean: Floats, *, narrow: bool, fineness: int) -> tuple[Floats, Floats]:
    """Points and weights (pages × points) of a Gamma with these shapes and means; they do not depend on time.

    The trapezoidal rule in ln α. As the shape grows every point tends to the mean. A wide Gamma has one more point for
    the mass that lies below the others, at its own mean, so that Σw = 1 and Σwα is the mean.
    """
    a = shape[:, None]
    if narrow:
        low, high, steps = -_BELL / np.sqrt(a) - _BELL / a, _BELL / np.sqrt(a), 13 * fineness
    else:
        low, high = np.log1p(1 / a) - _REACH, np.log1p((_REACH + np.log1p(1 / a)) / a)
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
    a, y = shape, tau / rate
    log = np.log1p(y)
    span = a * log
    stay = np.exp(-span)
    steep = (1 - stay * (1 + a * y)) / (a - 1)
    excess = a - 1
    with_log = np.where(excess == 0, log, -np.expm1(-excess * log) / excess)
    result = np.where(a >= 2, steep, a * with_log + np.expm1(-span))
    near = (span <= 8) & (log <= 8)
    if near.any():
        far, q = log[near][:, None], a[near][:, None]
        depth = far * _NODES
        result[near] = a[near] * log[near] * ((np.expm1(depth) * np.exp(-q * depth)) @ _WEIGHTS)
    return np.where((rate > 0) & (rate < np.inf), rate * result, 0.0)


def blind_jet(tau: Floats, shape: Floats, rate: Floats) -> tuple[Floats, Floats, Floats]:
    """dE[V]/dτ, d²E[V]/dτ² and a bound on the third derivative from τ on, without signals."""
    a, y = shape, tau / rate
    log = np.log1p(y)
    stay = np.exp(-(a + 1) * log)
    slope = a * y * stay
    curvature = a * (1 - (a + 1) * y / (1 + y)) * stay / rate
    peak = np.maximum(y, 1 / (a + 2))
    arch = peak * np.exp(-(a + 3) * np.log1p(peak))
    bound = a * (a + 1) * (2 * stay / (1 + y) + (a + 2) * arch) / rate / rate
    fixed = rate == np.inf
    return np.where(fixed, 0.0, slope), np.where(fixed, 0.0, curvature), np.where(fixed, 0.0, bound)
