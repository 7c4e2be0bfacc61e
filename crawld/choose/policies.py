"""Every policy of the papers behind one interface, by name.

`choose(name)` gives a policy, `policy.chooser(...)` a chooser to put pages in. A policy of values picks the page most
worth crawling now; a policy of rates allots the bandwidth and visits each page at its rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from crawld.choose import allocation
from crawld.choose.chooser import Chooser
from crawld.choose.frontier import Frontier
from crawld.choose.greedy import (
    GreedyAge,
    GreedyApproximate,
    GreedyBlind,
    GreedyCis,
    GreedyCisPlus,
    GreedyHarmonic,
    GreedyNcis,
)
from crawld.choose.host_gate import HostGate
from crawld.choose.page_table import Intervals
from crawld.choose.rate_chooser import Bools, Plan, RateChooser
from crawld.choose.valuation import Beliefs, Floats, Number, Taylor, Valuation
from crawld.model.errors import InputError


@dataclass(frozen=True)
class PoliciesLimits:
    """Numbers that bound and tune this module."""

    floor: float = 0.4  # the ε that Kolobov et al. 2019 found best for BLCε
    high_precision: float = 0.7  # above both, Busa-Fekete et al. 6.7 takes a page's signals for all its changes
    high_recall: float = 0.6


LIMITS = PoliciesLimits()


DEFAULT = "greedy-ncis"

ByRates = Callable[[Floats, Floats, float], Floats]


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to choose pages: by a crawl value, or else by a plan of rates."""

    name: str
    summary: str
    valuation: Callable[[], Valuation] | None = None
    plan: Plan | None = None
    hears: bool = True  # whether signals matter to it; who ignores them need not poll for any
    in_reads: bool = True  # whether its values count fresh reads, so that a read can be weighed against them

    def chooser(
        self,
        *,
        bandwidth: float,
        gate: HostGate | None = None,
        intervals: Intervals | None = None,
        rng: np.random.Generator | None = None,
    ) -> Chooser:
        """An empty chooser that follows this policy; only policies of rates look at the bandwidth."""
        if self.plan is not None:
            return RateChooser(self.plan, bandwidth, gate, intervals, rng)
        assert self.valuation is not None, "a policy has a valuation or a plan"
        return Frontier(self.valuation(), gate, intervals)


class OnDemand(Valuation):
    """Nothing is worth a request before somebody reads it."""

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:  # noqa: ARG002 - the same for all
        """Nothing."""
        return np.zeros_like(tau)

    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:  # noqa: ARG002 - the same for all
        """Nothing, for ever."""
        nothing = np.zeros_like(tau)
        return Taylor(nothing, nothing, nothing, nothing)

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - the same for all
        """The value never rises."""
        return 0.0 * alpha

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:  # noqa: ARG002 - the same for all
        """Never, but for a level that is nothing."""
        return np.where(np.full_like(boost, level) <= 0, 0.0, np.inf)


def change_rate(beliefs: Beliefs) -> Floats:
    """Δ = α + γ(1 − e^−κ)."""
    return np.asarray(beliefs.alpha - beliefs.gamma * np.expm1(-beliefs.kappa), dtype=np.float64)


def announced(beliefs: Beliefs) -> Bools:
    """Marks pages whose signals are so good that Kolobov et al.'s handling of complete observation is used."""
    change = change_rate(beliefs)
    precision, true = -np.expm1(-beliefs.kappa), change - beliefs.alpha
    return (precision > LIMITS.high_precision) & (true > LIMITS.high_recall * change)


def _in_turn(allocate: ByRates, *, random: bool = False) -> Plan:
    """A plan that looks at importance and change rate alone."""

    def allot(beliefs: Beliefs, bandwidth: float) -> tuple[Floats, Bools]:
        rates = allocate(beliefs.mu, change_rate(beliefs), bandwidth)
        return rates, np.zeros(rates.size, dtype=np.bool_)

    return Plan(allot, random)


def _upon_signals(allocate: Callable[[Floats, Floats, float, Bools], Floats]) -> Plan:
    """A plan that crawls pages with good signals upon these, and the others at random."""

    def allot(beliefs: Beliefs, bandwidth: float) -> tuple[Floats, Bools]:
        complete = announced(beliefs)
        return allocate(beliefs.mu, change_rate(beliefs), bandwidth, complete), complete

    return Plan(allot, random=True)


def _floored(mu: Floats, delta: Floats, bandwidth: float) -> Floats:
    return allocation.binary_lambdacrawl(mu, delta, bandwidth, LIMITS.floor)


_ALL = (
    Policy(DEFAULT, "the crawl value with signals that may be missing, false or both", GreedyNcis),
    Policy("greedy", "the crawl value without signals", GreedyBlind, hears=False),
    Policy("greedy-cis", "the crawl value where every signal is believed", GreedyCis),
    Policy("greedy-cis-plus", "good signals believed, all others ignored", GreedyCisPlus),
    Policy("greedy-ncis-1", "the first term of greedy-ncis", partial(GreedyApproximate, 1)),
    Policy("greedy-ncis-2", "the first two terms of greedy-ncis", partial(GreedyApproximate, 2)),
    Policy(
        "greedy-harmonic",
        "Kolobov et al.'s harmonic penalty, picked greedily: gives up no page",
        GreedyHarmonic,
        in_reads=False,
    ),
    Policy("greedy-age", "the age of the copies, picked greedily", GreedyAge, in_reads=False),
    Policy("lds", "Azar et al.'s rates by earliest deadline", plan=_in_turn(allocation.azar_continuous), hears=False),
    Policy(
        "freshness-optimal",
        "Cho & Garcia-Molina's optimal rates at even intervals",
        plan=_in_turn(allocation.freshness_optimal),
        hears=False,
    ),
    Policy("lambdacrawl", "Kolobov et al.'s optimum, harmonic penalty", plan=_upon_signals(allocation.lambdacrawl)),
    Policy(
        "lambdacrawl-approximate",
        "the same, at random in proportion to importance where nothing is announced",
        plan=_upon_signals(allocation.lambdacrawl_approximate),
    ),
    Policy(
        "binary-lambdacrawl",
        "Azar et al.'s rates at random, as Kolobov et al. 2019 compares with",
        plan=_in_turn(allocation.binary_lambdacrawl, random=True),
        hears=False,
    ),
    Policy(
        "binary-lambdacrawl-epsilon",
        "the same, no page below .4 of the even share",
        plan=_in_turn(_floored, random=True),
        hears=False,
    ),
    Policy("uniform", "round robin, whatever the page", plan=_in_turn(allocation.uniform), hears=False),
    Policy("proportional", "rates in proportion to change rates", plan=_in_turn(allocation.proportional), hears=False),
)

POLICIES = {policy.name: policy for policy in _ALL}
ON_DEMAND = Policy("on-demand", "first copies alone; all else when it is read", OnDemand, hears=False)
"""What readers ask for and nothing else: it keeps nothing fresh by itself, so that no comparison has it."""


def choose(name: str) -> Policy:
    """The policy of that name; an InputError that lists the names where there is none."""
    known = POLICIES | {ON_DEMAND.name: ON_DEMAND}
    if name not in known:
        raise InputError(f"there is no policy {name!r}; there are {', '.join(known)}")
    return known[name]


def build(
    name: str,
    *,
    bandwidth: float,
    gate: HostGate | None = None,
    intervals: Intervals | None = None,
    rng: np.random.Generator | None = None,
) -> Chooser:
    """An empty chooser that follows the policy of that name."""
    return choose(name).chooser(bandwidth=bandwidth, gate=gate, intervals=intervals, rng=rng)
