"""The parts of one worker of a fleet: those of a daemon, paced by grants and scoped to the shards it holds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crawld.choose.pacer import Slots
from crawld.crawl.admission import Door
from crawld.crawl.learner import EstimateFanOut, Learner
from crawld.crawl.pushes import Others
from crawld.crawl.reads import FreshReads
from crawld.fleet.duties import Duty, FleetDaemon
from crawld.fleet.learner import ShardLearner, SharedPriors
from crawld.fleet.mailbox import FleetList, HostTurns, Mailbox, Outbox, OwnList
from crawld.fleet.pacing import DatabaseClock, GrantDoor, GrantPacer
from crawld.fleet.reporting import Reporter
from crawld.fleet.shard_set import ShardSet
from crawld.fleet.status import FleetHistory
from crawld.fleet.steering import FleetReads, FleetSteering
from crawld.fleet.store.fleet_store import Revision, SharedSettings, SqlFleetStore
from crawld.fleet.store.ledger import SqlLedger
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.fleet.worker import Worker
from crawld.learn.observations import first_guess
from crawld.main.assembly import Assembly, Tempo
from crawld.main.checks import check, terms_of
from crawld.main.reload import ReloadableList
from crawld.main.settings import Settings, changes
from crawld.main.supervisor import Daemon, Service
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.errors import ConfigError, CrawldError, StoreError
from crawld.model.shards import HISTORY_DUTY, HOOKS_DUTY, LIST_DUTY
from crawld.model.web import Clock
from crawld.pages.list_file import ListFile, ListNews
from crawld.read.page.rules import DigestRules
from crawld.show.actions import Control, Reload
from crawld.show.api.access import make_token
from crawld.show.api.app import ControlServer


@dataclass(frozen=True)
class FleetAssemblyLimits:
    """Numbers that bound and tune this module."""

    commit_seconds: float = 1.0
    """Of these a quarter is for gathering: a commit costs the server of all workers as much as some twenty crawls."""
    learn_seconds: float = 10.0
    """Between two batches of the learner, as simulated: a page that is crawled more often is read and learnt once."""
    settings_seconds: float = 1.0
    """Between two looks whether other settings are in force."""


LIMITS = FleetAssemblyLimits()


# One truth of settings in a fleet: what workers share is the database's, what is a machine's own is its file's.

log = logging.getLogger("crawld.fleet")

OWN = frozenset(
    {
        "bandwidth",
        "urls",
        "database",
        "processes",
        "user_agent",
        "credentials",
        "signing",
        "allow_private",
        "reading",
        "api",
        "log",
    }
)
"""Settings of one machine or process, and secrets; the rate is steered, the list is taken over by what it says."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings that a worker goes by, and of which revision of the fleet's they are; 0: there is none yet."""

    settings: Settings
    revision: int


def shared_document(settings: Settings) -> dict[str, Any]:
    """The settings that all workers of a fleet share, as they are stored."""
    return settings.model_dump(mode="json", exclude=set(OWN))


def with_shared(own: Settings, document: Mapping[str, Any]) -> Settings:
    """A machine's own settings together with those of its fleet; ConfigError where they cannot be used."""
    given = own.model_dump(mode="json", include=set(OWN)) | dict(document)
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise ConfigError(f"settings of the fleet that this version of crawld cannot use: {places}") from None


def tell_difference(own: Settings, fleets: Settings, revision: int) -> list[str]:
    """Log which settings of this machine's file do not hold, because the fleet has others; their names."""
    if differing := list(changes(own, fleets)):
        log.warning(
            "the settings of this machine differ from the fleet's, which hold; `crawld fleet apply` changes them",
            extra={"settings": ", ".join(differing), "revision": revision},
        )
    return differing


def take_settings(own: Settings, worker: str, *, insist: bool = False) -> InForce:
    """Settings of a worker that starts: the fleet's, or its own where it is the first, or where we insist."""
    return asyncio.run(_take(own, worker, insist=insist))


async def _take(own: Settings, worker: str, *, insist: bool) -> InForce:
    async with SharedSettings(own.database) as shared:
        found = await shared.read()
        if found is None or insist:
            found = await _put_in_force(shared, own, worker, found)
    if found is None:
        return InForce(own, 0)
    fleets = with_shared(own, found.document)
    tell_difference(own, fleets, found.number)
    return InForce(fleets, found.number)


async def _put_in_force(shared: SharedSettings, own: Settings, worker: str, found: Revision | None) -> Revision | None:
    """Make this worker's settings the fleet's where others are; those of another worker where it was faster."""
    document = shared_document(own)
    if found is not None and found.document == document:
        return found
    try:
        made = await shared.apply(document, worker, after=0 if found is None else found.number)
    except StoreError:
        return await shared.read()
    log.info("the settings of this worker are the fleet's from now on", extra={"revision": made.number})
    return made


# The control of a whole fleet in one of its workers: what its listener and dashboard show.


class FleetControl:
    """Open it with `start`, and let `run` run."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        rules: DigestRules,
        *,
        healthy: Callable[[], bool],
        reload: Callable[[bool], Awaitable[Reload]],
    ) -> None:
        self.store = SqlFleetStore(settings.database, clock.monotonic)
        self.steering = FleetSteering(self.store, terms_of(settings), clock, rules, healthy=healthy, reload=reload)

    async def start(self) -> None:
        """Open the database; StoreError where it is no fleet's."""
        await self.store.start()

    async def run(self) -> None:
        """Wait until cancelled, then close the database."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(self.store.close())


class FleetAssembly(Assembly):
    """The parts of one worker, made from settings."""

    clock: DatabaseClock
    store: SqlShardStore
    store_type = SqlShardStore
    list_type: type[ListFile] = FleetList
    commit_seconds = LIMITS.commit_seconds
    holds_all = False

    def __init__(
        self,
        given: InForce,
        name: str,
        *,
        tempo: Tempo | None = None,
        process: int | None = None,
        retire: bool = False,
    ) -> None:
        """`process` is its number among the processes of `crawld run`, whose settings and list are the fleet's."""
        settings, self._revision = given.settings, given.revision
        self._process, self._written_rate = process, settings.bandwidth
        if process is not None:
            self.list_type = OwnList
        check_fleet_settings(settings)
        super().__init__(settings, tempo=tempo or Tempo(learn=LIMITS.learn_seconds), retire=retire)
        self.fetcher.may_send = self.door.may_send
        self.ledger = SqlLedger(settings.database)
        self.learner = ShardLearner(self.store, self._make_learner)
        self.shard_set = ShardSet(
            store=self.store,
            page_set=self.page_set,
            scheduler=self.scheduler,
            gate=self.gate,
            robots=self.robots,
            sources=self.polled_sources,
            polls=self.polls,
            frames=self.crawler.frames,
            crawler=self.crawler,
            clock=self.clock,
            shards=lambda: self.ledger.shards,
            learner=self.learner,
        )
        self.crawler.admission.elsewhere = HostTurns(self.ledger, self.pages, self.shard_set.shard, self.clock)
        self.shared = SharedSettings(settings.database)
        self.page_set.keeps = self.shard_set.keeps
        reporter = Reporter(
            self.scheduler, self.crawler, self.store, self.clock, self._count_loading, self.steering.status
        )
        reporter.revision = given.revision
        self.pacer.openings = reporter.openings
        self.mailbox = Mailbox(
            self.shard_set,
            self.page_set,
            lambda shard: shard in self.worker.held,
            self.clock,
            self.steering,
            lambda: self.hubs,
        )
        self.fleet = FleetControl(
            settings,
            self.clock,
            self.reloader.rules,
            healthy=self.steering.healthy,
            reload=self._reload_worker,
        )
        self.worker = Worker(
            name=name,
            ledger=self.ledger,
            store=self.store,
            shard_set=self.shard_set,
            pacer=self.pacer,
            door=self.door,
            crawler=self.crawler,
            clock=self.clock,
            reporter=reporter,
            on_mail=self.mailbox.take,
            # Into each second of the database's time: after a round has begun, well before it ends.
            phase=self._rng.uniform(0.05, 0.55),
        )

    @property
    def control(self) -> Control:
        """The whole fleet is steered and asked, whichever worker answers."""
        return self.fleet.steering

    @property
    def fresh(self) -> FreshReads:
        """Pages of every worker are fetched as they are read."""
        return FleetReads(self.fleet.store, self.read_model, self.clock)

    def _make_clock(self) -> DatabaseClock:
        """Leases go on while the machine sleeps, and so does everything that is measured against them."""
        return DatabaseClock()

    def _make_pacer(self) -> tuple[Slots, Door | None]:
        self.pacer, self.door = GrantPacer(self.clock.monotonic()), GrantDoor(self.clock)
        return self.pacer, self.door

    def _make_learner(self) -> Learner:
        """A learner whose first guess lets all pages of the fleet compete."""
        beat = self.worker.beat
        rate, workers = (beat.bandwidth, beat.workers) if beat is not None else (0.0, 1)
        all_pages = max(len(self.scheduler), 1) * max(workers, 1) / max(rate, 1e-9)
        sink = EstimateFanOut(self.scheduler, self.polls, self.pages, self.gate)
        guess = first_guess(all_pages, self.settings.min_interval)
        return self._learner_of(sink, guess)

    def _may_send_hooks(self) -> bool:
        return self.clock.monotonic() < self.worker.lease_until

    def _others(self) -> Others | None:
        return Outbox(self.ledger, self.store, self.shard_set, self.clock)

    def _count_loading(self) -> int:
        return len(self.worker.held.keys() - self.shard_set.loaded)

    def _learner_lag(self) -> float | None:
        learner = self.learner.learner
        return None if learner is None else self.clock.monotonic() - learner.caught_up_at

    def _make_daemon(self, **parts: Any) -> FleetDaemon:
        return FleetDaemon(worker=self.worker, in_group=self._process is not None, **parts)

    def _control_server(self) -> None:
        """None: a worker starts without pages, and its socket is one of its services."""

    def _services(self) -> list[Service]:
        services: list[Service] = [self.worker.run, self.worker.reporter.run, self.learner.run, self.mailbox.run]
        services.append(self._follow_settings)
        services += [self.read_model.run, self._lag.run, self.freshness.run, self.fleet.run]
        services.append(SharedPriors(self.ledger, lambda: self.learner.learner, lambda: self.worker.id).run)
        services.append(ControlServer(self.api_parts(), self._socket(), self.listener).run)
        history = FleetHistory(self.fleet.store, self.store.record_freshness, self._tempo.tick)
        work = {HOOKS_DUTY: self.dispatcher.run, HISTORY_DUTY: history.run}
        if self._process in {None, 1}:  # of the processes of `crawld run` the one that `crawld reload` asks
            work[LIST_DUTY] = self._keep_list
        return services + [Duty(name, self.worker, run).run for name, run in work.items()]

    async def _reload_worker(self, retire: bool) -> Reload:
        return await self.steering.reload(retire=retire)

    async def _reload(self, read_settings: Callable[[], Settings] | None, retire: bool) -> Reload:
        """Read the machine's own settings again and take over the fleet's; the rate is steered, whatever they say."""
        old = self.reloader.settings
        try:
            written = old if read_settings is None else read_settings()
            found = await self._shared_settings(written)
        except CrawldError as error:
            return Reload(refused=str(error))

        def read() -> Settings:
            own = written.model_copy(update={"bandwidth": old.bandwidth})
            return own if found is None else with_shared(own, found.document)

        result = await super()._reload(read, retire)
        if found is not None:
            self._revision = found.number  # also where it was refused: a later one may be better
            if result.refused is None and not {name.partition(".")[0] for name in result.waiting} - OWN:
                self.worker.reporter.revision = found.number
        if self._process is None or result.refused is not None or written.bandwidth == self._written_rate:
            return result
        self._written_rate = written.bandwidth
        await self.fleet.steering.change_bandwidth(written.bandwidth)
        return replace(result, applied=["bandwidth", *result.applied])

    async def _shared_settings(self, written: Settings) -> Revision | None:
        """The fleet's settings; those of a process of `crawld run` become them. ConfigError where they cannot."""
        found = await self.shared.read()
        if self._process is None:
            return found
        check_fleet_settings(written)
        if bad := check(written):
            raise ConfigError("\n".join(str(error) for error in bad))
        return await _put_in_force(self.shared, written, self.worker.name, found)

    async def _follow_settings(self) -> None:
        """Take over the fleet's settings whenever another revision is in force."""
        try:
            while True:
                await asyncio.sleep(LIMITS.settings_seconds)
                beat = self.worker.beat
                if beat is not None and beat.revision != self._revision:
                    await self.steering.reload()
        finally:
            await asyncio.shield(self.shared.close())

    def _reloaded_list(self) -> ReloadableList:
        """The list, where this worker is the one that reads it."""
        return self.list if LIST_DUTY in self.worker.duties else NoList()

    async def _prepare(self) -> None:
        await self.fleet.start()
        await self.steering.restore_marks()
        if self.settings.api.listen is not None:
            make_token(self.settings.token_file())  # before anyone is told that we are ready
        for fresh in await self.store.audits(AUDITS_KEPT):
            self.crawler.audits.record(fresh=fresh)

    async def _keep_list(self) -> None:
        """Take the list over, and again whenever it changes."""
        await self.list.begin()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.list.run())
            tasks.create_task(self.watch.run())

    def _socket(self) -> Path:
        """The control socket of this worker: beside those of others; the first process of `crawld run` has its own."""
        path = self.settings.control_socket()
        if self._process == 1:
            return path
        return path.with_name(f"{path.stem}-{self.worker.name}{path.suffix}")


class NoList:
    """The list of a worker that does not read it: another one does."""

    async def load(self, *, retire: bool = False) -> ListNews | None:  # noqa: ARG002 - as other lists
        """Take nothing over."""
        return None


def check_fleet_settings(settings: Settings) -> None:
    """ConfigError where the settings ask for what several processes cannot do together."""
    if settings.importance == "requests":
        raise ConfigError("importance: requests is for one machine: a fleet takes the list's weights")
    if any(site.links for site in settings.discover):
        raise ConfigError("discover: links: true is for one machine: a fleet follows lists, sitemaps and feeds")
    if settings.search:
        raise ConfigError("search: true is for one machine: a fleet has no index of its texts yet")


def build_worker(
    settings: Settings,
    name: str,
    read_settings: Callable[[], Settings] | None = None,
    *,
    process: int | None = None,
    retire: bool = False,
) -> Daemon:
    """A worker's process, ready to run."""
    check_fleet_settings(settings)  # before they become the fleet's
    given = take_settings(settings, name, insist=process is not None)
    return FleetAssembly(given, name, process=process, retire=retire).daemon(read_settings)
