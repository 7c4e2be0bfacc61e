"""Faults of a fleet, drawn at random or in order, done to real processes and undone again."""

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.fleet_workers import Fleet, Worker
from crawld.cli import TRY_AGAIN
from tests.support.fleet_log import CRASH, Fault
from tests.support.postgres import Server
from tests.support.process import command

ODDS = {"kill": 20, "stop": 20, "drop": 12, "stall": 12, CRASH: 10, "clock": 10, "drain": 8, "settings": 8}
"""Draws of each kind, of a hundred."""


@dataclass(frozen=True)
class FleetDrillsLimits:
    """Numbers of this benchmark."""

    shortest: float = 0.5  # seconds
    max_crash: float = 5.0  # seconds that PostgreSQL is away, at most, beside the time it takes to start
    restart_seconds: float = 2.0  # after which a worker that ended by itself is started again


LIMITS = FleetDrillsLimits()


class Drills:
    """Does faults to a fleet and keeps their moments."""

    def __init__(self, fleet: Fleet, server: Server, seed: int, longest: float) -> None:
        self.faults: list[Fault] = []
        self.ended_by_themselves: list[int | None] = []  # exit statuses
        self._fleet = fleet
        self._server = server
        self._rng = random.Random(seed)
        self._longest = longest
        self._busy: set[str] = set()

    async def keep_running(self) -> None:
        """Start a worker again that ended by itself, as a service manager does, until cancelled."""
        while True:
            await asyncio.sleep(LIMITS.restart_seconds)
            for worker in self._fleet.workers:
                if not worker.alive and worker.name not in self._busy:
                    self.ended_by_themselves.append(worker.status)
                    self._say(f"{worker.name} ended by itself with {worker.status} and is started again")
                    await worker.start()

    async def at_random(self, count: int, gap: float) -> None:
        """Draws faults, `gap` seconds apart on average; some overlap, but one worker is always left alone."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                while len(self._busy) >= len(self._fleet.workers) - 1:
                    await asyncio.sleep(0.05)
                kind = self._rng.choices(list(ODDS), list(ODDS.values()))[0]
                free = [worker for worker in self._fleet.workers if worker.name not in self._busy]
                worker = self._rng.choice(free)
                seconds = LIMITS.shortest * (self._longest / LIMITS.shortest) ** self._rng.random()
                name = "" if kind == CRASH else worker.name
                if name in self._busy:
                    continue
                self._busy.add(name)
                self._say(f"fault {number + 1}/{count}: {kind} {name} {seconds:.1f} s")
                group.create_task(self._do(kind, worker, seconds))
                await asyncio.sleep(self._rng.uniform(0.0, 2 * gap))

    async def one(self, kind: str, worker: Worker, seconds: float) -> Fault:
        """One fault from its begin to its end."""
        self._busy.add("" if kind == CRASH else worker.name)
        self._say(f"{kind} {worker.name if kind != CRASH else 'PostgreSQL'} for {seconds:.1f} s")
        await self._do(kind, worker, seconds)
        return self.faults[-1]

    @property
    def deaths(self) -> int:
        """Workers that ended by themselves, without those that could not start because the database was away."""
        return sum(status != TRY_AGAIN for status in self.ended_by_themselves)

    def counts(self) -> dict[str, int]:
        """Number of faults of each kind."""
        return dict(Counter(fault.kind for fault in self.faults))

    async def _do(self, kind: str, worker: Worker, seconds: float) -> None:
        began = time.monotonic()
        if kind == CRASH:
            await asyncio.to_thread(self._server.crash)
            began = time.monotonic()
            await asyncio.sleep(min(seconds, LIMITS.max_crash))
            await asyncio.to_thread(self._server.start)
        elif kind == "kill":
            worker.signal(signal.SIGKILL)
            began = time.monotonic()
            await worker.kill()
            await asyncio.sleep(seconds)
            await worker.start()
        elif kind == "clock":
            worker.set_clock(self._rng.choice((-3600.0, -30.0, 30.0, 3600.0)))
            await asyncio.sleep(seconds)
            worker.set_clock(0.0)
        elif kind == "drain":
            await self._drain(worker)
            await asyncio.sleep(seconds)
            await self._drain(worker, "--undo")
        elif kind == "settings":  # started again with an older list and without the hook
            await worker.kill()
            worker.config = "other.yaml"
            await worker.start()
            await asyncio.sleep(seconds)
            await worker.kill()
            worker.config = "config.yaml"
            await worker.start()
        elif kind == "stop":
            worker.signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            worker.signal(signal.SIGCONT)
        else:
            worker.wire.drop() if kind == "drop" else worker.wire.stall()
            await asyncio.sleep(seconds)
            worker.wire.mend(late=self._rng.random() < 0.5)
        name = "" if kind == CRASH else worker.name
        self.faults.append(Fault(kind, name, began, time.monotonic()))
        self._busy.discard(name)

    async def _drain(self, worker: Worker, *words: str) -> None:
        """Have a worker give everything away; one that is not there, or PostgreSQL away, is left alone."""
        place = self._fleet.place
        await command("fleet", "drain", worker.name, *words, "--database", self._fleet.database, cwd=place)

    def _say(self, line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
