"""Priors by empirical Bayes: what the pages of a host say about the next one (docs/method.md, Estimation)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 6  # of expectation and maximisation, each time


def pool(
    likelihood: NDArray[Any],
    group: Ints,
    above: Floats,
    start: NDArray[Any],
    pseudo: float,
    weights: Floats | None = None,
) -> Floats:
    """Masses (groups, points) that make the evidence of each group's pages more likely than those to start from.

    They are drawn towards the masses above, (1, points), as by `pseudo` more pages that are just like them.
    `likelihood` is (pages, points), rows of zeros saying nothing; `weights` count pages more or less.
    """
    order = np.flatnonzero(likelihood.any(axis=1))
    order = order[np.argsort(group[order], kind="stable")]
    masses = np.array(start, float)
    if not len(order):
        return masses
    likelihood, group = likelihood[order].astype(np.float32), group[order]
    weight = np.ones(len(order)) if weights is None else weights[order]
    busy, first = np.unique(group, return_index=True)
    place = np.repeat(np.arange(len(busy)), np.diff(np.r_[first, len(group)]))
    members = np.bincount(place, weight)[:, None]
    for _ in range(ROUNDS):
        shares = likelihood * masses[busy].astype(np.float32)[place]
        shares *= (weight / shares.sum(axis=1))[:, None].astype(np.float32)
        masses[busy] = (np.add.reduceat(shares, first, axis=0) + pseudo * above) / (members + pseudo)
    return masses


def cautious(shape: Floats, rate: Floats, most: float | Floats = 1.0) -> tuple[Floats, Floats]:
    """The same mean with a shape of at most `most`: a tail heavy enough that no page is ever given up."""
    capped = np.minimum(shape, most)
    return capped, rate * (capped / shape)
