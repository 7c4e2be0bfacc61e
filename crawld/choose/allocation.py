"""Optimal rates: how a fixed bandwidth is shared among pages under each paper's objective (docs/method.md, Allocation).

Every allocation takes columns of importance and change rate (or the signal model's parameters) and a bandwidth, and
returns one rate per page; the rates sum to the bandwidth. Bandwidth that helps no page is spread evenly.
"""

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation_azar import azar_continuous, azar_discrete, binary_lambdacrawl
from crawld.choose.allocation_balance import Floats, budget, columns, kkt_residual, scaled, spread
from crawld.choose.allocation_cho import age_optimal, freshness_optimal, harmonic_optimal
from crawld.choose.allocation_lambda import lambdacrawl, lambdacrawl_approximate
from crawld.choose.allocation_signals import SignalOptimum, optimum_accuracy, signal_optimal, signal_optimum

__all__ = [
    "SignalOptimum",
    "age_optimal",
    "azar_continuous",
    "azar_discrete",
    "binary_lambdacrawl",
    "freshness_optimal",
    "harmonic_optimal",
    "kkt_residual",
    "lambdacrawl",
    "lambdacrawl_approximate",
    "optimum_accuracy",
    "proportional",
    "signal_optimal",
    "signal_optimum",
    "uniform",
]


def uniform(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """The same rate for every page, whatever its importance and change rate."""
    weight, _ = columns(mu, delta)
    return spread(np.zeros_like(weight), budget(bandwidth))


def proportional(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates in proportion to change rates: Cho & Garcia-Molina's and Kolobov et al.'s cautionary example."""
    _, change = columns(mu, delta)
    if not change.any():
        return uniform(change, change, bandwidth)
    return scaled(change / change.max(), budget(bandwidth))
