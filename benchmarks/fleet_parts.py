"""The parts of `python -m benchmarks.fleet`: each runs a fleet, does something to it and says what came of it."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.fleet_drills import Drills
from benchmarks.fleet_record import COMMITTED, STATEMENTS, bytes_each, prepare, read, spent, until_settled
from benchmarks.fleet_workers import Fleet, worker_of
from benchmarks.soak_site import SiteProcess, site_process
from crawld.model.shards import shard_of_host
from tests.support import fleet_figures as figures
from tests.support.fleet_log import CRASH, LOST_PROCESSES, Asked, Fault, Owners, Recorded
from tests.support.postgres import Server
from tests.support.process import command
from tests.support.receiver import Receiver, hook


@dataclass(frozen=True)
class FleetPartsLimits:
    """Numbers of this benchmark."""

    hosts: int = 150
    imported: int = 6000  # pages that are imported, at most; more are copies of them under other URLs
    settle: float = 20.0  # seconds after the last fault in which everything is to be as before
    lost_seconds: float = 0.3  # of the rate: what a kill may cost
    crashes: int = 4
    cost_rate: float = 200.0
    cost_seconds: float = 20.0
    cost_pages: int = 1200  # of the part `cost`
    stop_seconds: float = 20.0  # of a worker that is stopped or cut off in the part `takeover`


LIMITS = FleetPartsLimits()


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line."""

    workers: int = 3
    faults: int = 100
    rate: float = 100.0
    pages: int = 3000
    pages_each: int = 250_000
    longest: float = 60.0
    gap: float = 6.0
    seed: int = 1


@dataclass(slots=True)
class Run:
    """A fleet under way; afterwards what it left behind."""

    fleet: Fleet
    drills: Drills
    site: SiteProcess
    asked: list[Asked] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    owners: Owners = field(default_factory=Owners)
    statuses: list[int] = field(default_factory=list)

    @property
    def faults(self) -> list[Fault]:
        """The faults in the order of their begin."""
        return sorted(self.drills.faults, key=lambda fault: fault.began)


@asynccontextmanager
async def running(
    options: Options, pages: int, server: Server, database: str, place: Path, hook: dict[str, object] | None = None
) -> AsyncIterator[Run]:
    """A settled fleet while the block runs; then its workers end and its logs are read."""
    async with site_process(LIMITS.hosts) as site:
        names = [f"w{number + 1}" for number in range(options.workers)]
        copies = (pages - 1) // LIMITS.imported
        urls = [
            site.site.url(f"/poisson/{i}?rate=0.02", host=1 + i % LIMITS.hosts) for i in range(pages // (copies + 1))
        ]
        pages = len(urls) * (copies + 1)
        fleet = await Fleet.build(place, database, urls, options.rate, names, hook)
        await prepare(database, copies)
        run = Run(fleet, Drills(fleet, server, options.seed, options.longest), site)
        try:
            for worker in fleet.workers:
                await worker.start()
            print(f"waiting until {len(names)} workers hold {pages} pages", file=sys.stderr)
            await until_settled(database, names, fleet.shards, pages, fleet.check)
            await asyncio.sleep(LIMITS.settle / 2)
            keeper = asyncio.create_task(run.drills.keep_running())
            yield run
            await asyncio.sleep(LIMITS.settle)
            keeper.cancel()
        finally:
            run.statuses = await fleet.stop()
        history, run.recorded = await read(database)
        run.owners = Owners.of(history)
        (place / "faults.json").write_text(json.dumps([asdict(fault) for fault in run.faults]))
        (place / "owners.json").write_text(json.dumps([asdict(one) for one in history]))
    run.asked = [
        Asked(at, f"http://{url}", shard_of_host(url.partition("/")[0], fleet.shards), worker_of(agent))
        for at, url, agent in site.asked
        if "/poisson/" in url
    ]
    (place / "asked.json").write_text(json.dumps([asdict(one) for one in run.asked]))


async def drills(options: Options, server: Server, database: str, place: Path) -> dict[str, Any]:
    """Random faults; every figure that they allow."""
    async with (
        HookLog() as ear,
        running(options, options.pages, server, database, place, hook(ear, queue=100_000)) as run,
    ):
        began = time.monotonic()
        await run.drills.at_random(options.faults, options.gap)
        ended = time.monotonic()
    found = _safety(run, options) | await _webhooks(ear, run, database, began, ended)
    pairs, without = figures.match(run.asked, run.recorded)
    losses = figures.losses_by_kill(without, run.faults)
    taken = figures.takeovers(run.faults, run.owners, run.asked)
    return found | {
        "faults": len(run.faults),
        "faults_by_kind": run.drills.counts(),
        "crawls_recorded": len(pairs),
        "requests_without_a_record": len(without),
        "lost_records_per_kill": round(sum(loss.records for loss in losses) / max(1, len(losses)), 2),
        "lost_records_per_kill_max": max((loss.records for loss in losses), default=0),
        "lost_records_allowed": round(LIMITS.lost_seconds * options.rate, 1),
        "oldest_lost_seconds_max": round(max((loss.seconds for loss in losses if loss.alone), default=0.0), 3),
        "drill_takeover_seconds_max": round(max(taken, default=0.0), 1),
        "drill_takeovers": len(taken),
    }


class HookLog(Receiver):
    """A receiver of webhooks that notes when each came."""

    def __init__(self) -> None:
        super().__init__(self._note)
        self.times: list[float] = []

    def _note(self) -> int:
        self.times.append(time.monotonic())
        return 204


async def _webhooks(ear: HookLog, run: Run, database: str, began: float, ended: float) -> dict[str, Any]:
    """Compares the deliveries that the hook's receiver saw with the changes."""
    numbers, newest = Counter(one["id"] for one in ear.taken), dict[int, int]()
    out_of_order = 0
    for one in ear.taken:
        out_of_order += one["id"] < newest.get(one["page_id"], 0)
        newest[one["page_id"]] = max(one["id"], newest.get(one["page_id"], 0))
    connection = await asyncpg.connect(database)
    try:
        asked_to = await connection.fetchval("SELECT max(cursor) FROM hooks")
        first = min(numbers, default=0)  # a hook is told from the moment on in which it is first opened
        committed = dict(await connection.fetch(COMMITTED, first, asked_to))
        waiting = {row[0] for row in await connection.fetch("SELECT change FROM deliveries")}
        retired = await connection.fetchval("SELECT count(*) FROM pages WHERE state = 'retired'")
    finally:
        await connection.close()
    times = [began, *(at for at in ear.times if began <= at <= ended), ended]
    asked = [began, *(at for at in run.site.times if began <= at <= ended), ended]
    silence, unasked = (max(after - before for before, after in pairwise(some)) for some in (times, asked))
    ahead, told = time.time() - time.monotonic(), dict[int, float]()
    for one, at in zip(ear.taken, ear.times, strict=True):
        told.setdefault(one["id"], at)
    moments = {number: at - ahead for number, at in committed.items()}
    own_silence = figures.hook_silence(moments, told, asked[1:-1], began, ended)
    return {
        "webhooks": len(ear.taken),
        "webhooks_twice": sum(numbers.values()) - len(numbers),
        "webhooks_twice_per_fault": round((sum(numbers.values()) - len(numbers)) / max(1, len(run.faults)), 2),
        "webhooks_out_of_order": out_of_order,
        "webhooks_lost": len(committed.keys() - numbers.keys() - waiting),
        "webhooks_silence_beyond_the_fleets_seconds": round(own_silence, 1),
        "webhooks_longest_silence_seconds": round(silence, 1),
        "longest_silence_of_the_fleet_seconds": round(unasked, 1),  # without a request there is no change to tell of
        "pages_retired": retired,
        "worker_deaths": run.drills.deaths,
    }


async def takeover(options: Options, server: Server, database: str, place: Path) -> dict[str, Any]:
    """One worker after the other is lost, each in another way, with many pages."""
    pages = options.pages_each * options.workers
    async with running(options, pages, server, database, place) as run:
        names = [worker.name for worker in run.fleet.workers]
        memory = max(worker.memory_mb for worker in run.fleet.workers)
        for number, kind in enumerate(LOST_PROCESSES):
            await run.drills.one(kind, run.fleet.workers[number % options.workers], LIMITS.stop_seconds)
            await until_settled(database, names, run.fleet.shards, 0)
            await asyncio.sleep(LIMITS.settle)
        sizes = await bytes_each(database)
    taken = figures.takeovers(run.faults, run.owners, run.asked)
    largest = {f"takeover_{name}": value for name, value in _safety(run, options).items()}
    return largest | {
        "takeover_pages_each": options.pages_each,
        "takeover_worker_memory_mb": round(memory),
        **{f"takeover_database_{name}": size for name, size in sizes.items()},
        "takeover_seconds": [round(seconds, 1) for seconds in taken],
        "takeover_seconds_max": round(max(taken, default=0.0), 1),
    }


async def restart(options: Options, server: Server, database: str, place: Path) -> dict[str, Any]:
    """PostgreSQL alone crashes and comes back, several times."""
    async with running(options, options.pages, server, database, place) as run:
        for downtime in [0.0, 1.0, 3.0, 6.0][: LIMITS.crashes]:
            await run.drills.one(CRASH, run.fleet.workers[0], downtime)
            await asyncio.sleep(LIMITS.settle)
    silent = figures.silences(run.faults, run.site.times)
    reloads = sum(run.owners.claims(fault.began, fault.ended + LIMITS.settle) for fault in run.faults)
    return {
        "postgres_silence_seconds": round(max(silent), 2),
        "postgres_silences": [round(seconds, 2) for seconds in silent],
        "postgres_downtimes": [round(fault.ended - fault.began, 2) for fault in run.faults],
        "postgres_shards_reloaded": reloads,
    }


async def cost(options: Options, server: Server, database: str, place: Path) -> dict[str, Any]:
    """Processor time of the server for a crawl, of all of its processes, beats and reads included; and while paused."""
    async with running(replace(options, rate=LIMITS.cost_rate), LIMITS.cost_pages, server, database, place) as run:
        connection = await asyncpg.connect(database)
        try:
            while await connection.fetchval("SELECT count(*) FROM versions") < LIMITS.cost_pages:
                await asyncio.sleep(1.0)  # the first crawl of a page costs more than those that follow
            await asyncio.sleep(LIMITS.settle)
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            await connection.execute("SELECT pg_stat_statements_reset()")
            before = await spent(connection)
            await asyncio.sleep(LIMITS.cost_seconds)
            after = await spent(connection)
            statements = await connection.fetch(STATEMENTS)
            idle = await _idle(run, connection)
        finally:
            await connection.close()
    crawls = max(1, after.crawls - before.crawls)
    (place / "statements.json").write_text(json.dumps([dict(one) for one in statements], indent=1))
    took = {name: 1e6 * (after.processor[name] - before.processor.get(name, 0.0)) / crawls for name in after.processor}
    return {
        "server_us_per_crawl": round(sum(took.values()), 1),
        "server_us_per_crawl_by_connection": {name: round(took[name], 1) for name in sorted(took)},
        "server_statements_us_per_crawl": round(1e3 * sum(one["milliseconds"] for one in statements) / crawls, 1),
        "server_statements_per_crawl": round(sum(one["calls"] for one in statements) / crawls, 2),
        "server_commits_per_crawl": round((after.commits - before.commits) / crawls, 3),
        "server_crawls_per_second": round(crawls / LIMITS.cost_seconds, 1),
        "server_us_per_second_of_an_idle_worker": round(idle / options.workers),
    }


async def _idle(run: Run, connection: asyncpg.Connection) -> float:
    """Microseconds of the server in each second of a paused fleet."""
    worker = run.fleet.workers[0]
    done = await command("pause", "--config", str(worker.place / worker.config), cwd=worker.place)
    if done.status:
        raise SystemExit(f"crawld pause: {done.err}")
    await asyncio.sleep(LIMITS.settle / 2)  # until the last crawls are learnt
    before = await spent(connection)
    await asyncio.sleep(LIMITS.cost_seconds / 2)
    after = await spent(connection)
    took = sum(after.processor.values()) - sum(before.processor.get(name, 0.0) for name in after.processor)
    return 1e6 * took / (LIMITS.cost_seconds / 2)


def _safety(run: Run, options: Options) -> dict[str, Any]:
    """Figures that must hold in every drill."""
    times = run.site.times
    first = run.faults[0].began
    calm = first - LIMITS.settle / 2
    excess = figures.worst_window_excess(run.site.earliest(), times, options.rate, options.workers)
    as_it_is = figures.worst_window_excess(times, times, options.rate, options.workers)
    pairs, _ = figures.match(run.asked, run.recorded)
    return {
        "requests": len(times),
        "requests_per_second": round(len(times) / (times[-1] - times[0]), 2),
        "requests_per_second_before_the_first_fault": round(
            sum(calm < at <= first for at in times) / (LIMITS.settle / 2), 2
        ),
        "worst_window_excess": round(excess, 2),
        "worst_window_excess_by_the_log_as_it_is": round(as_it_is, 2),
        "longest_stall_of_the_site_seconds": round(
            max((end - start for start, end in run.site.stalls), default=0.0), 3
        ),
        "old_owner_requests": figures.old_owner_requests(run.asked, run.owners),
        "stale_commits": figures.stale_commits(pairs, run.owners),
        "exit_statuses": run.statuses,
        "starts_without_database": len(run.drills.ended_by_themselves) - run.drills.deaths,
    }
