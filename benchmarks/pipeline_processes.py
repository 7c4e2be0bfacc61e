"""Speed of `crawld run --processes N`: visits a second and processor time a visit, as real commands on a real site.

Measured in turn: each number of processes on a PostgreSQL of crawld's own; 0 is one ordinary process on SQLite. Site,
processes and PostgreSQL share the machine's cores; the processor time of each is told apart, so that what more cores
would give follows from it. `first` is the first visits of all pages, `unchanged` what comes after.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.pipeline import site, urls

TICK = os.sysconf("SC_CLK_TCK")
WAIT_SECONDS = 80.0


def _processes() -> dict[int, tuple[int, str, float]]:
    """Every process of the machine: its parent, its name and its seconds of processor time, with ended children."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = place.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        fields = rest.split()
        found[int(place.parent.name)] = int(fields[1]), name, sum(map(int, fields[11:15])) / TICK
    return found


def cpu_below(root: int) -> dict[str, float]:
    """Seconds of processor time of a process and all below it: PostgreSQL's, and the others'."""
    every = _processes()
    spent = {"postgres_us": 0.0, "crawld_us": 0.0}
    for pid, (_, name, seconds) in every.items():
        above = pid
        while above != root and above in every:
            above = every[above][0]
        if above == root:
            spent["postgres_us" if name == "postgres" else "crawld_us"] += seconds
    return spent


def _answered(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/answered") as answer:
        return int(answer.read())


def _phase(root: int, port: int, seconds: float, enough: int | None = None) -> dict[str, float]:
    """One stretch of a run: so many seconds, or until so many visits."""
    before, cpu, start = _answered(port), cpu_below(root), time.monotonic()
    while time.monotonic() < start + seconds and (enough is None or _answered(port) < enough):
        time.sleep(0.1)
    visits, passed = _answered(port) - before, time.monotonic() - start
    spent = {name: 1e6 * (after - cpu[name]) / max(visits, 1) for name, after in cpu_below(root).items()}
    return {"visits_per_second": visits / passed, **spent, "cpu_us": sum(spent.values())}


def measure(processes: int, seconds: float, pages: int, hosts: int, size: int) -> dict[str, Any]:
    """One run: 0 is the ordinary daemon on SQLite, 1 a single worker on PostgreSQL."""
    with site(size, hosts) as port, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)  # for the user that PostgreSQL has where we are root
        (folder / "urls.txt").write_text("\n".join(urls(port, pages, hosts)))
        given: dict[str, Any] = {
            "urls": "urls.txt",
            "bandwidth": "20000/s",
            "processes": processes or 1,
            "allow_private": ["127.0.0.0/8"],
            "politeness": {"delay": 0, "per_host": 4},
            "min_interval": 0,
            "fetch": {"unconditional_share": 0},
            "signals": {"sitemaps": "off", "feeds": "off"},
            "log": {"level": "warning"},
            "api": {"listen": None},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(given))
        if processes == 1:  # the command runs an ordinary daemon for one; on a database that was taken over a worker
            _run_once(folder)
        words = [sys.executable, "-m", "crawld", "run", "--config", "config.yaml"]
        with subprocess.Popen(words, cwd=folder, env=os.environ | {"PYTHONPATH": str(Path.cwd())}) as command:
            _wait(lambda: _answered(port) > 0)
            first = _phase(command.pid, port, WAIT_SECONDS, pages)
            unchanged = _phase(command.pid, port, seconds)
            command.send_signal(signal.SIGTERM)
            assert command.wait() == 0
    return {"first": first, "unchanged": unchanged}


def _run_once(folder: Path) -> None:
    """Make a PostgreSQL of crawld's own in the folder, as a start with two processes does, without a request."""
    words = [sys.executable, "-m", "crawld", "run", "--config", "config.yaml", "--processes", "2", "--bandwidth", "0"]
    with subprocess.Popen(words, cwd=folder, env=os.environ | {"PYTHONPATH": str(Path.cwd())}) as command:
        _wait((folder / "crawld.db.sock").exists)
        command.send_signal(signal.SIGTERM)


def _wait(happened: Any) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not happened() and time.monotonic() < until:
        time.sleep(0.05)
    assert happened()


def figures_of(counts: Sequence[int], rounds: int, seconds: float, pages: int, hosts: int, size: int) -> dict[str, Any]:
    """The medians of the rounds, each of which measures all of them in turn."""
    names = {f"postgres_{count}" if count else "sqlite_1": count for count in counts}
    runs = {name: [measure(count, seconds, pages, hosts, size) for _ in range(rounds)] for name, count in names.items()}
    return {"pages": pages, "hosts": hosts, "size": size, "rounds": rounds} | {
        name: {
            phase: {key: statistics.median(run[phase][key] for run in found) for key in found[0][phase]}
            for phase in ("first", "unchanged")
        }
        for name, found in runs.items()
    }
