"""The pages that stand for all: drawn by importance and number, spread evenly over hosts and change rates."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crawld.choose.valuation import Beliefs, Floats


@dataclass(frozen=True)
class SampleLimits:
    """Numbers that bound and tune this module."""

    max_blind: int = 6_000
    max_drifting: int = 2_000
    max_jumping: int = 1_000
    """Pages drawn of each kind: a page whose signals count one by one costs a hundred times as much as one without."""
    max_groups: int = 1_000
    """Hosts whose politeness is looked at one by one."""
    weak: float = 0.15
    """κ below which signals are taken as a steady drift of their mean."""
    negligible: float = 1e-3
    """Share of α below which the drift that signals cause is left out."""


LIMITS = SampleLimits()


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLIND, DRIFTING, JUMPING = range(3)
"""What a page's signals are to its forecast."""


@dataclass(frozen=True, slots=True)
class Believed:
    """All pages as the scheduler holds them, as columns; of these only `rows` count, where they are given.

    The columns may be the scheduler's own: they are only read, and a value that moves meanwhile does no harm.
    """

    hosts: NDArray[np.integer]
    importance: Floats
    beliefs: Beliefs  # as crawl values take them: μ is importance per request
    gone: Bools  # known to be gone: the copy stays true until a signal says otherwise
    closed: Bools  # never fetched and told to wait: taken to stay out of reach
    rows: Ints | None = None

    def gathered(self) -> "Believed":
        """The rows that count, copied."""
        if self.rows is None:
            return self
        rows = self.rows
        return Believed(
            self.hosts[rows],
            self.importance[rows],
            self.beliefs.select(rows),
            self.gone[rows],
            self.closed[rows],
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """Pages drawn from all of them; each stands for `weight` pages of its group of hosts."""

    beliefs: Beliefs
    importance: Floats
    gone: Bools
    cost: Floats  # requests per visit
    weight: Floats
    group: Ints
    hosts: Ints  # by group: its host, -1 for the group of all hosts that are not looked at one by one
    pages: Floats  # by group: how many pages it has

    def part(self, which: NDArray[np.intp]) -> Beliefs:
        """The beliefs about some of the pages."""
        return self.beliefs.select(which)


def signal_kinds(beliefs: Beliefs) -> NDArray[np.int8]:
    """Tells whether signals do not count, count as a drift, or count one by one."""
    kappa, gamma = beliefs.kappa, beliefs.gamma
    with np.errstate(invalid="ignore"):
        counts = (gamma > 0) & (kappa > 0) & (gamma * np.minimum(kappa, 1.0) > LIMITS.negligible * beliefs.alpha)
    return np.where(counts, np.where(kappa < LIMITS.weak, DRIFTING, JUMPING), BLIND).astype(np.int8)


def draw_sample(believed: Believed, capacity: Floats, shortest: float) -> Sample:
    """Draw pages within reach; `capacity` is, by host, the requests per second that it allows (inf: any number)."""
    believed = replace(believed, rows=np.flatnonzero(~believed.closed)).gathered()
    count = np.bincount(believed.hosts, minlength=len(capacity)).astype(float)
    chosen = _bounded_hosts(count, capacity, shortest)
    group_of = np.zeros(len(capacity), dtype=np.int64)
    group_of[chosen] = np.arange(1, len(chosen) + 1)
    group = group_of[believed.hosts]
    kinds = signal_kinds(believed.beliefs)
    drawn = [
        _draw(believed, group, np.flatnonzero(kinds == kind), most)
        for kind, most in enumerate((LIMITS.max_blind, LIMITS.max_drifting, LIMITS.max_jumping))
    ]
    rows, weight = (np.concatenate([one[at] for one in drawn]) for at in (0, 1))
    rows = rows.astype(np.int64)
    importance, mu = believed.importance[rows], believed.beliefs.mu[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(mu > 0, importance / mu, 1.0)
    return Sample(
        beliefs=believed.beliefs.select(rows),
        importance=importance,
        gone=believed.gone[rows],
        cost=cost,
        weight=weight,
        group=group[rows],
        hosts=np.concatenate([[-1], chosen]),
        pages=np.bincount(group, minlength=len(chosen) + 1).astype(float),
    )


def _bounded_hosts(count: Floats, capacity: Floats, shortest: float) -> Ints:
    """The hosts whose pages could ask for more than is allowed, those with most pages for what is allowed first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tight = np.where(count > 0, count / capacity, 0.0)  # the seconds that one round of the host takes
    bounded = np.flatnonzero(tight > shortest)
    if len(bounded) > LIMITS.max_groups:
        bounded = bounded[np.argpartition(-tight[bounded], LIMITS.max_groups)[: LIMITS.max_groups]]
    return np.sort(bounded).astype(np.int64)


def _draw(believed: Believed, group: Ints, rows: NDArray[np.intp], most: int) -> tuple[NDArray[np.intp], Floats]:
    """Some of these rows and how many pages each stands for: systematic, by importance and number in equal parts."""
    if len(rows) <= most:
        return rows, np.ones(len(rows))
    mu, alpha = believed.beliefs.mu[rows], believed.beliefs.alpha[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.nan_to_num(mu / alpha, posinf=np.inf), kind="stable")
    rows = rows[order[np.argsort(group[rows][order], kind="stable")]]
    importance = believed.importance[rows]
    total = float(importance.sum())
    share = 0.5 / len(rows) + (0.5 * importance / total if total > 0 else 0.5 / len(rows))
    chance = np.minimum(most * share, 1.0)
    reached = np.floor(np.cumsum(chance) + 0.5)
    taken = np.flatnonzero(np.diff(reached, prepend=0.0) > 0)
    return rows[taken], 1.0 / chance[taken]
