"""A soak against the misbehaving site: rate, memory and temper over time.

    python -m benchmarks.soak [--seconds 600] [--rate 100] [--pages 5000] [--hosts 200] [--json]

One page in ten misbehaves, by every name the site knows. Memory is the daemon's resident size, sampled each second, the
largest of each tenth of the run; the rate is judged by the log of the server, a process of its own. Where the machine
kept even that waiting, a request may have come any time since, and without our notice up to 4 ms before: what a second
surely held counts, and beside it what the log says as it is. Every failed crawl must have a named trouble.
"""

import asyncio
import sqlite3
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show
from benchmarks.soak_site import SiteProcess, site_process
from tests.support.behaviours import BEHAVIOURS
from tests.support.process import Running, daemon, settings

BEHAVED = ("ok", "cue", "poisson")
ENCODINGS = ("gzip", "br", "zstd", "deflate")
STATUSES = ("404", "410", "429", "500", "503")


async def run(seconds: float, rate: float, pages: int, hosts: int) -> dict[str, Any]:
    """Soak; the figures."""
    strange = sorted(set(BEHAVIOURS) - set(BEHAVED))
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        async with site_process(hosts, bombs=True) as far:
            site = far.site
            names = [strange[i // 10 % len(strange)] if i % 10 == 0 else BEHAVED[i % 3] for i in range(pages)]
            urls = [site.url(_path(name, i), host=1 + i % hosts) for i, name in enumerate(names)]
            file = settings(
                place,
                urls,
                bandwidth=f"{rate}/s",
                politeness={"delay": 0.2, "per_host": 2},
                min_interval=5,
                fetch={"timeout": 10, "first_byte_timeout": 5, "max_bytes": 2_000_000},
                log={"level": "info"},
            )
            async with daemon("--config", str(file), cwd=place) as running:
                await running.until_logged("ready", 60.0)
                memory = await _watch(running, seconds)
                status = await running.end()
        return _figures(far, place, running, memory, rate) | {"status": status, "seconds": seconds}


def _path(name: str, number: int) -> str:
    """Path of a behaviour; some have a parameter."""
    if name in {"bomb", "encoded", "bad_encoding", "cut_encoding", "empty_members"}:
        return f"/{name}/{ENCODINGS[number // 10 % (3 if name == 'bomb' else 4)]}/{number}"
    if name == "status":
        return f"/status/{STATUSES[number // 10 % len(STATUSES)]}/{number}"
    if name == "redirect":
        return f"/redirect/{number}?to=/ok/{number}"
    return f"/{name}/{number}"


async def _watch(running: Running, seconds: float) -> list[int]:
    """Resident kilobytes, once a second."""
    sizes, end = [], time.monotonic() + seconds
    while time.monotonic() < end and running.process.returncode is None:
        text = Path(f"/proc/{running.process.pid}/status").read_text()
        sizes.append(int(text.split("VmRSS:")[1].split()[0]))
        await asyncio.sleep(1.0)
    return sizes


def _most(times: Sequence[float], earliest: Sequence[float]) -> int:
    """The most requests that surely came within one second."""
    return max(bisect_right(times, start + 1.0) - bisect_left(earliest, start) for start in earliest)


def _figures(far: SiteProcess, place: Path, running: Running, memory: list[int], rate: float) -> dict[str, Any]:
    times = far.times
    tenth = max(1, len(memory) // 10)
    with sqlite3.connect(place / "x.db") as db:
        verdicts = dict(db.execute("SELECT verdict, count(*) FROM crawls GROUP BY verdict").fetchall())
        troubles = dict(
            db.execute("SELECT trouble, count(*) FROM crawls WHERE verdict = 'failed' GROUP BY trouble").fetchall()
        )
        whole = db.execute("PRAGMA integrity_check").fetchone()[0]
    return {
        "requests": len(times),
        "requests_per_second": len(times) / (times[-1] - times[0]),
        "most_in_one_second": _most(times, far.earliest()),
        "most_in_one_second_by_the_log_as_it_is": _most(times, times),
        "allowed_in_one_second": rate + 1,
        "longest_stall_of_the_server_seconds": max((end - start for start, end in far.stalls), default=0.0),
        "exceptions_logged": sum("Traceback" in line or "fault of crawld" in line for line in running.log),
        "memory_mb_by_tenths": [round(max(memory[i * tenth :][:tenth]) / 1024, 1) for i in range(10)],
        "verdicts": verdicts,
        "troubles": troubles,
        "failures_without_a_name": troubles.get(None, 0),
        "integrity": whole,
        "database_mb": (place / "x.db").stat().st_size / 2**20,
    }


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=200)
    arguments = parser.parse_args()
    show(asyncio.run(run(arguments.seconds, arguments.rate, arguments.pages, arguments.hosts)), as_json=arguments.json)


if __name__ == "__main__":
    main()
