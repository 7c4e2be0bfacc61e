"""The posterior of α and κ under Gamma priors, as the papers' experiments use it; crawld learns on a grid instead.

With p = (α, κ_1, …) and f = (τ, n_1, …) an interval's log-staleness is x = p·f. Given Gamma priors of shapes A and
rates B, the density of ln p has the gradient g_j = A_j − B_j p_j + Σ_changed w x_j/(e^x − 1) − Σ_unchanged w x_j with
x_j = p_j f_j. In p itself, A ln p plus the likelihood is strictly concave for every A > 0, so g has one zero;
there the Hessian in ln p is −(diag A + Σ_changed w x_j x_k e^x/(e^x − 1)²), negative definite.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.learn.observations import Observations, Prior


@dataclass(frozen=True)
class GammaPosteriorLimits:
    """Numbers that bound and tune this module."""

    few_steps: int = 100
    max_step: float = 2.0  # in ln p: a guard for the first steps, far from the maximum
    tolerance: float = 1e-9
    max_exponent: float = 350.0  # e^−x counts for nothing beyond, and e^2x does not overflow


LIMITS = GammaPosteriorLimits()


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Beliefs after the evidence: α ~ Gamma(shape, rate), and likewise κ by source.

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
    """Mode of the joint density of (α, κ) of each page; priors of shape below 1 count as 1."""
    intervals = Observations.gather(offsets, tau, signals, changed, weights)
    shapes, rates = _rows(prior, intervals.pages, intervals.sources)
    mode, _ = most_likely(intervals, np.maximum(shapes - 1.0, 0.0), rates)
    return mode[0], mode[1:].T


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


def most_likely(intervals: Observations, shapes: Floats, rates: Floats) -> tuple[Floats, Floats]:
    """For each parameter and page the zero of the gradient, and the curvature of ln p left when the others vary.

    Priors and results are (1 + sources, pages).
    """
    rates = rates + intervals.exposure
    point, shape = shapes / rates, shapes.copy()
    busy, first = np.unique(intervals.page, return_index=True)
    if not len(busy):
        return point, shape
    used = np.flatnonzero(np.r_[True, intervals.changed[1:].any(axis=1)])  # an unheard source keeps its prior
    part = np.ix_(used, busy)
    offsets = np.r_[first, len(intervals.page)].astype(np.int64)
    search = _Search(shapes[part], rates[part], intervals.changed[used], intervals.weights, offsets)
    point[part], shape[part] = search.run()
    return point, shape


class _Search:
    """Newton's method in ln p, all pages abreast; those that have arrived leave the march."""

    def __init__(self, shapes: Floats, rates: Floats, rows: Floats, weights: Floats, offsets: Ints) -> None:
        self.shapes, self.rates, self.rows, self.weights, self.offsets = shapes, rates, rows, weights, offsets
        self.point = self._start()

    def _sum(self, by_row: Floats) -> Floats:
        """Sum rows by page."""
        total: Floats = np.add.reduceat(by_row, self.offsets[:-1], axis=-1)
        return total

    def _spread(self, by_page: NDArray[Any]) -> NDArray[Any]:
        """Give each row its page's."""
        return np.repeat(by_page, np.diff(self.offsets), axis=-1)

    def _start(self) -> Floats:
        """One event for each changed interval, shared out as the priors would have it, over half its length."""
        expected = np.maximum(self.shapes, 1e-3) / self.rates
        parts = self._spread(expected) * self.rows
        events = self._sum(parts * (self.weights / parts.sum(axis=0)))
        return (self.shapes + events + 1e-12) / (self.rates + 0.5 * self._sum(self.weights * self.rows))

    def run(self) -> tuple[Floats, Floats]:
        """The points of zero gradient and, there, the curvature of each ln p with the others free."""
        count, pages = self.point.shape
        point, curvature = np.empty((count, pages)), np.empty((pages, count, count))
        here = np.arange(pages)
        for _ in range(LIMITS.few_steps):
            gradient, bend = self._derivatives()
            point[:, here], curvature[here] = self.point, bend
            going = np.abs(gradient).max(axis=0) > LIMITS.tolerance * (1.0 + np.einsum("pjj->p", bend))
            if not going.any():
                break
            here = here[going]
            self._keep(going)
            self._step(gradient[:, going], bend[going])
        return point, _marginal(curvature)

    def _derivatives(self) -> tuple[Floats, Floats]:
        """The gradient in ln p, and the negative Hessian as it is where the gradient is zero."""
        parts = self._spread(self.point) * self.rows
        growth = np.expm1(np.minimum(parts.sum(axis=0), LIMITS.max_exponent))
        parts /= np.maximum(growth, np.finfo(float).tiny)
        weighted = self.weights * parts
        gradient = self.shapes - self.rates * self.point + self._sum(weighted)
        weighted *= growth + 1.0
        count, pages = self.point.shape
        bend = np.empty((pages, count, count))
        for j in range(count):
            for k in range(j, count):
                bend[:, j, k] = bend[:, k, j] = self._sum(weighted[j] * parts[k])
            bend[:, j, j] += self.shapes[j]
        return gradient, bend

    def _step(self, gradient: Floats, bend: Floats) -> None:
        """Away from the zero the Hessian's diagonal differs by the gradient; where that steepens, take it in."""
        diagonal = np.arange(len(gradient))
        bend[:, diagonal, diagonal] += np.maximum(-gradient, 0.0).T
        _stiffen(bend)
        step = gradient / bend[:, 0].T if len(gradient) == 1 else np.linalg.solve(bend, gradient.T[..., None])[..., 0].T
        self.point = self.point * np.exp(np.clip(step, -LIMITS.max_step, LIMITS.max_step))

    def _keep(self, pages: NDArray[np.bool_]) -> None:
        if pages.all():
            return
        rows = self._spread(pages)
        self.offsets = np.r_[0, np.cumsum(np.diff(self.offsets)[pages])]
        self.shapes, self.rates, self.point = self.shapes[:, pages], self.rates[:, pages], self.point[:, pages]
        self.rows, self.weights = self.rows[:, rows], self.weights[rows]


def _marginal(curvature: Floats) -> Floats:
    """The precision of each coordinate alone, by coordinate and page: one over the diagonal of the inverse."""
    if curvature.shape[1] == 1:
        return curvature[:, :, 0].T
    diagonal = np.arange(curvature.shape[1])
    _stiffen(curvature)
    return np.asarray(1.0 / np.linalg.inv(curvature)[:, diagonal, diagonal].T, float)


def _stiffen(matrices: Floats) -> None:
    """Keep them invertible where a prior's shape of 0 leaves a direction flat; felt in the tenth digit only."""
    diagonal = np.arange(matrices.shape[1])
    matrices[:, diagonal, diagonal] += 1e-10 * (1e-3 + np.einsum("pjj->p", matrices))[:, None]
