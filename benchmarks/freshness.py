"""crawld beside every peer's rule and every policy: how fresh each keeps its copies, all within the same budget.

`python -m benchmarks.freshness [--json] [--plot FILE] [--full] [--data FOLDER] [--keep FILE]` lets everyone crawl the
same worlds, learning from their own crawls alone: worlds drawn as in Busa-Fekete et al. 2025, worlds that live as real
sites do, some with honest sitemaps, and recorded histories of real sites, each by itself and several together. Budgets
are .1, .3, 1 and 3 crawls per change. For each row it says whether crawld is above on average, and where it is below by
more than .002. With --keep an interrupted run goes on where it was. What it is at goes to stderr.
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import argument_parser
from benchmarks.freshness_docs import picture
from crawld.model.errors import InputError
from crawld.research.recorded import history_files
from tests.support.freshness.runs import (
    BUDGETS,
    CRAWLD,
    FULL,
    PEERS_PART,
    POLICIES_PART,
    SHORT,
    Job,
    Measures,
    jobs,
    measure,
)
from tests.support.freshness.summary import Result, Row, finite, summarise, verdict
from tests.support.freshness.worlds import HISTORY, SHARED

TOLD_EVERY = 15.0
"""Seconds between two lines of progress."""


def run(
    parts: Sequence[str], *, full: bool, processes: int, folder: Path | None = SHARED, kept: Path | None = None
) -> list[Result]:
    """Run every job, the longest first, and tell of the progress; results are kept in a file to go on from."""
    in_order = [(part, job) for part in parts for job in jobs(part, full=full, folder=folder)]
    before = _kept(kept)
    work = [one for one in in_order if _name(*one) not in before]
    work.sort(key=lambda one: one[1].cost, reverse=True)
    began, told, done = time.monotonic(), 0.0, 0.0
    total = sum(job.cost for _, job in work)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(measure, job): (part, job) for part, job in work}
        for number, future in enumerate(as_completed(running), start=1):
            part, job = running[future]
            before[_name(part, job)] = future.result()
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps([_name(part, job), future.result()]) + "\n")
            done += job.cost
            spent = time.monotonic() - began
            if spent >= told + TOLD_EVERY or number == len(work):
                told = spent
                share = f"about {done / total:.0%} of the work, {spent:.0f} s"
                print(f"  {number} of {len(work)} runs, {share}", file=sys.stderr, flush=True)
    return [
        Result(part, job.spec.kind, job.spec.name, job.budget, job.contestant, weights, measures)
        for part, job in in_order
        for weights, measures in before[_name(part, job)].items()
    ]


def _name(part: str, job: Job) -> str:
    """A job's name in the file of results: everything that it depends on but the code."""
    return f"{part}: {job}"


def _kept(file: Path | None) -> dict[str, dict[str, Measures]]:
    """Reads the results of an earlier run; its last line may have been cut off."""
    if file is None or not file.exists():
        return {}
    whole = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return dict(json.loads(line) for line in whole)


def settings(parts: Sequence[str], *, full: bool, folder: Path | None) -> dict[str, Any]:
    """Describes the run and the machine."""
    sizes = FULL if full else SHORT
    command = "python -m benchmarks.freshness" + (" --full" if full else "")
    return {
        "command": command + (f" --part {parts[0]}" if len(parts) == 1 else "") + " --json",
        "machine": f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}",
        "budgets": list(BUDGETS),
        "seeds": {part: list(range(sizes[part].worlds)) for part in parts},
        "sizes": {part: asdict(sizes[part]) for part in parts},
        "histories": [path.stem for path in history_files(folder)] if folder else [],
    }


def print_rows(rows: Sequence[Row]) -> None:
    """The rows as a table for people, a kind of world after another."""
    heading = None
    for row in rows:
        if (row.part, row.kind, row.weights) != heading:
            heading = row.part, row.kind, row.weights
            print(f"\n{row.part}: {row.kind}, {row.weights} weights, {row.worlds} worlds; {CRAWLD} {row.crawld:.4f}")
            print(f"  {'':26} {'fresh':>7} {'lead':>8} {'± s.e.':>7} {'age':>7} {'delay':>7} {'missed':>7} {'used':>5}")
        error = "–" if math.isnan(row.stderr) else f"{row.stderr:.4f}"
        other = row.others
        print(
            f"  {row.contestant:26} {row.freshness:7.4f} {row.lead:+8.4f} {error:>7} {other['age']:7.2f} "
            f"{other['delay']:7.2f} {other['missed']:7.3f} {other['used']:5.2f}  {verdict(row)}"
        )


def main() -> None:
    """Run, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the picture as SVG")
    parser.add_argument("--full", action="store_true", help="larger and more worlds; an hour of one core or more")
    parser.add_argument("--part", choices=(PEERS_PART, POLICIES_PART), help="one of the two comparisons alone")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the histories (.npz) are")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep results here, and go on from those it has")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    parts = [options.part] if options.part else [PEERS_PART, POLICIES_PART]
    folder = options.data or (SHARED if SHARED.is_dir() else None)
    if folder is None:
        print("no reference data beside the checkout: recorded histories are left out", file=sys.stderr)
    try:
        rows = summarise(run(parts, full=options.full, processes=options.processes, folder=folder, kept=options.keep))
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    figures = {"settings": settings(parts, full=options.full, folder=folder), "rows": [asdict(row) for row in rows]}
    if options.plot:
        kind = HISTORY if any(row.kind == HISTORY for row in rows) else rows[0].kind
        options.plot.write_text(picture([row for row in finite(figures["rows"]) if row["kind"] == kind]))
    if options.json:
        print(json.dumps({"benchmark": "freshness", **finite(figures)}, indent=1))
    else:
        print_rows(rows)


if __name__ == "__main__":
    main()
