"""What runs with and without signals come to: rows of means, and figures beside their targets."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from crawld.research.trial import standard_error

SHARED = Path(__file__).parents[3] / "shared" / "data"
STAGES = ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0))
"""Crawls per page so far between which gains are told apart."""
ROUND_SHARE = 0.05
"""Share of the pages crawled between two rounds of learning; the daemon learns more often still."""
EQUAL, ZIPF = "equal", "Zipf"
DOCS, SITES, HONEST_WEB, EVERY_WEB, PAPER = "docs", "sites", "weblike-honest", "weblike", "paper"
HONEST_NAME, EXACT_NAME, NAMED, HALVES, RECORDED = "honest .7/.7", "exact", "a random page a day", "half", "recorded"


@dataclass(frozen=True, slots=True)
class Cell:
    """One drawn world at one budget, and the signals that are tried in it."""

    group: str
    world: str
    budget: float
    draw: int
    signals: tuple[str, ...]
    weights: str = EQUAL
    folder: Path = SHARED
    round_share: float = ROUND_SHARE


@dataclass(frozen=True, slots=True)
class Reached:
    """The freshness of every contestant in one cell with one kind of signals, in all and by stage."""

    cell: Cell
    signals: str
    slots: int
    freshness: Mapping[str, float]
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """Mean freshness over the draws of a cell; `error` is the standard error of crawld minus deaf."""

    group: str
    world: str
    signals: str
    budget: float
    weights: str
    deaf: float
    crawld: float
    known: float
    round_robin: float
    slots: int
    draws: int
    error: float
    crawls_per_page: str | None = None
    policies: Mapping[str, float] | None = None

    @property
    def gain(self) -> float:
        """Of hearing over ignoring."""
        return self.crawld - self.deaf


def rows_of(found: Sequence[Reached]) -> list[Row]:
    """A row for each world, kind of signals, budget and weighting; histories have one more for each stage."""
    cells: dict[tuple[str, str, str, float, str], list[Reached]] = defaultdict(list)
    for one in found:
        cells[one.cell.group, one.cell.world, one.signals, one.cell.budget, one.cell.weights].append(one)
    rows = []
    for key, draws in cells.items():
        rows.append(_row(key, draws, lambda one: one.freshness))
        for low, high in STAGES:
            stage = f"{low:g}-{high:g}"
            reached = [one for one in draws if stage in one.stages.get("crawld", ())]
            if reached:
                rows.append(_row(key, reached, partial(_at_stage, stage), stage))
    return rows


def _at_stage(stage: str, one: Reached) -> Mapping[str, float]:
    return {name: by_stage[stage] for name, by_stage in one.stages.items() if stage in by_stage}


def _row(
    key: tuple[str, str, str, float, str],
    draws: Sequence[Reached],
    of: Callable[[Reached], Mapping[str, float]],
    stage: str | None = None,
) -> Row:
    group, world, signals, budget, weights = key
    freshness = [of(one) for one in draws]
    means = {name: float(np.mean([one[name] for one in freshness])) for name in freshness[0]}
    four = {name: means.pop(name) for name in ("deaf", "crawld", "known", "round_robin")}
    return Row(
        group=group,
        world=world if stage is None else f"{world}, crawls per page {stage}",
        signals=signals,
        budget=budget,
        weights=weights,
        **four,
        slots=int(np.mean([one.slots for one in draws])),
        draws=len(draws),
        error=standard_error([one["crawld"] - one["deaf"] for one in freshness]),
        crawls_per_page=stage,
        policies=means or None,
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure to reach, and what was measured."""

    figure: str
    value: float
    target: float
    reached: bool


def figures_of(rows: Sequence[Row]) -> Iterator[Figure]:
    """What the rows come to, beside the targets."""

    def some(group: str, signals: str | None = None, stage: str | None = None, **equal: object) -> list[Row]:
        return [
            row
            for row in rows
            if row.group == group
            and row.crawls_per_page == stage
            and signals in {None, row.signals}
            and all(getattr(row, name) == value for name, value in equal.items())
        ]

    def figure(name: str, values: Sequence[float], target: float, least: bool = False) -> Iterator[Figure]:
        if values:
            value = min(values) if least else float(np.mean(values))
            yield Figure(name, value, target, value >= target)

    honest = some(DOCS, HONEST_NAME)
    yield from figure("honest signals, gain over ignoring, b = 1 and 3", [row.gain for row in honest], 0.06)
    yield from figure("  share of what known λ, ν gain", _shares(honest), 0.75)
    for (low, high), target in zip(STAGES, (0.02, 0.05, 0.08), strict=True):
        stage = some(DOCS, HONEST_NAME, f"{low:g}-{high:g}")
        yield from figure(f"  at {low:g}-{high:g} crawls per page", [row.gain for row in stage], target)
    yield from figure("exact signals, b = 1, share of known", _shares(some(DOCS, EXACT_NAME)), 0.85)
    for budget, target in ((0.3, 0.05), (1.0, 0.14), (3.0, 0.05)):
        gains = [row.gain for row in some(HONEST_WEB, budget=budget)]
        yield from figure(f"weblike honest worlds at {budget:g}, gain", gains, target)
    for weights in (EQUAL, ZIPF):
        gains = [row.gain for row in some(SITES, weights=weights)]
        yield from figure(f"recorded sitemaps, {weights}, signals minus none", gains, -0.0005)
        by_site = [np.mean([r.gain for r in some(SITES, weights=weights, world=w)]) for w in _worlds(rows, SITES)]
        yield from figure(f"  worst site, {weights}", [float(one) for one in by_site], -0.002, least=True)
    for signals in (NAMED, HALVES):
        yield from figure(f"named signals: {signals}", [row.gain for row in some(DOCS, signals)], -0.001)
    for row in some(PAPER):
        others = row.policies or {}
        yield from figure(f"paper's worlds at {row.budget:g}: over greedy", [row.crawld - others["greedy"]], 0.03)
        name = max(others, key=others.__getitem__)
        yield from figure(f"  over the best other, {name}", [row.crawld - others[name]], 0.0)
    for row in some(EVERY_WEB):
        name = f"weblike worlds of every kind at {row.budget:g}, {row.weights}, over round robin"
        yield from figure(name, [row.crawld - row.round_robin], 0.0)


def _shares(rows: Sequence[Row]) -> list[float]:
    """One share: all that hearing gained, of all that known parameters would have gained over deaf learning."""
    possible = sum(row.known - row.deaf for row in rows)
    return [sum(row.gain for row in rows) / possible] if possible > 0 else []


def _worlds(rows: Sequence[Row], group: str) -> list[str]:
    return [*dict.fromkeys(row.world for row in rows if row.group == group)]
