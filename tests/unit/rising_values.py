"""A crawl value simple enough to test by, with and without cheap bounds."""

import numpy as np

from crawld.value.valuation import Beliefs, Floats, Number, Taylor, Valuation


class Plain(Valuation):
    """The value μ/α·P(2, x), or for α = 0 a step at each signal; nothing is known of it but its derivatives."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        x = beliefs.alpha * tau + boost
        rate = np.where(beliefs.alpha > 0, beliefs.alpha, 1.0)
        return np.asarray(-beliefs.mu / rate * (np.expm1(-x) + np.where(x < np.inf, x, 0.0) * np.exp(-x)))

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """The value, two derivatives and a bound on the third."""
        alpha, mu = beliefs.alpha, np.where(beliefs.alpha > 0, beliefs.mu, 0.0)
        x = np.minimum(alpha * tau + boost, 700.0)
        fade = np.exp(-x)
        value = self.value(tau, boost, beliefs)
        return Taylor(value, mu * x * fade, mu * alpha * (1 - x) * fade, mu * alpha**2 * (2 + x) * fade)


class Bounded(Plain):
    """The same with a bound before the first signal."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """V ≤ μx²/2α."""
        return alpha
