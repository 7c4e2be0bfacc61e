"""Optimal rates for visits at random moments: Azar et al.'s two algorithms, and BLC with Kolobov et al.'s floor."""

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation_balance import Floats, balance, budget, columns, scaled, spread
from crawld.model.errors import InputError


def azar_continuous(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that maximise Σ μρ/(ρ+Δ), Azar et al. 2018 Algorithm 2: one sort, then one pass.

    The support is a prefix of the pages in falling order of μ/Δ. With q = √(μ/Δ) a page of the support gets
    Δ(Rq + Σ Δⱼ(q − qⱼ))/Σ Δⱼqⱼ, written with differences of q so that a small R is not lost beside a large ΣΔ.
    """
    weight, change = columns(mu, delta)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    if rate == 0 or useful.size == 0:
        return spread(rates, rate)
    root = np.sqrt(weight[useful] / weight[useful].max()) / np.sqrt(change[useful])
    order = np.argsort(-root, kind="stable")
    page, root = useful[order], root[order]
    pace = change[page]
    below = root - root[0]
    surplus = rate * root + np.cumsum(pace) * below - np.cumsum(pace * below)
    support = int(np.count_nonzero(np.logical_and.accumulate(surplus > 0)))
    page, root, pace, below = page[:support], root[:support], pace[:support], below[:support]
    # Summed afresh over the support: a running subtraction would lose digits.
    gain = rate * root + pace.sum() * below - (pace * below).sum()
    rates[page] = np.maximum(pace * gain / (pace * root).sum(), 0.0)
    return scaled(rates, rate)


def azar_discrete(mu: ArrayLike, delta: ArrayLike, bandwidth: float = 1.0) -> Floats:
    """Probabilities p that maximise Σ μp/(p+Δ−pΔ), Azar et al. Algorithm 1, with `bandwidth` pages asked per time step.

    `delta` is the probability that a page changes within a step (1 and more mean surely). No page is asked more
    than once a step unless all are.
    """
    weight, change = columns(mu, np.minimum(np.asarray(delta, dtype=np.float64), 1.0))
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    if rate >= useful.size:
        rates[useful] = 1.0
    if rate == 0 or rate >= useful.size:
        return spread(rates, rate)
    importance, chance = weight[useful] / weight[useful].max(), change[useful]
    sure = chance == 1.0

    def demand(multiplier: float) -> Floats:
        wanted = (np.sqrt(importance * chance / multiplier) - chance) / np.where(sure, 1.0, 1.0 - chance)
        clipped: Floats = np.clip(np.where(sure, importance >= multiplier, wanted), 0.0, 1.0)
        return clipped

    rates[useful] = balance(demand, rate, float(importance.mean())).rates
    return rates


def binary_lambdacrawl(mu: ArrayLike, delta: ArrayLike, bandwidth: float, epsilon: float = 0.0) -> Floats:
    """BLC: Azar et al.'s continuous optimum; with ε > 0 BLCε, where no page gets less than ε·bandwidth/pages.

    Kolobov et al. 2019 lift the pages below the floor and solve once more for the others; here that is repeated until
    none is     below it, which is the optimum under the floor.
    """
    if not 0 <= epsilon <= 1:
        raise InputError(f"epsilon is a share of the bandwidth between 0 and 1, not {epsilon!r}")
    weight, change = columns(mu, delta)
    rate = budget(bandwidth)
    if epsilon == 0 or weight.size == 0:
        return azar_continuous(weight, change, rate)
    floor = epsilon * rate / weight.size
    rates = np.full_like(weight, floor)
    free = np.arange(weight.size)
    while free.size:
        left = rate - floor * (weight.size - free.size)
        wanted = azar_continuous(weight[free], change[free], max(left, 0.0))
        if np.all(wanted >= floor):
            rates[free] = wanted
            break
        free = free[wanted >= floor]
    return spread(rates, rate)
