"""The crawl value of pages with several independent sources of signals (docs/method.md, "The model")."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.series import SATURATION, weigh

Floats = NDArray[np.float64]

STEPS = 400  # grid cells between 0 and x: the error falls with their square


def multi_source_value(
    x: ArrayLike, alpha: ArrayLike, kappas: ArrayLike, gammas: ArrayLike, mu: ArrayLike = 1.0
) -> Floats:
    """V at log-staleness x; the last axis of `kappas` and `gammas` runs over the sources."""
    kappa, gamma = np.broadcast_arrays(np.asarray(kappas, dtype=np.float64), np.asarray(gammas, dtype=np.float64))
    shape = np.broadcast_shapes(np.shape(x), np.shape(alpha), np.shape(mu), kappa.shape[:-1])
    sources = kappa.shape[-1]
    xs, alphas, mus = (np.broadcast_to(np.asarray(a, dtype=np.float64), shape).ravel() for a in (x, alpha, mu))
    kappa, gamma = (np.broadcast_to(a, (*shape, sources)).reshape(-1, sources) for a in (kappa, gamma))
    with np.errstate(all="ignore"):
        unit = np.maximum(alphas, gamma.max(axis=1, initial=0.0))
        unit = np.where(unit > 0, unit, 1.0)
        scaled, gamma = alphas / unit, np.where(kappa > 0, gamma / unit[:, None], 0.0)
        kappa = np.where(gamma > 0, kappa, np.inf)
        delta = scaled - (gamma * np.expm1(-kappa)).sum(axis=1)
        value = np.where(delta > 0, 1 / delta, 0.0)
        value[xs <= 0] = 0.0
        open_ = np.flatnonzero((xs > 0) & (xs < SATURATION) & (delta > 0))
        for start in range(0, open_.size, 4096):
            now = open_[start : start + 4096]
            value[now] = np.fmin(_integrate(xs[now], scaled[now], kappa[now], gamma[now]), value[now])
        value /= unit
    return weigh(mus, value).reshape(shape)[()]


def _integrate(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """March αΨ′ + GΨ = y + Σγ_sΨ(y−κ_s), Ψ = ∫ψ, over a grid of each page's own; V = e^−xΨ(x) + ∫e^−yΨ.

    Ψ rather than ψ, because it has no steps even where α is nothing; each cell is solved exactly for a straight push.
    """
    h = x / STEPS
    fine = kappa < h[:, None]  # jumps finer than the grid are drift, up to their second moment
    drift = alpha + np.where(fine, gamma * kappa, 0.0).sum(axis=1)
    ahead = np.where(fine, gamma * kappa * kappa, 0.0).sum(axis=1) / drift / 2
    ahead[~(drift > 0)] = 0.0
    gamma = np.where(fine, 0.0, gamma)
    total = gamma.sum(axis=1)
    stiff = total * h / drift
    keep = np.exp(-stiff)
    mild = stiff < 1e-3
    phi = np.where(mild, 1 - stiff / 2 + stiff * stiff / 6, -np.expm1(-stiff) / stiff)
    gain = np.where(mild, h / drift * (0.5 - stiff / 6 + stiff * stiff / 24), (1 - phi) / total)
    gain_old = np.where(mild, h / drift * phi, -np.expm1(-stiff) / total) - gain
    delay = np.where(gamma > 0, kappa / h[:, None], np.inf)
    history = np.zeros((STEPS + 1, x.size))
    push, area = ahead, np.zeros_like(x)
    for j in range(1, STEPS + 1):
        next_push = j * h + ahead + _delayed(history, j - delay, gamma)
        history[j] = keep * history[j - 1] + gain_old * push + gain * next_push
        area += history[j] * np.exp(-j * h)
        push = next_push
    last: Floats = history[STEPS] * np.exp(-x)
    area -= 0.5 * last
    return last + h * area


def _delayed(history: Floats, at: Floats, gamma: Floats) -> Floats:
    """Σγ_sΨ at fractional grid positions, nothing before the start."""
    inside = at > 0
    if not inside.any():
        return np.zeros(at.shape[0])
    position = np.where(inside, at, 0.0)
    floor = np.minimum(position.astype(np.intp), history.shape[0] - 2)
    share = position - floor
    pages = np.arange(at.shape[0])[:, None]
    at_delay = history[floor, pages] * (1 - share) + history[floor + 1, pages] * share
    pushes: Floats = np.einsum("ij,ij->i", np.where(inside, at_delay, 0.0), gamma)
    return pushes
