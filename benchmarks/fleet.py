"""A fleet of real workers through faults: nothing too fast, nothing twice, nothing lost but moments.

    python -m benchmarks.fleet [--json] [--workers 3] [--faults 100] [--rate 100] [--only PART]

Real `crawld fleet run` processes on a real PostgreSQL of the benchmark's own, each behind a wire that can be cut, crawl
a real site on loopback that is a process of its own and notes every request. The parts: `drills`, random faults (kill,
SIGSTOP, a wire cut or held up, PostgreSQL crashed, a wrong clock, a drain, a start with other settings) with webhooks
and a list, whose durations are drawn evenly on a log scale up to `--longest`;
`cost`, what a crawl at 200/s costs PostgreSQL; `takeover`, workers with many pages lost one after the other;
`restart`, PostgreSQL crashed alone; `writer`, how fast one worker's store commits (`benchmarks.writer`).

A moment when the machine kept even the site waiting is accounted for as in `benchmarks.soak`: what a window surely held
counts, and beside it what the log says as it is.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show, writer
from benchmarks.fleet_parts import Options, cost, drills, restart, takeover
from benchmarks.fleet_record import OPTIONS
from tests.support.postgres import Server, fresh_database, newest_binaries, started_server
from tests.support.process import free_port

Part = Callable[[Options, Server, str, Path], Coroutine[Any, Any, dict[str, Any]]]
PARTS: dict[str, Part] = {"drills": drills, "cost": cost, "takeover": takeover, "restart": restart}
ASKED = {
    "worst_window_excess": 0.0,
    "old_owner_requests": 0,
    "stale_commits": 0,
    "webhooks_out_of_order": 0,
    "webhooks_lost": 0,
    "webhooks_silence_beyond_the_fleets_seconds": 15.0,
    "pages_retired": 0,
    "worker_deaths": 0,
    "takeover_seconds_max": 15.0,
    "postgres_silence_seconds": 3.0,
    "server_us_per_crawl": 90,
    "writer_crawls_per_second": 10_000,
}
"""Target of each figure: the last at least, the others at most."""
WRITER = (
    "writer_crawls_per_second",
    "writer_ratio",
    "writer_loop_microseconds_per_crawl",
    "writer_server_microseconds_per_crawl",
    "writer_commit_p99_ms",
    "writer_paced_commit_p99_ms",
)


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    """Folder of the workers' settings and logs; removed afterwards unless they are to be kept."""
    if keep is not None:
        (keep / name).mkdir(parents=True)
        yield keep / name
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def run(options: Options, only: str | None, keep: Path | None = None) -> dict[str, Any]:
    """Every part, or one of them; the figures together."""
    binaries = newest_binaries()
    if binaries is None:
        raise SystemExit("no PostgreSQL server is installed here: apt install postgresql")
    figures: dict[str, Any] = {"workers": options.workers, "rate": options.rate, "faults": 0}
    for name, part in PARTS.items():
        if only in {None, name}:
            print(f"part: {name}", file=sys.stderr)
            with (
                _folder(keep, name) as place,
                started_server(binaries, *OPTIONS, port=free_port()) as server,
                fresh_database(server.url) as database,
            ):
                figures |= asyncio.run(part(options, server, database, place))
    if only in {None, "writer"}:
        print("part: writer", file=sys.stderr)
        found = writer.figures()
        figures |= {name: found[name] for name in WRITER}
    return figures


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second of the whole fleet")
    parser.add_argument("--pages", type=int, default=3000, help="pages of the drills")
    parser.add_argument("--pages-each", type=int, default=250_000, help="pages of a worker in the part `takeover`")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds of the longest fault")
    parser.add_argument("--gap", type=float, default=6.0, help="seconds between faults, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*PARTS, "writer"])
    parser.add_argument("--keep", type=Path, help="keep the logs of workers and site below this folder")
    given = vars(parser.parse_args())
    as_json, only, keep = (given.pop(name) for name in ("json", "only", "keep"))
    figures = run(Options(**given), only, keep and keep.absolute())
    if as_json:
        show(figures, as_json=True)
        return
    for name, value in figures.items():
        asked = f"   (asked: {ASKED[name]})" if name in ASKED else ""
        print(f"{name.replace('_', ' '):44} {value}{asked}")


if __name__ == "__main__":
    main()
