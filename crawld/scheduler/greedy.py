"""The greedy crawl values: one class per family, each for known and for learnt parameters."""

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.valuation import Beliefs, Floats, Jet
from crawld.scheduler.value import measure_pages, staleness_at, times
from crawld.scheduler.value_expected import expected_pages, expected_top, page_jet
from crawld.scheduler.value_inverse import SAFETY, rising_crossing

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

EARLY = 1e-6  # how much too early, relatively, a crossing may be: an early waking costs one value, no more


class GreedyNcis:
    """The papers' V(ατ + boost), or its expectation over the posterior of α where that has a finite shape."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        with np.errstate(all="ignore"):
            known = _known(beliefs)
            if known.all():
                x = _staleness(tau, boost, beliefs.alpha)
                value = measure_pages(x, beliefs.alpha, beliefs.kappa, beliefs.gamma, length=False).value
                return times(beliefs.mu, value)
        return self.jet(tau, boost, beliefs).value

    def jet(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        """The value now, its first two derivatives in τ, and a bound on the third from now on."""
        with np.errstate(all="ignore"):
            known = _known(beliefs)
            if known.all():
                x = _staleness(tau, boost, beliefs.alpha)
                columns = page_jet(x, beliefs.alpha, beliefs.kappa, beliefs.gamma)
            elif not known.any():
                b = beliefs
                columns = expected_pages(tau, boost, b.shape, b.alpha, b.kappa, b.gamma)
            else:
                return self._mixed_jet(known, tau, boost, beliefs)
            return Jet(*(times(beliefs.mu, column) for column in columns))

    def _mixed_jet(self, known: Mask, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        mixed = np.empty((4, tau.size))
        for part in (known, ~known):
            mixed[:, part] = self.jet(tau[part], boost[part], beliefs.select(part))
        return Jet(*mixed)

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""
        result = np.empty_like(boost)
        with np.errstate(all="ignore"):
            known = _known(beliefs)
            for part, cross in ((known, _known_crossing), (~known, _learnt_crossing)):
                if part.any():
                    result[part] = cross(level, boost[part], beliefs.select(part))
        return result


def _known(beliefs: Beliefs) -> Mask:
    unspread: Mask = beliefs.shape == np.inf
    unspread |= beliefs.alpha == 0
    return unspread


def _staleness(tau: Floats, boost: Floats, alpha: Floats) -> Floats:
    x = alpha * tau + boost
    return np.where(alpha > 0, x, boost) if np.isnan(x).any() else x


def _known_crossing(level: float, boost: Floats, beliefs: Beliefs) -> Floats:
    levels = np.full_like(boost, level)
    low = staleness_at(levels, beliefs.mu, beliefs.alpha, beliefs.kappa, beliefs.gamma, tolerance=EARLY)[0]
    gap = low * (1 - 1e-14) - boost
    wait = np.where(gap > 0, gap * (1 - 1e-15) / beliefs.alpha, 0.0)
    return np.where(low == np.inf, np.inf, wait)


def _learnt_crossing(level: float, boost: Floats, beliefs: Beliefs) -> Floats:
    shape, mean, kappa, gamma = beliefs.shape, beliefs.alpha, beliefs.kappa, beliefs.gamma
    goal = np.where(beliefs.mu > 0, level / beliefs.mu, 0.0 if level <= 0 else np.inf)

    def evaluate(tau: Floats, pages: Indices) -> tuple[Floats, Floats]:
        value, slope, _, _ = expected_pages(tau, boost[pages], shape[pages], mean[pages], kappa[pages], gamma[pages])
        return value, slope

    top = expected_top(boost, shape, mean, kappa, gamma)
    at_once = evaluate(np.zeros_like(boost), np.arange(boost.size))[0] >= goal * (1 - SAFETY)
    depth = -2 * np.log1p(-np.minimum(goal / top, goal * mean / (1 + goal * mean)))
    start = np.maximum(np.sqrt(depth) + 0.3 * depth - boost, 0.1) / mean
    low = rising_crossing(evaluate, np.where(at_once, 0.0, goal), top, start, EARLY)[0]
    return low * (1 - 1e-12)
