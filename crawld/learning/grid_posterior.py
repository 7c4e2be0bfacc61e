"""Posteriors of α and κ summed over a lattice, under priors of any form, for many pages at once.

Rates are tried on points evenly spaced in ln α, the worth of a signal on a few points of κ, zero among them. A host's
prior is a mass on each point, so it can say what no Gamma density can: that rates end somewhere, or that signals mean
either nothing or everything (docs/method.md, Estimation).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawld.learning.estimator import Posterior, Prior
from crawld.learning.likelihood import Observations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# ln of the rates tried, over the first guess of a rate: finely where visits tell rates apart, coarsely far off.
DEPTHS = np.r_[np.arange(-21.0, -7.0), np.arange(-7.0, 5.01, 0.25), np.arange(6.0, 13.0)]
POINTS = len(DEPTHS)
KAPPAS = np.array([0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 8.0])
# The first guess's mass of each point: what a Gamma density all but excludes, evidence can still raise. The highest
# rates have so much less of it that they hardly move the mean.
LEAST_MASS = np.where(DEPTHS > 0, 1e-4 * np.exp(-2.0 * np.maximum(DEPTHS - 5.0, 0.0)), 1e-9)
LEAST_TRUST = 1e-3
MEANINGLESS = 0.5  # and of κ = 0: most stamps are those of a build
LEAST_CHANCE = np.float32(1e-30)
PAGES_AT_ONCE = 256
PASSES = 2  # over the sources of a page that has heard several


@dataclass(frozen=True, slots=True)
class Masses:
    """A weight on each point of α, (pages, points), and of κ by source, (pages, sources, κs).

    As a prior or posterior each row sums to 1. As evidence it is the likelihood over its maximum, and rows of zeros
    where a page has nothing to say.
    """

    alpha: Floats
    kappa: Floats


class GridPosterior:
    """The points that rates are tried on, about a first guess."""

    def __init__(self, guess: Prior) -> None:
        mean = float(np.mean(np.asarray(guess.alpha_shape) / np.asarray(guess.alpha_rate)))
        self.alpha = mean * np.exp(DEPTHS)

    def masses(self, guess: Prior, sources: int) -> Masses:
        """Gamma priors as masses on the points, one row."""
        logs = guess.alpha_shape * np.log(self.alpha) - guess.alpha_rate * self.alpha
        alpha = np.exp(logs - logs.max()) * np.gradient(DEPTHS)
        middles = np.r_[0.0, 0.5 * (KAPPAS[1:] + KAPPAS[:-1]), 1.5 * KAPPAS[-1]]
        at = np.r_[0.5 * middles[1], KAPPAS[1:]]
        shape = np.broadcast_to(np.asarray(guess.kappa_shape, float), sources)[:, None]
        rate = np.broadcast_to(np.asarray(guess.kappa_rate, float), sources)[:, None]
        logs = (shape - 1.0) * np.log(at) - rate * at + np.log(np.diff(middles))
        kappa = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
        kappa = np.maximum(kappa / kappa.sum(axis=1, keepdims=True), LEAST_TRUST)
        kappa[:, 0] += kappa.sum(axis=1) * MEANINGLESS / (1.0 - MEANINGLESS)
        alpha = np.maximum(alpha / alpha.sum(), LEAST_MASS)
        return Masses(_shares(alpha[None]), _shares(kappa)[None])

    def fit(self, intervals: Observations, prior: Masses) -> tuple[Posterior, Masses]:
        """The posterior of each page, and what its own intervals say."""
        found = Masses(prior.alpha.copy(), prior.kappa.copy())
        trust = _trust(prior.kappa)
        heard = intervals.total[1:] > 0
        for pages in _blocks(np.flatnonzero(~heard.any(axis=0))):
            rows = _Rows.of(intervals, pages)
            logs = self._blind(rows, np.zeros(len(rows.tau))) + np.log(prior.alpha[pages])
            found.alpha[pages] = _shares(_from_logs(logs))
        several = heard.sum(axis=0) > 1
        for turn in range(PASSES):
            for source in np.flatnonzero(heard.any(axis=1)).tolist():
                asked = heard[source] if turn == 0 else heard[source] & several
                for pages in _blocks(np.flatnonzero(asked)):
                    self._join(intervals, pages, source, prior, found, trust)
                    trust[pages, source] = _trust(found.kappa[pages, source])
        evidence = Masses(found.alpha / prior.alpha, found.kappa / prior.kappa)
        evidence.alpha[intervals.total[0] == 0] = 0.0
        evidence.kappa[~heard.T] = 0.0
        told = Masses(_over_largest(evidence.alpha), _over_largest(evidence.kappa))
        return self._summary(found, trust, intervals.total[1:].T), told

    def _join(
        self, intervals: Observations, pages: Ints, source: int, prior: Masses, found: Masses, trust: Floats
    ) -> None:
        """α and the κ of one source together; the other sources count as much as they are trusted."""
        rows = _Rows.of(intervals, pages)
        others = trust[pages][rows.page]
        others[:, source] = 0.0
        aside = np.einsum("rs,sr->r", others, rows.signals)
        count = rows.signals[source]
        told = count > 0
        logs = self._blind(rows.only(~told), aside[~told]) + np.log(prior.alpha[pages])
        worth = np.log(prior.kappa[pages, source]) - np.outer(rows.heard[source], KAPPAS)
        joint = logs[:, :, None].astype(np.float32) + worth[:, None, :].astype(np.float32)
        some, elsewhere = rows.only(told), aside[told]
        for busy, layer in some.layers():
            drift = -np.expm1(-(some.tau[layer, None] * self.alpha + elsewhere[layer, None])).astype(np.float32)
            jump = -np.expm1(-count[told][layer, None] * KAPPAS).astype(np.float32)
            changed = (1 - drift)[:, :, None] * jump[:, None, :]
            changed += drift[:, :, None]
            np.log(np.maximum(changed, LEAST_CHANCE, out=changed), out=changed)
            changed *= some.weight[layer, None, None].astype(np.float32)
            joint[busy] += changed
        mass = _from_logs(joint.reshape(len(pages), -1)).reshape(joint.shape)
        found.alpha[pages] = _shares(mass @ np.ones(len(KAPPAS), np.float32))
        found.kappa[pages, source] = _shares(np.ones(POINTS, np.float32) @ mass)

    def _blind(self, rows: "_Rows", aside: Floats) -> Floats:
        """The log-likelihood of each α: unchanged time, and changed intervals with so much x from elsewhere."""
        logs = -rows.quiet[:, None] * self.alpha
        for busy, layer in rows.layers():
            stale = -np.expm1(-(rows.tau[layer, None] * self.alpha + aside[layer, None]))
            logs[busy] += rows.weight[layer, None] * np.log(np.maximum(stale, LEAST_CHANCE))
        return np.asarray(logs)

    def _summary(self, found: Masses, trust: Floats, heard: Floats) -> Posterior:
        """Gammas in place of the masses: α's has the same mean and mean logarithm, κ's the same two moments."""
        alpha = found.alpha @ self.alpha
        shape = shape_of_spread(np.log(alpha) - found.alpha @ np.log(self.alpha))
        kappa = np.maximum(found.kappa @ KAPPAS, 1e-9)
        variance = np.maximum(found.kappa @ KAPPAS**2 - kappa**2, 1e-4 * kappa**2)
        return Posterior(shape, shape / alpha, kappa**2 / variance, kappa / variance, heard, trust)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Changed intervals of some pages, in their order, and what their unchanged ones add up to."""

    page: Ints  # place among the pages asked for
    tau: Floats
    signals: Floats  # (sources, rows)
    weight: Floats
    quiet: Floats  # by page: weighted time that ended unchanged
    heard: Floats  # (sources, pages): signals in it

    @classmethod
    def of(cls, intervals: Observations, pages: Ints) -> "_Rows":
        first, last = np.searchsorted(intervals.page, [pages, pages + 1])
        counts = last - first
        ends = np.cumsum(counts)
        rows = np.repeat(first - (ends - counts), counts) + np.arange(counts.sum())
        place = np.repeat(np.arange(len(pages)), counts)
        features, quiet = intervals.changed[:, rows], intervals.exposure[:, pages]
        return cls(place, features[0], features[1:], intervals.weights[rows], quiet[0], quiet[1:])

    def layers(self) -> Iterator[tuple[Ints, Ints]]:
        """Places of pages with a first row, and those rows; with a second row; and so on."""
        busy, first, count = np.unique(self.page, return_index=True, return_counts=True)
        for layer in range(int(count.max(initial=0))):
            longer = count > layer
            yield busy[longer], first[longer] + layer

    def only(self, rows: NDArray[np.bool_]) -> "_Rows":
        """Some of the changed intervals."""
        kept = self.page[rows], self.tau[rows], self.signals[:, rows], self.weight[rows]
        return _Rows(*kept, self.quiet, self.heard)


def _blocks(pages: Ints) -> Iterator[Ints]:
    for start in range(0, len(pages), PAGES_AT_ONCE):
        yield pages[start : start + PAGES_AT_ONCE]


def _from_logs(logs: NDArray[Any]) -> NDArray[Any]:
    """Masses up to a factor by row; overwrites."""
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    return logs


def _over_largest(masses: Floats) -> Floats:
    return np.asarray(masses / np.maximum(masses.max(axis=-1, keepdims=True, initial=0.0), np.finfo(float).tiny))


def _shares(masses: NDArray[Any]) -> Floats:
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True), float)


def _trust(kappa: Floats) -> Floats:
    """−ln E[e^−κ]: the κ by which the freshness expected after one signal is right."""
    return np.asarray(-np.log(np.minimum(kappa @ np.exp(-KAPPAS), 1.0)))


def shape_of_spread(spread: Floats) -> Floats:
    """The Gamma shape a whose ln a − ψ(a), the mean's logarithm less the mean logarithm, is `spread`; within 1.5 %."""
    s = np.maximum(spread, 1e-5)
    return np.asarray((3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s))
