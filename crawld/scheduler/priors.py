"""Gamma priors by empirical Bayes: what the rates of many pages say about the next one.

A page's evidence about a rate is (events, exposure), as if that many events had been counted in that much time
(docs/method.md, Estimation).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.estimator import Posterior, Prior

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PSEUDO_PAGES = 3.0
ROUNDS = 30
WIDEST, NARROWEST = 0.1, 20.0  # shapes: pages of every rate, pages all but alike


@dataclass(frozen=True, slots=True)
class Evidence:
    """By page, what its own intervals say of α and (with an axis of sources) of κ, the prior taken out again."""

    events: Floats
    exposure: Floats
    kappa_events: Floats
    kappa_exposure: Floats
    changes: Floats  # by source: how many changes are believed to be the signals'
    signals: Floats  # by source: out of how many signals


def evidence_of(posterior: Posterior, prior: Prior) -> Evidence:
    """What the posterior knows that the prior did not.

    The curvature says how much that is, since time that surely holds a change tells little. How high κ is on the whole
    it would find but slowly, since page by page κ and α explain the same changes: for that the changes expected to be
    the signals' are counted over all signals, and fitting anew under the pooled prior is the next step of maximisation.
    """
    return Evidence(
        np.maximum(posterior.shape - prior.alpha_shape, 0.0),
        np.maximum(posterior.rate - prior.alpha_rate, 0.0),
        np.maximum(posterior.kappa_shape - prior.kappa_shape, 0.0),
        np.maximum(posterior.kappa_rate - prior.kappa_rate, 0.0),
        np.maximum(posterior.kappa * (prior.kappa_rate + posterior.heard) - prior.kappa_shape, 0.0),
        posterior.heard,
    )


def pool_rates(
    events: Floats,
    exposure: Floats,
    group: Ints,
    above: tuple[Floats, Floats],
    start: tuple[Floats, Floats] | None = None,
    weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Shape and rate of each group's Gamma prior: the one that makes its pages' evidence most likely.

    Found by expectation and maximisation, drawn towards the prior above (by group) as if a few more pages had been seen
    that are just like it. `start` shortens the way where little has changed; `weights` count pages more or less.
    """
    groups = len(above[0])
    weight = np.ones(len(group)) if weights is None else weights
    members = np.maximum(np.bincount(group, weight, minlength=groups), np.finfo(float).tiny)
    own = members / (PSEUDO_PAGES + members)
    level0, spread0 = np.log(above[0] / above[1]), np.log(above[0]) - digamma(above[0])
    shape, rate = above if start is None else start
    for _ in range(ROUNDS if start is None else ROUNDS // 5):
        mine, per = shape[group] + events, rate[group] + exposure
        level = np.log(np.bincount(group, weight * mine / per, minlength=groups) / members)
        logs = np.bincount(group, weight * (digamma(mine) - np.log(per)), minlength=groups) / members
        shape = _shape_of_spread(own * (level - logs) + (1.0 - own) * spread0)
        rate = shape / np.exp(own * level + (1.0 - own) * level0)
    return shape, rate


def pool_trust(
    evidence: Evidence, group: Ints, above: tuple[Floats, Floats], weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Shape and rate of each group's priors of κ, (groups, sources).

    How far signals can be trusted is mostly made by the site's generator, so the mean is that of all changes and all
    signals together; how much pages differ about it is learnt as for rates. Of the prior above at most one change
    counts, for sites differ by orders of magnitude.
    """
    groups = len(above[0])
    weight = np.ones(len(group)) if weights is None else weights
    shapes, rates = cautious(*above)
    for source in np.flatnonzero(evidence.signals.any(axis=0)):  # a source nobody heard keeps the prior above
        shape, rate = shapes[:, source], rates[:, source]
        heard = np.bincount(group, weight * evidence.signals[:, source], minlength=groups)
        mean = (shape + np.bincount(group, weight * evidence.changes[:, source], minlength=groups)) / (rate + heard)
        found, _ = pool_rates(
            evidence.kappa_events[:, source],
            evidence.kappa_exposure[:, source],
            group,
            (shape, shape / mean),
            None,
            weight,
        )
        shapes[:, source], rates[:, source] = found, found / mean
    return shapes, rates


def cautious(shape: Floats, rate: Floats, most: float | Floats = 1.0) -> tuple[Floats, Floats]:
    """The same mean with a shape of at most `most`: a tail heavy enough that no page is ever given up."""
    capped = np.minimum(shape, most)
    return capped, rate * (capped / shape)


def digamma(x: Floats) -> Floats:
    """ψ(x) for x > 0, to about 1e-9: recurrence up to 4, and the asymptotic series from there."""
    y = np.array(x, float)
    low = np.zeros_like(y)
    for _ in range(4):
        small = y < 4.0
        low -= np.where(small, 1.0 / y, 0.0)
        y += small
    z = 1.0 / (y * y)
    tail = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))))
    return np.asarray(low + np.log(y) - 0.5 / y - tail)


def _shape_of_spread(spread: Floats) -> Floats:
    """The Gamma shape a whose ln a − ψ(a) is `spread`, within 1.5 %: a prior needs no more."""
    s = np.maximum(spread, 1e-9)
    return np.asarray(((3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s)).clip(WIDEST, NARROWEST))
