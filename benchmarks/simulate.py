"""Speed of a simulation: one run of 1,000 pages × 100,000 slots with exact greedy-ncis.

Run as `python -m benchmarks.simulate [pages] [slots] [--json]`. The figure named `cpu` is the
same by processor time: what a machine shared with other work still tells truly.
"""

import time

from benchmarks import argument_parser, show
from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.experiments.ncis import LIMITS as NCIS_LIMITS
from crawld.research.experiments.ncis import NOISY, burn_in
from crawld.research.world import Population, draw_world, run_key


def main() -> None:
    """Draw a world, run through it, account for it, and say how long each took."""
    parser = argument_parser(__doc__)
    parser.add_argument("pages", type=int, nargs="?", default=1_000)
    parser.add_argument("slots", type=int, nargs="?", default=100_000)
    given = parser.parse_args()
    pages, slots = given.pages, given.slots
    key = run_key(1, 0)
    began = time.perf_counter()
    population = Population.draw(NOISY.draw, pages, key)
    world = draw_world(population, slots / NCIS_LIMITS.bandwidth, key)
    drawn, cpu_drawn = time.perf_counter(), time.process_time()
    run = simulate(world, scheduled("greedy-ncis", population, NCIS_LIMITS.bandwidth), NCIS_LIMITS.bandwidth)
    ran, cpu_ran = time.perf_counter(), time.process_time()
    accuracy = run.ledger().accuracy(burn_in(pages), world.horizon)
    accounted = time.perf_counter()
    report = {
        "pages": pages,
        "slots": run.slots,
        "signals": len(world.signal_times),
        "slots_per_second": round(run.slots / (ran - drawn)),
        "cpu_slots_per_second": round(run.slots / (cpu_ran - cpu_drawn)),
        "seconds": {
            "world": round(drawn - began, 2),
            "run": round(ran - drawn, 2),
            "accounts": round(accounted - ran, 2),
        },
        "accuracy": round(accuracy, 4),
    }
    show(report, as_json=given.json)


if __name__ == "__main__":
    main()
