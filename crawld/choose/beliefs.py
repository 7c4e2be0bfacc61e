"""What values are taken over: the beliefs of pages with several sources of signals, as one κ and one γ a page."""

import numpy as np
from numpy.typing import NDArray

from crawld.choose.valuation import Beliefs, Floats


def boost_by_signals(count: NDArray[np.integer], kappa: NDArray[np.floating]) -> Floats:
    """Σκn over the sources, with inf where a signal that never lies was seen (and 0·inf = 0)."""
    boost: Floats = (np.where(count > 0, kappa, 0.0).astype(np.float64) * count).sum(axis=-1)
    return boost


def merged_beliefs(mu: Floats, alpha: Floats, shape: Floats, kappa: Floats, gamma: Floats) -> Beliefs:
    """One κ and γ a page: those of its only useful source, or the pair that stands for several.

    Staleness itself always counts every source by its own κ (`boost_by_signals`). Only the pace at which further
    signals are expected is taken from one pair, chosen to keep the total change rate Δ and the drift α + Σγκ: over
    random pairs of sources the crawl value is then off by 1 % on average (docs/method.md, Several sources).
    """
    useful = (kappa > 0) & (gamma > 0)
    rate = np.where(useful, gamma, 0.0).sum(axis=-1)
    single = np.where(useful, kappa, 0.0).sum(axis=-1)
    several = useful.sum(axis=-1) > 1
    if several.any():
        single[several], rate[several] = _merged(kappa[several], np.where(useful, gamma, 0.0)[several])
    return Beliefs(mu=mu, alpha=alpha, shape=shape, kappa=single, gamma=rate)


def _merged(kappa: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """κ and γ of one source with the same γ(1 − e^−κ) and γκ as these several, by bisection."""
    finite = np.minimum(kappa, 50.0)  # beyond it a signal is certain to 1e-21
    drift, true = (gamma * finite).sum(axis=-1), (-np.expm1(-finite) * gamma).sum(axis=-1)
    low, high = finite.min(axis=-1), finite.max(axis=-1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = -np.expm1(-middle) * drift > true * middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    kappa_one = np.maximum(0.5 * (low + high), np.finfo(float).tiny)
    return kappa_one, drift / kappa_one
