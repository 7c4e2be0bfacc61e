"""From what crawls found to what is believed: the posterior of α and κ, for one page or for many at once.

An interval of length τ with n signals ends unchanged with probability exp(−(ατ + κ·n)) (docs/method.md, Estimation).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.learning.likelihood import Observations, most_likely

Floats = NDArray[np.float64]

YEAR = 365.25 * 86400.0
LONGEST_GUESS = 30 * 86400.0
"""Seconds between changes that are assumed of a page at the most while nothing is known."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Gamma priors by shape and rate (the mean is shape/rate): of α, and by source of κ and of γ.

    Each may be one number, or a column by page; those of κ and γ end in an axis of sources. The defaults hold in
    seconds: a page changes every 30 days, give or take a lot, and a signal is as likely to be right as any precision.
    """

    alpha_shape: float | Floats = 1.0
    alpha_rate: float | Floats = 30 * 86400.0
    kappa_shape: float | Floats = 1.0
    kappa_rate: float | Floats = 1.0
    gamma_shape: float | Floats = 0.5
    gamma_rate: float | Floats = 30 * 86400.0


def first_guess(round_seconds: float, shortest: float = 60.0) -> Prior:
    """A prior that lets everything compete: a page changes once a round of all pages, but within limits."""
    seconds = min(max(round_seconds, shortest), LONGEST_GUESS)
    return Prior(alpha_rate=seconds, gamma_rate=seconds)


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is believed after the evidence: α ~ Gamma(shape, rate), and likewise κ by source.

    A column by page (`fit` drops that axis). `heard` counts, by source, the signals of the intervals as weighted.
    `trust` is the κ to go by, −ln E[e^−κ]: after one signal the expected freshness is right, however wide κ is.
    `alpha_map` and `kappa_map` are where the joint density is highest.
    """

    shape: Floats
    rate: Floats
    kappa_shape: Floats
    kappa_rate: Floats
    heard: Floats
    trust: Floats
    alpha_map: Floats | None = None
    kappa_map: Floats | None = None

    @property
    def alpha(self) -> Floats:
        """Posterior mean of α."""
        return self.shape / self.rate

    @property
    def alpha_se(self) -> Floats:
        """Posterior standard deviation of α."""
        return np.sqrt(self.shape) / self.rate

    @property
    def kappa(self) -> Floats:
        """Posterior mean of κ by source."""
        return self.kappa_shape / self.kappa_rate

    @property
    def kappa_se(self) -> Floats:
        """Posterior standard deviation of κ by source."""
        return np.sqrt(self.kappa_shape) / self.kappa_rate


def fit(
    tau: ArrayLike, signals: ArrayLike, changed: ArrayLike, prior: Prior, weights: ArrayLike | None = None
) -> Posterior:
    """The posterior of one page from its intervals; `signals` is (rows,) for one source or (rows, sources)."""
    tau = np.atleast_1d(np.asarray(tau, float))
    offsets = np.array([0, len(tau)])
    posterior = fit_pages(offsets, tau, signals, changed, prior, weights)
    alpha, kappa = map_pages(offsets, tau, signals, changed, prior, weights)
    return Posterior(
        posterior.shape[0],
        posterior.rate[0],
        posterior.kappa_shape[0],
        posterior.kappa_rate[0],
        posterior.heard[0],
        posterior.trust[0],
        alpha[0],
        kappa[0],
    )


def fit_pages(
    offsets: ArrayLike,
    tau: ArrayLike,
    signals: ArrayLike,
    changed: ArrayLike,
    prior: Prior,
    weights: ArrayLike | None = None,
) -> Posterior:
    """The posteriors of many pages: page i owns the rows offsets[i]:offsets[i+1].

    The density of (ln α, ln κ) has one maximum whatever the priors' shapes; there its curvature is matched by that
    of Gamma densities, which is exact where no interval changed or where changed ones were short.
    """
    intervals = Observations.gather(offsets, tau, signals, changed, weights)
    shapes, rates = _rows(prior, intervals.pages, intervals.sources)
    mean, shape = most_likely(intervals, shapes, rates)
    rate = shape / mean
    kappa_shape, kappa_rate = shape[1:].T, rate[1:].T
    trust = kappa_shape * np.log1p(1.0 / kappa_rate)
    return Posterior(shape[0], rate[0], kappa_shape, kappa_rate, intervals.total[1:].T, trust)


def map_pages(
    offsets: ArrayLike,
    tau: ArrayLike,
    signals: ArrayLike,
    changed: ArrayLike,
    prior: Prior,
    weights: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Where the joint density of (α, κ) itself is highest, by page; priors of shape below 1 count as 1."""
    intervals = Observations.gather(offsets, tau, signals, changed, weights)
    shapes, rates = _rows(prior, intervals.pages, intervals.sources)
    mode, _ = most_likely(intervals, np.maximum(shapes - 1.0, 0.0), rates)
    return mode[0], mode[1:].T


def signal_rates(counts: ArrayLike, watched: ArrayLike, prior: Prior) -> Floats:
    """γ by page and source: signals are counted, so the Gamma prior and the Poisson count give it in closed form."""
    counts = np.asarray(counts, float)
    seconds = np.maximum(np.asarray(watched, float), 0.0)[..., None]
    return np.asarray((prior.gamma_shape + counts) / (prior.gamma_rate + seconds))


def age_weights(at: ArrayLike, now: float, half_life: float = YEAR) -> Floats:
    """How much an observation made at `at` still counts: half after each half-life, for rates drift."""
    age = np.maximum(now - np.asarray(at, float), 0.0)
    return np.exp2(-age / half_life)


def smoothed_rates(offsets: ArrayLike, tau: ArrayLike, changed: ArrayLike, smoothing: float = 0.5) -> Floats:
    """Kolobov et al.'s estimator by page: its equation 10 with two imaginary intervals, one changed and one not.

    It is the highest density under an exponential prior of rate `smoothing` with one more changed interval.
    """
    offsets = np.asarray(offsets, np.int64)
    ends = offsets[1:]
    pages = len(ends)
    tau = np.insert(np.asarray(tau, float), ends, smoothing)
    changed = np.insert(np.asarray(changed, bool), ends, True)
    longer = offsets + np.arange(pages + 1)
    nothing = np.zeros((len(tau), 0))
    rate, _ = map_pages(longer, tau, nothing, changed, Prior(1.0, smoothing))
    return rate


def _rows(prior: Prior, pages: int, sources: int) -> tuple[Floats, Floats]:
    """Shapes and rates of (α, κ…) as (1 + sources, pages)."""
    shapes, rates = np.empty((2, 1 + sources, pages))
    shapes[0], rates[0] = prior.alpha_shape, prior.alpha_rate
    shapes[1:].T[...], rates[1:].T[...] = prior.kappa_shape, prior.kappa_rate
    return shapes, rates
