"""Kolobov et al. 2019 section 7 and its Fig. 3: how soon a policy that knows nothing has learnt what it needs.

As in the paper there is a copy of every page at the start, rates are guessed to be one change a day, and what has been
learnt by some moment is judged by the policy it makes, run unchanged under the true rates. So catching up with old
copies is not mistaken for learning, nor luck for knowledge. Each learner is measured by what it optimises: LambdaCrawl
by the harmonic cost, the others by freshness; and always beside the same policy with the truth about what it learns.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from crawld.learn.observations import Prior
from crawld.model.units import DAY
from crawld.research.crawler import Learning, LearningCrawler, Learnt, SmoothedFit, convinced
from crawld.research.engine import simulate
from crawld.research.experiments.ncis import shaped_page
from crawld.research.experiments.papers import LIMITS as PAPERS_LIMITS
from crawld.research.experiments.papers import paper_costs, paper_rates
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import Population, World, draw_world, run_key


@dataclass(frozen=True)
class LearningLimits:
    """Numbers that bound and tune this module."""

    epoch: float = 1.0
    """Kolobov et al.'s learner re-solves once a day; crawld's learns all the time."""
    steady: float = 5.0
    settled: float = 10.0
    judged: float = 30.0
    first_guess: float = 1.0
    marks: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
    """The days at which knowledge is judged."""


LIMITS = LearningLimits()


PRIOR = Prior(1.0, DAY / LIMITS.first_guess, 1.0, 1.0)
"""Vague. In the daemon a signal starts as worth next to nothing, for most real ones are; in the papers' worlds not."""
PAPERS = {
    policy: Learning(partial(SmoothedFit, LIMITS.first_guess), LIMITS.epoch, (LIMITS.first_guess, np.inf))
    for policy in ("lambdacrawl", "lambdacrawl-approximate", "binary-lambdacrawl-epsilon")
}
"""Learning modes of the policies of Kolobov et al. 2019."""


class Witness(OnlineCrawler):
    """crawld as it learns, with what it believed at each mark."""

    def __init__(self, world: World, bandwidth: float) -> None:
        super().__init__("greedy-ncis", world, bandwidth, OnlineLearning(PRIOR, round_share=0.05))
        self._known = [self.beliefs()]

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Learn, and write down what is believed where a mark has passed."""
        super().settle(page, now, changed)
        while len(self._known) < len(LIMITS.marks) and now >= LIMITS.marks[len(self._known)]:
            self._known.append(self.beliefs())

    def known_at(self, day: float) -> Learnt:
        """Beliefs at a mark."""
        return self._known[min(LIMITS.marks.index(day), len(self._known) - 1)]


def learner_of(policy: str, world: World, bandwidth: float) -> Witness | LearningCrawler:
    """A crawler that learns by that policy, from a copy of every page."""
    if policy == "greedy-ncis":
        return Witness(world, bandwidth)
    return LearningCrawler(policy, world.population.mu, bandwidth, PAPERS[policy], copies=True)


def judge(policy: str, truth: Population, world: World, believed: Learnt) -> tuple[float, float]:
    """The freshness and the harmonic cost of a policy that believes that and learns no more.

    LambdaCrawl's kin by the paper's formulas, as in the paper; greedy policies, for which there are none, in a world of
    their own.
    """
    bandwidth = PAPERS_LIMITS.lambda_visited * truth.pages
    nothing = np.zeros(truth.pages)
    rates = paper_rates(policy, Population(truth.mu, believed.alpha, nothing, nothing), bandwidth)
    if rates is not None:
        harmonic, binary = paper_costs(rates, truth, nothing > 0)
        return 1.0 - binary, harmonic
    ledger = simulate(world, convinced(policy, truth.mu, believed, bandwidth), bandwidth).ledger()
    return ledger.accuracy(LIMITS.settled, world.horizon), ledger.harmonic(LIMITS.settled, world.horizon)


def measure_learning(trial: Trial) -> Measures:
    """Measures what a policy has learnt by each mark, as its share of the freshness with true parameters."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(shaped_page, trial.pages, key)
    policy, bandwidth = trial.contestant, PAPERS_LIMITS.lambda_visited * trial.pages
    world = draw_world(population, LIMITS.marks[-1] + 0.5, key)
    learner = learner_of(policy, world, bandwidth)
    ledger = simulate(world, learner, bandwidth).ledger()
    # The oracle knows the truth about what its policy learns: Kolobov et al.'s learns no signals.
    truth = population if policy == "greedy-ncis" else population.without_signals()
    apart = draw_world(population, LIMITS.settled + LIMITS.judged, run_key(trial.seed, trial.repeat + 1_000_000))
    oracle = judge(policy, truth, apart, Learnt.truth(truth))
    judged = [judge(policy, truth, apart, learner.known_at(mark)) for mark in LIMITS.marks]
    by_freshness = [accuracy / oracle[0] for accuracy, _ in judged]
    by_cost = [oracle[1] / harmonic for _, harmonic in judged]
    shares = by_cost if policy.startswith("lambdacrawl") else by_freshness
    return {
        "accuracy": ledger.accuracy(LIMITS.steady, world.horizon),
        "oracle": oracle[0],
        "freshness_share_at_0": by_freshness[0],
        "freshness_share_at_end": by_freshness[-1],
        **{f"share@{mark:g}": share for mark, share in zip(LIMITS.marks, shares, strict=True)},
    }


def days_to_95(means: Measures) -> Measures:
    """The day from which on the mean share of all repeats is 95 % or more, between marks in proportion."""
    series = np.array([value for name, value in means.items() if name.startswith("share@")])
    below = np.flatnonzero(series < 0.95)
    if not len(below):
        return {"days_to_95": 0.0}
    last = int(below[-1])
    if last + 1 == len(series):
        return {"days_to_95": float("inf")}
    part = (0.95 - series[last]) / (series[last + 1] - series[last])
    return {"days_to_95": float(LIMITS.marks[last] + part * (LIMITS.marks[last + 1] - LIMITS.marks[last]))}


EXPERIMENTS = (
    Experiment(
        name="learning",
        shows="Kolobov et al. Fig. 3: days until a policy that knows nothing has learnt 95 % of its oracle's worth",
        pages=(100,),
        repeats=5,
        contestants=("greedy-ncis", *PAPERS),
        measure=measure_learning,
        summarise=days_to_95,
        pairs=tuple(("greedy-ncis", other) for other in PAPERS),
        settings={
            "bandwidth": "0.2 * pages a day", "days": LIMITS.marks[-1], "burn_in": LIMITS.steady,
            "epoch": "1 day, greedy-ncis a twentieth of all pages",
            "first_guess": "1 change a day; greedy-ncis: alpha ~ Gamma(1, 1), kappa ~ Gamma(1, 1)",
            "start": "a copy of every page, nothing known", "population": "as in corrupted-signals",
            "oracle": "accuracy of the policy with true parameters",
            "share": "of the oracle's worth, by the policy that knows what was learnt by then and learns no more: by "
            "freshness, lambdacrawl and lambdacrawl-approximate by the harmonic cost, which is what they optimise",
            "freshness_share": "the same by freshness for everybody",
            "days_to_95": "from then on the mean share of all repeats is 95 % or more",
        },
    ),
)  # fmt: skip
