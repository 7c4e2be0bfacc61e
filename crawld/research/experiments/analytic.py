"""What formulas promise for a population, to be set beside what simulation finds."""

from crawld.choose import allocation_costs, allocation_signals
from crawld.research.population import Population

BASELINE, OPTIMUM = "baseline", "optimum"


def promised(contestant: str, population: Population, bandwidth: float) -> float | None:
    """The accuracy of a contestant that is a formula, else None.

    `baseline` is the best that even intervals can do without signals (Busa-Fekete et al. 2025 eq. 5), `optimum` the
    best that anybody can do with these signals and a bandwidth kept on average (Busa-Fekete et al. 2025 Theorem 1).
    """
    p = population
    if contestant == BASELINE:
        return allocation_costs.baseline_accuracy(p.mu, p.delta, bandwidth)
    if contestant == OPTIMUM:
        return allocation_signals.optimum_accuracy(p.mu, p.alpha, p.kappa, p.gamma, bandwidth)
    return None
