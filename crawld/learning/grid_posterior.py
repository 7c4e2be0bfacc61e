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
from crawld.learning.new_intervals import OWN_SHARES, NewIntervals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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

    def fit(
        self,
        intervals: Observations,
        prior: Masses,
        heard: Bools | None = None,
        news: NewIntervals | None = None,
        usual: Floats | float = 1.0,
    ) -> tuple[Posterior, Masses]:
        """The posterior of each page, and what its own intervals say.

        `heard` says by page and source whether signals are listened to (all, where None): α is fitted and κ trusted as
        if others did not exist, and what they would be worth goes into the evidence alone. `news` come after the
        intervals and are foretold, one after another, before they are taken in. `usual` is how many signals of a source
        come between two crawls of a page, where any do: trust is right for so many.
        """
        news = news or NewIntervals.none(intervals.sources)
        found = Masses(prior.alpha.copy(), prior.kappa.copy())
        total = intervals.total + news.totals(intervals.pages)
        there = total[1:].T > 0
        heard = np.ones_like(there) if heard is None else heard
        listened = there & heard
        usual = np.broadcast_to(np.asarray(usual, float), there.shape)
        trust = np.where(heard, _trust(prior.kappa, usual), 0.0)  # a page's first signal is worth what others' are
        for pages in _blocks(np.arange(intervals.pages)):
            self._alone(intervals, pages, prior, found, news)
        several = listened.sum(axis=1) > 1
        for turn in range(PASSES):
            for source in np.flatnonzero(there.any(axis=0)).tolist():
                asked = there[:, source] if turn == 0 else listened[:, source] & several
                for pages in _blocks(np.flatnonzero(asked)):
                    alpha = self._join(intervals, pages, source, prior, found, trust, news if turn == 0 else news.known)
                    own = listened[pages, source]
                    found.alpha[pages[own]] = alpha[own]
                    worth = _trust(found.kappa[pages, source], usual[pages, source])
                    trust[pages, source] = np.where(own, worth, 0.0)
        evidence = Masses(found.alpha / prior.alpha, found.kappa / prior.kappa)
        evidence.alpha[total[0] == 0] = 0.0
        evidence.kappa[~there] = 0.0
        told = Masses(_over_largest(evidence.alpha), _over_largest(evidence.kappa))
        return self._summary(found, trust, total[1:].T), told

    def _alone(self, intervals: Observations, pages: Ints, prior: Masses, found: Masses, news: NewIntervals) -> None:
        """α as if there were no signals."""
        rows = _Rows.of(intervals, pages)
        logs, before = self._blind(rows, np.zeros(len(rows.tau))), np.log(prior.alpha[pages])
        for place, row in news.layers(pages):
            if news.foretelling:
                kept = np.exp(-news.age[row, None] * self.alpha)
                parts = [_shares(_from_logs(share * logs[place] + before[place])) for share in OWN_SHARES[1:]]
                known = [prior.alpha[pages[place]], *parts]
                fresh = np.array([np.einsum("pa,pa->p", masses, kept) for masses in known])
                news.foretell_without(row, fresh, self.gamma_of(known[-1]))
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
    ) -> Floats:
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
            told_of, beside = news.signals[row, source], (others[place] * news.signals[row]).sum(axis=1)
            if news.foretelling:
                mass = _from_logs(joint[place].reshape(len(place), -1)).reshape(len(place), POINTS, -1)
                kept = np.exp(-news.age[row, None] * self.alpha - beside[:, None]).astype(np.float32)
                heard = np.exp(-told_of[:, None] * KAPPAS).astype(np.float32)
                fresh = (np.matmul(mass, heard[:, :, None])[:, :, 0] * kept).sum(axis=1) / mass.sum(axis=(1, 2))
                news.foretell(row, fresh.astype(float), source)
            change = news.changed[row]
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
        return _shares(mass @ np.ones(len(KAPPAS), np.float32))

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

    def gamma_of(self, masses: Floats) -> tuple[Floats, Floats]:
        """Shape and rate of the Gamma with the same mean and mean logarithm of α."""
        mean = masses @ self.alpha
        shape = shape_of_spread(np.log(mean) - masses @ np.log(self.alpha))
        return shape, shape / mean

    def rates_by_share(self, prior: Floats, evidence: Floats, share: Floats) -> tuple[Floats, Floats]:
        """Shape and rate of α where pages are judged by a share of their own evidence: the power of its likelihood."""
        said = np.where(evidence.max(axis=1, keepdims=True) > 0, evidence, 1.0)
        return self.gamma_of(_shares(prior * said ** share[:, None]))

    def _summary(self, found: Masses, trust: Floats, heard: Floats) -> Posterior:
        """Gammas in place of the masses: α's has the same mean and mean logarithm, κ's the same two moments."""
        shape, rate = self.gamma_of(found.alpha)
        kappa = np.maximum(found.kappa @ KAPPAS, 1e-9)
        variance = np.maximum(found.kappa @ KAPPAS**2 - kappa**2, 1e-4 * kappa**2)
        return Posterior(shape, rate, kappa**2 / variance, kappa / variance, heard, trust)


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


def _trust(kappa: Floats, usual: Floats) -> Floats:
    """−ln E[e^−κn]/n: the κ by which the freshness expected after the usual number n of signals is right."""
    fresh = (kappa * np.exp(-usual[..., None] * KAPPAS)).sum(axis=-1)
    return np.asarray(-np.log(np.clip(fresh, np.finfo(float).tiny, 1.0)) / usual)


def shape_of_spread(spread: Floats) -> Floats:
    """The Gamma shape a whose ln a − ψ(a), the mean's logarithm less the mean logarithm, is `spread`; within 1.5 %."""
    s = np.maximum(spread, 1e-5)
    return np.asarray((3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s))
