"""Readers in the lab: they read copies of real daemons while the site lives, and the site knows which were current.

Three daemons crawl one site at the same rate. *Proactive* keeps its copies fresh and its readers take them at once,
*through* fetches a page only when it is read, in the order of reads, and *both* weighs each read against the crawl
values of other pages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawld.client import AnswerError, Client, NotKeptError, Pace
from crawld.research.contest import Contest, Entrant, Finish, Samples
from crawld.research.scenario import Scenario, Size, noisy_scenario
from crawld.research.site import LabSite

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReaderDemand:
    """Demand of readers: reads for each change of the site, their skew over pages, and waits."""

    reads_per_change: float = 1.0
    zipf: float = 0.0
    """The exponent of Zipf's law; 0: every page is read as often as any other."""
    wait_slots: float = 3.0
    """Time that readers wait, in slots of the daemon."""
    seed: int = 1

    def weights(self, pages: int) -> Floats:
        """Share of the reads that goes to each page; which page is read most is drawn by lot."""
        ranks = np.random.default_rng(self.seed).permutation(pages) + 1.0
        weights = ranks**-self.zipf
        return np.asarray(weights / weights.sum())


@dataclass(slots=True)
class ReadLog:
    """Reads of one daemon's copies: when, whether each was current, and how long the reader waited."""

    at: list[float] = field(default_factory=list)
    fresh: list[bool] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def report(self, since: float) -> dict[str, float | int | None]:
        """The figures from that moment on."""
        judged = np.array(self.at) >= since
        waits, fresh = np.array(self.waited)[judged], np.array(self.fresh)[judged]
        some = len(fresh) > 0
        return {
            "reads": len(fresh),
            "fresh_reads": float(fresh.mean()) if some else None,
            "error": float(np.sqrt(fresh.mean() * (1 - fresh.mean()) / len(fresh))) if some else None,
            "wait_mean_seconds": float(waits.mean()) if some else None,
            "wait_p95_seconds": float(np.quantile(waits, 0.95)) if some else None,
        }


@dataclass(frozen=True, slots=True)
class ReadFinish:
    """The end of a trial."""

    finish: Finish
    logs: Mapping[str, ReadLog]
    changes: int  # of the site while it was judged


def read_scenario(pages: int, seconds: float, changes_per_second: float, demand: ReaderDemand) -> Scenario:
    """Pages of one host whose rates differ as S-NCIS draws them, without signals, as important as they are read."""
    drawn = noisy_scenario(Size(pages, 1, seconds, changes_per_second, demand.seed))
    population = replace(drawn.world.population, mu=demand.weights(pages) * pages)
    return Scenario(replace(drawn.world, population=population), drawn.hosts, (False,))


class ReadTrial:
    """One run of three daemons with their readers."""

    def __init__(
        self,
        site: LabSite,
        entrants: Sequence[Entrant],
        sockets: Mapping[str, Path],
        demand: ReaderDemand,
        *,
        rate: float,
        seconds: float,
    ) -> None:
        self._site, self._entrants, self._sockets = site, entrants, sockets
        self._demand, self._seconds, self._wait = demand, seconds, demand.wait_slots / rate
        self._logs = {entrant.name: ReadLog() for entrant in entrants}

    async def run(self, show: Callable[[float, Samples], None]) -> ReadFinish | None:
        """Run it; None where it was stopped too early to compare anything."""
        readers = [asyncio.create_task(self._read(name)) for name in self._logs]
        try:
            finish = await Contest(self._site, self._entrants, self._seconds).run(show)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        if finish is None:
            return None
        changes = self._site.scenario.world.changes
        judged = int(((changes >= finish.judged_from) & (changes < finish.ended)).sum())
        return ReadFinish(finish, self._logs, judged)

    async def _read(self, name: str) -> None:
        """Read pages at random moments, the same ones for every daemon, until cancelled."""
        rng = np.random.default_rng(self._demand.seed)
        weights, world = self._demand.weights(self._site.scenario.pages), self._site.scenario.world
        rate = self._demand.reads_per_change * len(world.changes) / world.horizon
        reads: set[asyncio.Task[None]] = set()
        at = self._site.elapsed
        async with self._client(name) as client:
            try:
                while True:
                    at += rng.exponential(1.0 / rate)
                    page = int(rng.choice(len(weights), p=weights))
                    await asyncio.sleep(max(at - self._site.elapsed, 0.0))
                    reads.add(task := asyncio.create_task(self._one(client, name, page)))
                    task.add_done_callback(reads.discard)
            finally:
                for task in reads:
                    task.cancel()
                await asyncio.gather(*reads, return_exceptions=True)

    @asynccontextmanager
    async def _client(self, name: str) -> AsyncIterator[Client]:
        while not self._sockets[name].exists():  # noqa: ASYNC110 - a daemon makes its socket when it is ready
            await asyncio.sleep(0.05)
        async with Client(f"unix:{self._sockets[name]}", pace=Pace(connections=500)) as client:
            yield client

    async def _one(self, client: Client, name: str, page: int) -> None:
        log, began = self._logs[name], self._site.elapsed
        wait = 0.0 if name == "proactive" else self._wait
        try:
            copy = await client.copy(self._site.url(page), 1.0 if name == "through" else None, wait)
            fresh = self._site.is_current(page, copy.content)
        except NotKeptError:
            fresh = False  # the page has no copy yet
        except AnswerError:
            return  # the daemon is just starting or ending
        log.at.append(began)
        log.waited.append(self._site.elapsed - began)
        log.fresh.append(fresh)
