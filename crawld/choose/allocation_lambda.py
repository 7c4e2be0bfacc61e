"""Optimal rates under Kolobov et al.'s harmonic penalty, where signals tell of every change of some of the pages."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.allocation_balance import Floats, balance, budget, columns, scaled, spread


def lambdacrawl(mu: ArrayLike, delta: ArrayLike, bandwidth: float, complete: ArrayLike = False) -> Floats:
    """Rates that minimise Σ μ ln((ρ+Δ)/ρ) + Σ μ ln(Δ/ρ), the second sum over pages whose every change is announced.

    Kolobov et al. 2019, Algorithms 1 to 3. One multiplier serves both kinds: ρ(ρ+Δ) = μΔ/λ without announcements, ρ =
    min(μ/λ, Δ) with them, where ρ/Δ is the probability of crawling upon an announcement.
    """
    weight, change = columns(mu, delta)
    told = _mask(complete, weight)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    told = told[useful]
    importance, pace = weight[useful], change[useful]
    if rate == 0 or useful.size == 0 or (told.all() and rate >= pace.sum()):
        rates[useful] = pace if rate >= pace.sum() else 0.0
        return spread(rates, rate)

    def demand(multiplier: float) -> Floats:
        most = importance / multiplier
        return np.where(told, np.minimum(most, pace), 2 * most / (1 + np.sqrt(1 + 4 * most / pace)))

    rates[useful] = balance(demand, rate, float(importance.sum()) / rate).rates
    return rates


def lambdacrawl_approximate(mu: ArrayLike, delta: ArrayLike, bandwidth: float, complete: ArrayLike = False) -> Floats:
    """LambdaCrawl with Kolobov et al.'s Proposition 9: rates in proportion to importance where nothing is announced.

    Their change rates then matter only for what both kinds of page get in all: the split under which one more unit of
    bandwidth is worth the same to both.
    """
    weight, change = columns(mu, delta)
    told = _mask(complete, weight)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = (weight > 0) & (change > 0)
    blind, told = useful & ~told, useful & told
    if rate == 0 or not blind.any():
        return lambdacrawl(weight, change, rate, told)
    share = weight[blind] / weight[blind].sum()
    importance, pace = weight[blind], change[blind]

    def announced(spent: float) -> Floats:
        """What the announced pages get when the others together get `spent`."""
        worth = float(np.sum(share * importance * pace / (share * spent * (share * spent + pace))))
        return np.minimum(weight[told] / worth, change[told])

    def demand(multiplier: float) -> Floats:
        spent = rate / multiplier
        return np.concatenate([share * spent, announced(spent)])

    if told.any():
        found = balance(demand, rate, 1.0).rates
        rates[blind], rates[told] = found[: share.size], found[share.size :]
    else:
        rates[blind] = share * rate
    return scaled(rates, rate)


def _mask(complete: ArrayLike, like: Floats) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(complete, dtype=np.bool_), like.shape)
