"""Posteriors of α and κ summed over a lattice, under priors of any form, for many pages at once.

Rates are tried on points evenly spaced in ln α, the worth of a signal on a few points of κ. A host's
prior is a mass on each point, so it can say what no Gamma density can: that rates end somewhere, or that signals mean
either nothing or everything (docs/method.md, Estimation).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawld.learn.observations import NewIntervals, Observations, Prior

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# ln of the rates tried, over the first guess of a rate: finely where visits tell rates apart, coarsely far off.
DEPTHS = np.r_[np.arange(-21.0, -7.0), np.arange(-7.0, 5.01, 0.25), np.arange(6.0, 13.0)]
POINTS = len(DEPTHS)
KAPPAS = np.array([0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 8.0])
LEAST_CHANCE = np.float32(1e-30)


@dataclass(frozen=True, slots=True)
class Masses:
    """A weight on each point of α, (pages, points), and of κ by source, (pages, sources, κs).

    As a prior or posterior each row sums to 1. As evidence it is the likelihood over its maximum, and rows of zeros
    where a page has nothing to say.
    """

    alpha: Floats
    kappa: Floats


@dataclass(frozen=True, slots=True)
class Fit:
    """The posterior of some pages, and their likelihood over its maximum."""

    found: Masses
    evidence: Masses


class GridPosterior:
    """The points that rates are tried on, about a first guess."""

    exponential = 0.5772156649  # spread of the logarithm of a Gamma of shape 1: ln of the mean less the mean of ln
    passes = 2  # over the sources of a page that has heard several

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
        kappa = np.maximum(kappa, 1e-6)
        # What a Gamma density all but excludes, evidence can still raise. The highest rates have so much less mass
        # that they hardly move the mean.
        least = np.where(DEPTHS > 0, 1e-4 * np.exp(-2.0 * np.maximum(DEPTHS - 5.0, 0.0)), 1e-9)
        alpha = np.maximum(alpha / alpha.sum(), least)
        return Masses(_shares(alpha[None]), _shares(kappa)[None])

    def fit(
        self, intervals: Observations, prior: Masses, news: NewIntervals | None = None, usual: Floats | float = 1.0
    ) -> "Fit":
        """What is believed of each page, and what its own intervals say.

        `news` come after the intervals and are predicted, one after another, before they are taken in. `usual` is how
        many signals of a source come between two crawls of a page, where any do: trust is right for so many.
        """
        news = news or NewIntervals.none(intervals.sources)
        found = Masses(prior.alpha.copy(), prior.kappa.copy())
        total = intervals.total + news.totals(intervals.pages)
        there = total[1:].T > 0
        usual = np.broadcast_to(np.asarray(usual, float), there.shape)
        trust = trust_in(prior.kappa, usual)  # a page's first signal is worth what others' are
        for pages in _blocks(np.arange(intervals.pages)):
            self._alone(intervals, pages, prior, found, news)
        several = there.sum(axis=1) > 1
        for turn in range(self.passes):
            for source in np.flatnonzero(there.any(axis=0)).tolist():
                asked = there[:, source] if turn == 0 else there[:, source] & several
                for pages in _blocks(np.flatnonzero(asked)):
                    self._join(intervals, pages, source, prior, found, trust, news if turn == 0 else news.known)
                    trust[pages, source] = trust_in(found.kappa[pages, source], usual[pages, source])
        evidence = Masses(found.alpha / prior.alpha, found.kappa / prior.kappa)
        evidence.alpha[total[0] == 0] = 0.0
        evidence.kappa[~there] = 0.0
        return Fit(found, Masses(_over_largest(evidence.alpha), _over_largest(evidence.kappa)))

    def _alone(self, intervals: Observations, pages: Ints, prior: Masses, found: Masses, news: NewIntervals) -> None:
        """α as if there were no signals."""
        rows = _Rows.of(intervals, pages)
        logs, before = self._blind(rows, np.zeros(len(rows.tau))), np.log(prior.alpha[pages])
        for place, row in news.layers(pages):
            if news.predicting:
                kept = np.exp(-news.age[row, None] * self.alpha)
                for column, share in enumerate(news.shares):
                    known = _shares(_from_logs(share * logs[place] + before[place]))
                    news.fresh[row, column] = np.einsum("pa,pa->p", known, kept)
                    if share == 1.0:
                        shape, rate = self.gamma_of(known)
                        news.shape[row], news.mean[row] = shape, shape / rate
                announced = news.gamma[row][:, :, None] * news.age[row, None, None] * -np.expm1(-KAPPAS)
                silent = (prior.kappa[pages[place]] * np.exp(-announced)).sum(axis=2).prod(axis=1)
                news.blind[row] = news.fresh[row] * silent[:, None]
                jumps = np.exp(-news.signals[row][:, :, None] * KAPPAS)
                news.fresh[row] *= (prior.kappa[pages[place]] * jumps).sum(axis=2).prod(axis=1)[:, None]
            drift = news.tau[row, None] * self.alpha
            worth = np.where(news.changed[row, None], _log_stale(drift), -drift)
            logs[place] += news.weight[row, None] * worth
        found.alpha[pages] = _shares(_from_logs(logs + before))

    def _join(
        self,
        intervals: Observations,
        pages: Ints,
        source: int,
        prior: Masses,
        found: Masses,
        trust: Floats,
        news: NewIntervals,
    ) -> None:
        """α and the κ of one source together; the other sources count as much as they are trusted."""
        rows = _Rows.of(intervals, pages)
        others = trust[pages]
        others[:, source] = 0.0
        aside = np.einsum("rs,sr->r", others[rows.page], rows.signals)
        count = rows.signals[source]
        told = count > 0
        logs = self._blind(rows.only(~told), aside[~told]) + np.log(prior.alpha[pages])
        worth = np.log(prior.kappa[pages, source]) - np.outer(rows.heard[source], KAPPAS)
        joint = logs[:, :, None].astype(np.float32) + worth[:, None, :].astype(np.float32)
        some, elsewhere = rows.only(told), aside[told]
        for busy, layer in some.layers():
            changed = self._changed(some.tau[layer], elsewhere[layer], count[told][layer])
            changed *= some.weight[layer, None, None].astype(np.float32)
            joint[busy] += changed
        for place, row in news.layers(pages):
            beside = (others[place] * news.signals[row]).sum(axis=1)
            if news.predicting:
                self._predict(joint[place], source, others[place], news, row)
            told_of, change = news.signals[row, source], news.changed[row]
            weight = news.weight[row].astype(np.float32)[:, None, None]
            joint[place[change]] += weight[change] * self._changed(
                news.tau[row[change]], beside[change], told_of[change]
            )
            still = ~change
            drift = (news.tau[row[still], None] * self.alpha).astype(np.float32)[:, :, None]
            jump = (told_of[still, None] * KAPPAS).astype(np.float32)[:, None, :]
            joint[place[still]] -= weight[still] * (drift + jump)
        mass = _from_logs(joint.reshape(len(pages), -1)).reshape(joint.shape)
        found.kappa[pages, source] = _shares(np.ones(POINTS, np.float32) @ mass)
        found.alpha[pages] = _shares(mass @ np.ones(len(KAPPAS), np.float32))

    def _predict(self, joint: NDArray[np.float32], source: int, others: Floats, news: NewIntervals, row: Ints) -> None:
        """The chances of rows by all of their pages' histories, knowing when signals came and only how often."""
        mass = _from_logs(joint.reshape(len(row), -1)).reshape(joint.shape)
        mass /= mass.sum(axis=(1, 2), keepdims=True)
        kept = np.exp(-news.age[row, None] * self.alpha).astype(np.float32)
        drift = np.matmul(kept[:, None, :], mass)[:, 0]  # by κ
        jumps, age = np.exp(-news.signals[row, source, None] * KAPPAS), news.age[row]
        rates = -news.gamma[row] * np.expm1(-others)
        announced = news.gamma[row, source, None] * age[:, None] * -np.expm1(-KAPPAS)
        news.blind[row, -1] = (drift * np.exp(-announced)).sum(axis=1) * np.exp(-rates.sum(axis=1) * age)
        best = (news.signals[row, source] > 0) | (news.signals[row].sum(axis=1) == 0)
        heard = (drift * jumps).sum(axis=1) * np.exp(-(others * news.signals[row]).sum(axis=1))
        news.fresh[row[best], -1] = heard[best]

    def _changed(self, tau: Floats, aside: Floats, count: Floats) -> NDArray[np.float32]:
        """ln(1 − e^−x) of changed intervals at every (α, κ)."""
        drift = -np.expm1(-(tau[:, None] * self.alpha + aside[:, None])).astype(np.float32)
        jump = -np.expm1(-count[:, None] * KAPPAS).astype(np.float32)
        stale: NDArray[np.float32] = (1 - drift)[:, :, None] * jump[:, None, :]
        stale += drift[:, :, None]
        np.log(np.maximum(stale, LEAST_CHANCE, out=stale), out=stale)
        return stale

    def _blind(self, rows: "_Rows", aside: Floats) -> Floats:
        """The log-likelihood of each α: unchanged time, and changed intervals with so much x from elsewhere."""
        logs = -rows.quiet[:, None] * self.alpha
        for busy, layer in rows.layers():
            logs[busy] += rows.weight[layer, None] * _log_stale(rows.tau[layer, None] * self.alpha + aside[layer, None])
        return np.asarray(logs)

    def gamma_of(self, masses: Floats, caution: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Shape and rate of the Gamma with the same mean and mean logarithm of α.

        With `caution` the logarithms are spread so far towards those of a shape of 1: a heavier tail, so that pages are
        not given up.
        """
        mean = masses @ self.alpha
        spread = np.log(mean) - masses @ np.log(self.alpha)
        spread += caution * np.maximum(self.exponential - spread, 0.0)
        shape = shape_of_spread(spread)
        return shape, shape / mean


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


def _log_stale(x: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(-np.expm1(-x), LEAST_CHANCE)))


def _blocks(pages: Ints, at_once: int = 256) -> Iterator[Ints]:
    for start in range(0, len(pages), at_once):
        yield pages[start : start + at_once]


def _from_logs(logs: NDArray[Any]) -> NDArray[Any]:
    """Masses up to a factor by row; overwrites."""
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    return logs


def _over_largest(masses: Floats) -> Floats:
    return np.asarray(masses / np.maximum(masses.max(axis=-1, keepdims=True, initial=0.0), np.finfo(float).tiny))


def _shares(masses: NDArray[Any]) -> Floats:
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True), float)


def trust_in(kappa: Floats, usual: Floats) -> Floats:
    """−ln E[e^−κn]/n: the κ by which the freshness expected after the usual number n of signals is right."""
    fresh = (kappa * np.exp(-usual[..., None] * KAPPAS)).sum(axis=-1)
    return np.asarray((0.0 - np.log(np.clip(fresh, np.finfo(float).tiny, 1.0))) / usual)


def shape_of_spread(spread: Floats) -> Floats:
    """The Gamma shape a whose ln a − ψ(a), the mean's logarithm less the mean logarithm, is `spread`; within 1.5 %."""
    s = np.maximum(spread, 1e-5)
    return np.asarray((3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s))
