"""Real workers of a fleet as real processes, each with a wire, a settings file and a name of its own."""

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.fleet_wire import Wire
from tests.support.fleet import WRONG_CLOCK
from tests.support.process import ENVIRONMENT, command

AGENT = "crawld-drill/1.0 (+https://{}.example)"
"""The user agent of a worker: the site knows by it who asked."""
ONLY_CRAWLS: dict[str, Any] = {
    "fetch": {"unconditional_share": 0},
    "audit": {"share": 0},
    "digest": [{"mode": "raw"}],
    "signals": {"sitemaps": [], "feeds": []},
}
"""No second looks, no audits and no polls: every request for a page is one crawl."""


def worker_of(agent: str) -> str:
    """The worker that a user agent names."""
    return agent.partition("https://")[2].partition(".")[0]


@dataclass(slots=True)
class Worker:
    """One worker: it can be killed, stopped, continued, cut off and started again."""

    name: str
    place: Path
    wire: Wire
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    config: str = "config.yaml"  # its settings; `other.yaml` lacks the hook and names an older list

    def set_clock(self, ahead: float) -> None:
        """Set the clock of its machine so many seconds ahead."""
        (self.place / "ahead").write_text(str(ahead))

    async def start(self) -> None:
        """Start its process; the log goes to a file beside its settings."""
        self.starts += 1
        with (self.place / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WRONG_CLOCK, str(self.place / "ahead")),
                *("fleet", "run", "--config", str(self.place / self.config), "--name", self.name),
                cwd=self.place,
                env=ENVIRONMENT | {"NOTIFY_SOCKET": str(self.place / "notify")},  # as a service manager starts it
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal, if it lives."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """End its process as a crash would."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            await self.process.wait()

    @property
    def status(self) -> int | None:
        """The exit status of its process."""
        return None if self.process is None else self.process.returncode

    @property
    def alive(self) -> bool:
        """Tells whether its process has not ended."""
        return self.process is not None and self.process.returncode is None

    @property
    def memory_mb(self) -> float:
        """Resident megabytes of its process, without those that read foreign bytes."""
        if self.process is None:
            return 0.0
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join((self.place / "log").read_text(errors="replace").splitlines()[-5:])


@dataclass(slots=True)
class Fleet:
    """The workers of one benchmark on one database."""

    place: Path
    database: str  # without a wire between: for commands
    shards: int
    rate: float
    workers: list[Worker]

    @classmethod
    async def build(
        cls,
        place: Path,
        database: str,
        urls: Sequence[str],
        rate: float,
        names: Sequence[str],
        hook: dict[str, object] | None = None,
    ) -> "Fleet":
        """Make the database a fleet with these pages as its list and write each worker's settings."""
        shards, of_it = 64, ("--database", database)
        (place / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
        (place / "older.txt").write_text("".join(f"{url}\n" for url in urls[: len(urls) * 2 // 3]))
        port = int(database.rpartition(":")[2].partition("/")[0])
        workers = []
        for name in names:
            wire = Wire(port)
            await wire.open()
            folder = place / name
            folder.mkdir()
            given: dict[str, Any] = {
                "database": database.replace(f":{port}/", f":{wire.port}/"),
                "user_agent": AGENT.format(name),
                "allow_private": ["127.0.0.0/8"],
                "politeness": {"delay": 0, "per_host": 100},
                "min_interval": 0.1,
                "api": {"listen": None},
            }
            of_all = {"urls": str(place / "urls.txt"), "hooks": [hook] if hook else []}
            (folder / "config.yaml").write_text(yaml.safe_dump(given | ONLY_CRAWLS | of_all))
            of_before = {"urls": str(place / "older.txt")}
            (folder / "other.yaml").write_text(yaml.safe_dump(given | ONLY_CRAWLS | of_before))
            workers.append(Worker(name, folder, wire))
            workers[-1].set_clock(0.0)
        first = ("--config", str(place / names[0] / "config.yaml"), *of_it)
        for words in (
            ("fleet", "init", *of_it, "--shards", str(shards), "--bandwidth", f"{rate:g}/s"),
            ("fleet", "apply", *first, "--yes"),
        ):
            done = await command(*words, cwd=place)
            if done.status:
                raise SystemExit(f"crawld {' '.join(words)}: {done.err}")
        return cls(place, database, shards, rate, workers)

    def check(self) -> None:
        """End the benchmark where a worker has ended."""
        for worker in self.workers:
            if not worker.alive:
                raise SystemExit(f"{worker.name} ended:\n{worker.last_words()}")

    async def stop(self) -> list[int]:
        """End every worker as an operator would; their exit statuses."""
        for worker in self.workers:
            worker.wire.mend()
            worker.signal(signal.SIGCONT)
            worker.signal(signal.SIGTERM)
        deadline = time.monotonic() + 60.0
        statuses = []
        for worker in self.workers:
            if worker.process is not None:
                try:
                    statuses.append(await asyncio.wait_for(worker.process.wait(), deadline - time.monotonic()))
                except TimeoutError:
                    await worker.kill()
                    statuses.append(-signal.SIGKILL)
            await worker.wire.close()
        return statuses
