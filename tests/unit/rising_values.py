"""Crawl values simple enough to test by: without derivatives, with them, and with those of single pages."""

import numpy as np

from crawld.value.valuation import Beliefs, Floats, Jet, Number, Valuation


class Plain(Valuation):
    """A value without derivatives: μ/α·P(2, x), or for α = 0 a step at each signal."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        x = beliefs.alpha * tau + boost
        rate = np.where(beliefs.alpha > 0, beliefs.alpha, 1.0)
        return np.asarray(-beliefs.mu / rate * (np.expm1(-x) + np.where(x < np.inf, x, 0.0) * np.exp(-x)))

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """Not used by the frontier."""
        return np.zeros(len(boost))


class Jetted(Plain):
    """The same with derivatives."""

    def jet(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        """The value, two derivatives and a bound on the third."""
        alpha, mu = beliefs.alpha, np.where(beliefs.alpha > 0, beliefs.mu, 0.0)
        x = np.minimum(alpha * tau + boost, 700.0)
        fade = np.exp(-x)
        value = self.value(tau, boost, beliefs)
        return Jet(value, mu * x * fade, mu * alpha * (1 - x) * fade, mu * alpha**2 * (2 + x) * fade)


class Quick(Jetted):
    """The same, said to be quick for single pages, and known to depend on log-staleness alone."""

    additive = True
    quick = True

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """V ≤ μx²/2α."""
        return alpha
