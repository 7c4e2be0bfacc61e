"""How fast a simulation runs: one run of 1,000 pages × 100,000 slots with exact greedy-ncis.

Run as `python -m benchmarks.simulate [pages] [slots]`; prints one JSON object.
"""

import json
import sys
import time
from itertools import pairwise

from crawld.sim.crawler import scheduled
from crawld.sim.engine import simulate
from crawld.sim.experiments.ncis import BANDWIDTH, NOISY, burn_in
from crawld.sim.population import Population, run_key
from crawld.sim.world import draw_world


def main() -> None:
    """Draw a world, run through it, account for it, and say how long each took."""
    pages, slots = (int(argument) for argument in [*sys.argv[1:], *("1000", "100000")[len(sys.argv) - 1 :]])
    key = run_key(1, 0)
    marks = [time.perf_counter()]
    population = Population.draw(NOISY.draw, pages, key)
    world = draw_world(population, slots / BANDWIDTH, key)
    marks.append(time.perf_counter())
    run = simulate(world, scheduled("greedy-ncis", population, BANDWIDTH), BANDWIDTH)
    marks.append(time.perf_counter())
    accuracy = run.ledger().accuracy(burn_in(pages), world.horizon)
    marks.append(time.perf_counter())
    drawn, ran, accounted = (after - before for before, after in pairwise(marks))
    report = {
        "pages": pages,
        "slots": run.slots,
        "signals": len(world.signal_times),
        "slots_per_second": round(run.slots / ran),
        "seconds": {"world": round(drawn, 2), "run": round(ran, 2), "accounts": round(accounted, 2)},
        "accuracy": round(accuracy, 4),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
