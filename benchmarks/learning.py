"""Results of learning: replayed histories, simulated worlds, calibration, audits, and pages fitted per second.

`python -m benchmarks.learning [--json] [--quick] [--only NAME]` prints each figure with its target; what it is at goes
to stderr. In simulated worlds freshness is the chance of each copy to be current under the true parameters, given the
signals since its crawl, weighted by importance and integrated over time (`replay_worlds.Simulated`).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks import argument_parser
from benchmarks.learning_figure import Figure, mean_and_error, progress
from benchmarks.learning_replays import mix_figures, replay_figures
from benchmarks.learning_store import pages_per_second
from crawld.pages.status import Audits
from tests.support.replay.learner import Learnt
from tests.support.replay.site import Floats, Ints, replay
from tests.support.replay.worlds import Knowing, Schooled, draw


@dataclass(frozen=True)
class LearningLimits:
    """Numbers of this benchmark."""

    visit: float = 5.0  # days between visits in the simulated worlds: m = 500 pages, R = 100 a day
    days: float = 120.0
    learnt: float = 100.0  # freshness is judged after 20 crawls per page
    judged: float = (
        0.02  # share of the crawls that a bin of predicted freshness must hold: smaller ones show their own noise
    )


LIMITS = LearningLimits()


def simulated(kind: str, pages: int, seed: int, *, signals: bool) -> tuple[float, float, Learnt]:
    """Freshness after 20 crawls a page: learnt, and with known parameters."""
    site, population = draw(kind, pages, LIMITS.days, seed)
    slots = int(pages / LIMITS.visit * LIMITS.days)
    learner = Learnt(site, population.mu, signals=signals, visit=LIMITS.visit)
    known = replay(site, Knowing(population, signals=signals), slots, population.mu, LIMITS.learnt)
    fresh = replay(site, learner, slots, population.mu, LIMITS.learnt)
    heard = "with" if signals else "without"
    progress(f"{kind} world {seed}, {heard} signals: learnt {fresh:.4f}, known {known:.4f}")
    return fresh, known, learner


def schooled(pages: int, seed: int) -> float:
    """Freshness in the world of Busa-Fekete et al. 2025 after every page was crawled 20 times in turn."""
    site, population = draw("ncis", pages, LIMITS.days, seed)
    learner = Learnt(site, population.mu, signals=True, visit=LIMITS.visit)
    slots = int(pages / LIMITS.visit * LIMITS.days)
    return replay(site, Schooled(learner, LIMITS.learnt), slots, population.mu, LIMITS.learnt)


def world_figures(*, quick: bool) -> Iterator[Figure]:
    """Busa-Fekete et al.'s world with and without signals: learnt against known parameters, predicted against seen."""
    pages = 150 if quick else 500
    for kind, repeats in (("ncis", 3 if quick else 10), ("poisson", 3 if quick else 12)):
        ratios, taught, predicted, fresh = [], [], [], []
        for seed in range(repeats):
            learnt, known, learner = simulated(kind, pages, seed, signals=kind == "ncis")
            ratios.append(learnt / known)
            if kind == "ncis":
                taught.append(schooled(pages, seed) / known)
            warm = len(learner.predicted) // 6  # after four crawls a page: before, it is the first guess that is judged
            predicted += learner.predicted[warm:]
            fresh += learner.found_fresh[warm:]
        name = {"ncis": "Busa-Fekete et al. 2025 world", "poisson": "Poisson world without signals"}[kind]
        days = f"days {LIMITS.learnt:.0f} to {LIMITS.days:.0f}"
        size = f"m = {pages}, R = {pages / LIMITS.visit:.0f}, {repeats} worlds, {days}"
        ratio, error = mean_and_error(ratios)
        detail = f"{size}; the learner's own crawls, 20 a page on average; s.e. {error:.4f}"
        yield Figure(f"learnt over known, {name}", "≥ 0.98", ratio, ratio >= 0.98, detail)
        if taught:
            ratio, error = mean_and_error(taught)
            detail = f"{size}; 20 crawls of every page in turn before; s.e. {error:.4f}"
            yield Figure("the same, each page crawled 20 times", "≥ 0.98", ratio, ratio >= 0.98, detail)
        yield calibration(name, np.concatenate(predicted), np.concatenate(fresh))


def calibration(world: str, believed: Floats, fresh: NDArray[np.bool_]) -> Figure:
    """The largest gap over tenths of predicted freshness, as the daemon's view has them; all gaps are told.

    Beside it the largest gap over ten bins of equally many crawls.
    """
    tenth = np.minimum((believed * 10).astype(int), 9)
    rank = believed.argsort().argsort() * 10 // len(believed)
    gaps, counts = _gaps(tenth, believed, fresh)
    least = LIMITS.judged * len(believed)
    largest = max(abs(gap) for k, gap in gaps.items() if counts[k] >= least)
    told = ", ".join(f".{k} {gap:+.3f} ({counts[k]})" for k, gap in gaps.items())
    even = max(map(abs, _gaps(rank, believed, fresh)[0].values()))
    judged = f"those of {least:.0f} crawls or more are judged; by tenths of the crawls {even:.3f}"
    detail = f"{len(believed)} crawls, gap (crawls) by tenth: {told}; {judged}"
    return Figure(f"calibration, largest gap, {world}", "≤ 0.02", largest, largest <= 0.02, detail)


def _gaps(of_bin: Ints, believed: Floats, fresh: NDArray[np.bool_]) -> tuple[dict[int, float], dict[int, int]]:
    """Predicted minus seen, and how many crawls, of each bin that has any."""
    bins = np.unique(of_bin).tolist()
    gaps = {k: float(believed[of_bin == k].mean() - fresh[of_bin == k].mean()) for k in bins}
    return gaps, {k: int((of_bin == k).sum()) for k in bins}


def signal_figures(*, quick: bool) -> Iterator[Figure]:
    """Sitemaps that lie cost nothing; those that are honest gain what they could."""
    pages, repeats = (100, 2) if quick else (200, 8)
    build = [
        simulated("build", pages, seed, signals=True)[0] - simulated("build", pages, seed, signals=False)[0]
        for seed in range(repeats)
    ]
    mean, error = mean_and_error(build)
    yield Figure(
        "build-time lastmod against ignoring it",
        "≥ 0 ± s.e.",
        mean,
        mean >= -error,
        f"paired, s.e. {error:.4f}, {repeats} worlds of {pages}",
    )
    gained = possible = 0.0
    for seed in range(repeats):
        heard, knew, _ = simulated("honest", pages, seed, signals=True)
        deaf, knew_deaf, _ = simulated("honest", pages, seed, signals=False)
        gained, possible = gained + heard - deaf, possible + knew - knew_deaf
    share = gained / possible
    yield Figure(
        "honest sitemaps: gain over oracle's gain",
        "≥ 0.9",
        share,
        share >= 0.9,
        f"gain {gained / repeats:.3f}, {repeats} worlds of {pages}",
    )


def audit_figures(*, quick: bool) -> Iterator[Figure]:
    """The audits' interval against the true share of fresh pages, drawn anew in each run."""
    rng, runs, inside = np.random.default_rng(1), 500 if quick else 4000, 0
    for _ in range(runs):
        importance, fresh = rng.uniform(size=500), rng.random(500) < rng.uniform(0.2, 0.95)
        truth = float(importance @ fresh / importance.sum())
        audits = Audits()
        for page in rng.choice(500, size=200, p=importance / importance.sum()):
            audits.record(fresh=bool(fresh[page]))
        measured = audits.measured()
        inside += measured is not None and measured[1] <= truth <= measured[2]
    yield Figure("audits: the 95 % interval holds the truth", "≥ 0.93", inside / runs, inside >= 0.93 * runs)


def throughput_figures(*, quick: bool) -> Iterator[Figure]:
    """The daemon's learner over a real SQLite file, estimates saved and taught."""
    rate, parts = pages_per_second(2_000 if quick else 10_000)
    yield Figure("pages re-estimated from SQL per second", "≥ 5000", rate, rate >= 5000, parts)


GROUPS: dict[str, Callable[..., Iterator[Figure]]] = {
    "throughput": throughput_figures,
    "audits": audit_figures,
    "signals": signal_figures,
    "world": world_figures,
    "replays": replay_figures,
    "mixes": mix_figures,
}


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages, budgets and repeats")
    parser.add_argument("--only", choices=GROUPS, action="append")
    options = parser.parse_args()
    figures = [figure for name in options.only or GROUPS for figure in GROUPS[name](quick=options.quick)]
    if options.json:
        print(json.dumps({"benchmark": "learning", "figures": [asdict(figure) for figure in figures]}, indent=2))
        return
    for figure in figures:
        mark = {True: "reached", False: "MISSED", None: ""}[figure.reached]
        print(f"{figure.name:58} {figure.target:>12} {figure.measured:10.4f}  {mark:8} {figure.detail}")


if __name__ == "__main__":
    main()
