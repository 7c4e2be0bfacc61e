"""A crawl value simple enough to test by, with and without cheap bounds."""

import numpy as np

from crawld.choose.valuation import Beliefs, Floats, Number, Taylor, Valuation


class Plain(Valuation):
    """The value μ/α·P(2, x), or for α = 0 a step at each signal; nothing is known of it but its derivatives."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        return self.taylor(tau, boost, beliefs).value

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """The value, two derivatives and a bound on the third, of both parts of the beliefs together."""
        rows = _rows(tau, boost, beliefs.hearing)
        if (deaf := beliefs.deaf) is not None:
            some, part = deaf
            rows[:, some] += _rows(tau[some], part.kappa, part)
        return Taylor(*rows)


class Bounded(Plain):
    """The same with a bound before the first signal."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:
        """V ≤ μx²/2α."""
        return alpha


def _rows(tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
    x = beliefs.alpha * tau + boost
    rate = np.where(beliefs.alpha > 0, beliefs.alpha, 1.0)
    value = -beliefs.mu / rate * (np.expm1(-x) + np.where(x < np.inf, x, 0.0) * np.exp(-x))
    alpha, mu, x = beliefs.alpha, np.where(beliefs.alpha > 0, beliefs.mu, 0.0), np.minimum(x, 700.0)
    fade = np.exp(-x)
    return np.array([value, mu * x * fade, mu * alpha * (1 - x) * fade, mu * alpha**2 * (2 + x) * fade])


class Linear(Valuation):
    """A crawl value simple enough to follow by eye: μ(ατ + boost)."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""
        return beliefs.mu * (beliefs.alpha * tau + boost)

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """A straight line."""
        none = np.zeros(len(tau))
        return Taylor(self.value(tau, boost, beliefs), beliefs.mu * beliefs.alpha, none, none)
