"""What learning reaches: replayed histories, simulated worlds, calibration, audits, and pages fitted per second.

`python -m benchmarks.learning [--json] [--quick] [--only NAME]` prints each figure with its target.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_store import pages_per_second
from benchmarks.replay import SHARED, Floats, RoundRobin, Site, replay, sites, zipf
from benchmarks.replay_learner import Learnt
from benchmarks.replay_worlds import Knowing, draw
from crawld.daemon.audits import Audits

MOST_PAGES = 500  # of a replayed site, every k-th of more
BUDGETS = (0.1, 0.3, 1.0, 3.0)
VISIT = 5.0  # days between visits in the simulated worlds: m = 500 pages, R = 100 a day
DAYS, LEARNT = 120.0, 100.0  # freshness is judged after 20 crawls per page


@dataclass(frozen=True)
class Figure:
    """One row of the report."""

    name: str
    target: str
    measured: float
    reached: bool
    detail: str = ""


def thinned(site: Site, most: int) -> Site:
    """Every k-th page of a large site."""
    step = -(-site.pages // most)
    return site.only(np.arange(0, site.pages, step)) if step > 1 else site


def replays(weights: str, *, quick: bool) -> dict[str, float]:
    """By data set: freshness minus that of uniform round robin, mean over the budgets."""
    gains = {}
    for whole in sites():
        site = thinned(whole, 300 if quick else MOST_PAGES)
        importance = np.ones(site.pages) if weights == "equal" else zipf(site.pages)
        each = []
        for budget in BUDGETS[1:3] if quick else BUDGETS:
            slots = site.slots(budget)
            learnt = replay(site, Learnt(site, importance), slots, importance)
            each.append(learnt - replay(site, RoundRobin(), slots, importance))
        gains[site.name] = float(np.mean(each))
        print(f"  {weights:5} {site.name:14} {gains[site.name]:+.4f}", file=sys.stderr, flush=True)
    return gains


def replay_figures(*, quick: bool) -> Iterator[Figure]:
    """Real histories against uniform round robin."""
    if not SHARED.is_dir():
        print(f"no reference data in {SHARED}: replays left out", file=sys.stderr)
        return
    for weights in ("equal", "zipf"):
        gains = replays(weights, quick=quick)
        mean, worst = float(np.mean([*gains.values()])), min(gains, key=lambda name: gains[name])
        detail = f"at most {300 if quick else MOST_PAGES} pages each; " + ", ".join(
            f"{name} {gain:+.4f}" for name, gain in gains.items()
        )
        if weights == "equal":
            yield Figure("replays, equal weights, worst", "≥ −0.01", gains[worst], gains[worst] >= -0.01, worst)
            yield Figure("replays, equal weights, mean", "≥ −0.002", mean, mean >= -0.002, detail)
        else:
            yield Figure("replays, Zipf weights, mean", "≥ +0.11", mean, mean >= 0.11, detail)


def simulated(kind: str, pages: int, seed: int, *, signals: bool) -> tuple[float, float, Learnt]:
    """Freshness after 20 crawls a page: learnt, and with known parameters."""
    site, population = draw(kind, pages, DAYS, seed)
    slots = int(pages / VISIT * DAYS)
    learner = Learnt(site, population.mu, signals=signals, visit=VISIT)
    known = replay(site, Knowing(population, signals=signals), slots, population.mu, LEARNT)
    return replay(site, learner, slots, population.mu, LEARNT), known, learner


def world_figures(*, quick: bool) -> Iterator[Figure]:
    """The world of S-NCIS, with and without its signals: learnt against known parameters, predicted against seen."""
    pages, repeats = (150, 3) if quick else (500, 6)
    for kind in ("ncis", "poisson"):
        ratios, predicted, fresh = [], [], []
        for seed in range(repeats):
            learnt, known, learner = simulated(kind, pages, seed, signals=kind == "ncis")
            ratios.append(learnt / known)
            warm = len(learner.predicted) // 6  # after four crawls a page: before, it is the first guess that is judged
            predicted += learner.predicted[warm:]
            fresh += learner.found_fresh[warm:]
        ratio, error = float(np.mean(ratios)), float(np.std(ratios, ddof=1) / np.sqrt(repeats))
        name = {"ncis": "S-NCIS world", "poisson": "Poisson world without signals"}[kind]
        size = f"m = {pages}, R = {pages / VISIT:.0f}, {repeats} worlds, crawls 20 to 24 a page, s.e. {error:.4f}"
        yield Figure(f"learnt over known, {name}", "≥ 0.98", ratio, ratio >= 0.98, size)
        yield calibration(name, np.concatenate(predicted), np.concatenate(fresh))


def calibration(world: str, believed: Floats, fresh: NDArray[np.bool_]) -> Figure:
    """The largest gap of ten bins; those with less than 2 % of the crawls would show their own noise."""
    of_bin = np.minimum((believed * 10).astype(int), 9)
    gaps = {
        k: float(believed[of_bin == k].mean() - fresh[of_bin == k].mean())
        for k in range(10)
        if (of_bin == k).mean() >= 0.02
    }
    largest = max(map(abs, gaps.values()))
    detail = f"{len(believed)} crawls; " + ", ".join(f".{k}: {gap:+.3f}" for k, gap in gaps.items())
    return Figure(f"calibration, largest gap, {world}", "≤ 0.02", largest, largest <= 0.02, detail)


def signal_figures(*, quick: bool) -> Iterator[Figure]:
    """Sitemaps that lie cost nothing; those that are honest gain what they could."""
    pages, repeats = (100, 2) if quick else (200, 4)
    build = [
        simulated("build", pages, seed, signals=True)[0] - simulated("build", pages, seed, signals=False)[0]
        for seed in range(repeats)
    ]
    error = float(np.std(build, ddof=1) / np.sqrt(repeats))
    mean = float(np.mean(build))
    yield Figure(
        "build-time lastmod against ignoring it",
        "≥ 0 ± s.e.",
        mean,
        mean >= -error,
        f"s.e. {error:.4f}, {repeats} worlds of {pages}",
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
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer pages, budgets and repeats")
    parser.add_argument("--only", choices=GROUPS, action="append")
    options = parser.parse_args()
    figures = [figure for name in options.only or GROUPS for figure in GROUPS[name](quick=options.quick)]
    if options.json:
        print(json.dumps({"benchmark": "learning", "figures": [asdict(figure) for figure in figures]}, indent=2))
        return
    for figure in figures:
        mark = "reached" if figure.reached else "MISSED"
        print(f"{figure.name:48} {figure.target:>12} {figure.measured:10.4f}  {mark:8} {figure.detail}")


if __name__ == "__main__":
    main()
