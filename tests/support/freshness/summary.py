"""What the runs of `benchmarks.freshness` come to: crawld's lead over each contestant, paired world by world."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crawld.research.trial import standard_error
from tests.support.freshness.runs import BUDGETS, CRAWLD
from tests.support.freshness.worlds import HISTORY

TOLERATED = 0.002
"""A lead below minus this counts as a loss."""
OTHERS = ("age", "delay", "missed", "used")


@dataclass(frozen=True, slots=True)
class Result:
    """What one contestant reached in one world at one budget by one weighting."""

    part: str
    kind: str
    world: str
    budget: float
    contestant: str
    weights: str
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Loss:
    """Where crawld is behind by more than is tolerated."""

    where: str
    budget: float
    lead: float


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant over all worlds of a kind and all budgets, beside crawld in the same worlds."""

    part: str
    kind: str
    weights: str
    contestant: str
    worlds: int
    freshness: float
    crawld: float
    lead: float  # crawld's freshness minus the contestant's, mean over worlds and budgets
    stderr: float  # of the lead, over worlds
    above: bool  # whether crawld is above on average
    losses: Sequence[Loss]
    others: Mapping[str, float]  # age, delay, missed and used of the contestant
    crawlds: Mapping[str, float]  # the same of crawld
    by_budget: Mapping[str, float]  # the contestant's freshness


def summarise(results: Sequence[Result]) -> list[Row]:
    """A row for each kind of world, weighting and contestant, in the order of the results."""
    cells: dict[tuple[str, str, str], dict[str, dict[tuple[str, float], Mapping[str, float]]]] = {}
    for one in results:
        group = cells.setdefault((one.part, one.kind, one.weights), defaultdict(dict))
        group[one.contestant][one.world, one.budget] = one.measures
    return [
        _row(group, contestant, theirs, by_contestant[CRAWLD])
        for group, by_contestant in cells.items()
        for contestant, theirs in by_contestant.items()
    ]


def _row(
    group: tuple[str, str, str],
    contestant: str,
    theirs: Mapping[tuple[str, float], Mapping[str, float]],
    ours: Mapping[tuple[str, float], Mapping[str, float]],
) -> Row:
    leads = {cell: ours[cell]["freshness"] - theirs[cell]["freshness"] for cell in theirs}
    worlds = list(dict.fromkeys(world for world, _ in theirs))
    by_world = [float(np.mean([lead for (name, _), lead in leads.items() if name == world])) for world in worlds]
    lead = float(np.mean(by_world))
    return Row(
        part=group[0],
        kind=group[1],
        weights=group[2],
        contestant=contestant,
        worlds=len(worlds),
        freshness=_mean(theirs, "freshness"),
        crawld=_mean(ours, "freshness"),
        lead=lead,
        stderr=standard_error(by_world),
        above=lead > 0,
        losses=_losses(leads, each_world=group[1] == HISTORY),
        others={name: _mean(theirs, name) for name in OTHERS},
        crawlds={name: _mean(ours, name) for name in OTHERS},
        by_budget={
            f"{budget:g}": float(np.mean([one["freshness"] for (_, at), one in theirs.items() if at == budget]))
            for budget in BUDGETS
            if any(at == budget for _, at in theirs)
        },
    )


def _mean(cells: Mapping[tuple[str, float], Mapping[str, float]], name: str) -> float:
    """The mean over all cells that have the figure: where no change was seen there is no delay."""
    values = np.array([one[name] for one in cells.values()])
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _losses(leads: Mapping[tuple[str, float], float], *, each_world: bool) -> list[Loss]:
    """Cells that crawld loses, the worst first: each history is one of a kind, drawn worlds are taken together."""
    found: dict[tuple[str, float], list[float]] = defaultdict(list)
    for (world, budget), lead in leads.items():
        found[world if each_world else "all", budget].append(lead)
    losses = [Loss(where, budget, float(np.mean(each))) for (where, budget), each in found.items()]
    return sorted((one for one in losses if one.lead < -TOLERATED), key=lambda one: one.lead)


def verdict(row: Row) -> str:
    """Whether crawld is above on average, and where it is below."""
    if row.contestant == CRAWLD:
        return ""
    words = "above" if row.above else "level" if row.lead == 0 else "BELOW"
    if row.losses:
        worst = ", ".join(f"{one.where} at {one.budget:g} {one.lead:+.3f}" for one in row.losses[:3])
        words += f"; below by more than .002 in {len(row.losses)}: {worst}"
    return words


def finite(value: Any) -> Any:
    """The same with null for what is not a finite number, as JSON has it."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
