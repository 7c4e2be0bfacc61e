"""The parts of one worker of a fleet: those of a daemon, paced by grants and scoped to the shards it holds."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawld.api.app import ControlServer
from crawld.api.token import make_token
from crawld.config import Settings
from crawld.daemon.estimate_fan_out import EstimateFanOut
from crawld.daemon.learner import Learner
from crawld.daemon.pushes import Others
from crawld.daemon.slots.admission import Door
from crawld.daemon.supervisor import Daemon, Service
from crawld.errors import ConfigError, StoreError
from crawld.fleet.duties import Duty
from crawld.fleet.fleet_daemon import FleetDaemon
from crawld.fleet.fleet_list import FleetList
from crawld.fleet.history import FleetHistory
from crawld.fleet.mailbox import Mailbox
from crawld.fleet.outbox import Outbox
from crawld.fleet.pacing.database_time import DatabaseClock
from crawld.fleet.pacing.grant_door import GrantDoor
from crawld.fleet.pacing.grant_pacer import GrantPacer
from crawld.fleet.reporting import Reporter
from crawld.fleet.shard_learner import ShardLearner
from crawld.fleet.shard_set import ShardSet
from crawld.fleet.shared_priors import SharedPriors
from crawld.fleet.steering import FleetReads
from crawld.fleet.worker import Worker
from crawld.interfaces import Control, FreshReads, Reload
from crawld.interfaces.control import ListNews
from crawld.learning.observations import first_guess
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.fleet import HISTORY_DUTY, HOOKS_DUTY, LIST_DUTY
from crawld.pacer import Slots
from crawld.store.fleet.ledger import SqlLedger
from crawld.store.fleet.shard_store import SqlShardStore
from crawld.store.fleet.shared_settings import SharedSettings
from crawld.wiring.assembly import Assembly, Tempo
from crawld.wiring.fleet_control import FleetControl
from crawld.wiring.fleet_settings import OWN, InForce, take_settings, with_shared
from crawld.wiring.reload import UrlList

COMMIT_SECONDS = 1.0
"""Of these a quarter is for gathering: a commit costs the server of all workers as much as some twenty crawls."""
LEARN_SECONDS = 3.0
"""Between two batches of the learner, which reads histories from the server of all workers."""
SETTINGS_SECONDS = 1.0
"""Between two looks whether other settings are in force."""
PHASES = (0.05, 0.55)
"""Seconds into each second of the database at which workers beat: after a round has begun, well before it ends."""


class FleetAssembly(Assembly):
    """The parts of one worker, made from settings."""

    clock: DatabaseClock
    store: SqlShardStore
    store_type = SqlShardStore
    list_type = FleetList
    commit_seconds = COMMIT_SECONDS
    holds_all = False

    def __init__(self, given: InForce, name: str, *, tempo: Tempo | None = None) -> None:
        settings, self._revision = given.settings, given.revision
        _check_importance(settings)
        if any(site.links for site in settings.discover):
            raise ConfigError("discover: links: true is for one machine: a fleet follows lists, sitemaps and feeds")
        if settings.search:
            raise ConfigError("search: true is for one machine: a fleet has no index of its texts yet")
        super().__init__(settings, tempo=tempo or Tempo(learn=LEARN_SECONDS))
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
            self.store.changes.tell,
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
            phase=self._rng.uniform(*PHASES),
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
        return FleetDaemon(worker=self.worker, **parts)

    def _control_server(self) -> None:
        """None: a worker starts without pages, and its socket is one of its services."""

    def _services(self) -> list[Service]:
        services: list[Service] = [self.worker.run, self.worker.reporter.run, self.learner.run, self.mailbox.run]
        services.append(self._follow_settings)
        services += [self.read_model.run, self._lag.run, self.freshness.run, self.fleet.run]
        services.append(SharedPriors(self.ledger, lambda: self.learner.learner, lambda: self.worker.id).run)
        services.append(ControlServer(self._api_parts(), self._socket(), self.listener).run)
        history = FleetHistory(self.fleet.store, self.store.record_freshness, self._tempo.tick)
        work = {LIST_DUTY: self._keep_list, HOOKS_DUTY: self.dispatcher.run, HISTORY_DUTY: history.run}
        return services + [Duty(name, self.worker, run).run for name, run in work.items()]

    async def _reload_worker(self, retire: bool) -> Reload:
        return await self.steering.reload(retire=retire)

    async def _reload(self, read_settings: Callable[[], Settings] | None, retire: bool) -> Reload:
        """Read the machine's own settings again and take over the fleet's; the rate is steered, whatever they say."""
        old = self.reloader.settings
        try:
            found = await self.shared.read()
        except StoreError as error:
            return Reload(refused=str(error))

        def read() -> Settings:
            own = (old if read_settings is None else read_settings()).model_copy(update={"bandwidth": old.bandwidth})
            return own if found is None else with_shared(own, found.document)

        result = await super()._reload(read, retire)
        if found is not None:
            self._revision = found.number  # also where it was refused: a later one may be better
            if result.refused is None and not {name.partition(".")[0] for name in result.waiting} - OWN:
                self.worker.reporter.revision = found.number
        return result

    async def _follow_settings(self) -> None:
        """Take over the fleet's settings whenever another revision is in force."""
        try:
            while True:
                await asyncio.sleep(SETTINGS_SECONDS)
                beat = self.worker.beat
                if beat is not None and beat.revision != self._revision and self.steering.on_reload is not None:
                    await self.steering.on_reload(False)
        finally:
            await asyncio.shield(self.shared.close())

    def _reloaded_list(self) -> UrlList:
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
        """The control socket of this worker: beside those of others on the machine."""
        path = self.settings.control_socket()
        return path.with_name(f"{path.stem}-{self.worker.name}{path.suffix}")


class NoList:
    """The list of a worker that does not read it: another one does."""

    async def load(self, *, retire: bool = False) -> ListNews | None:  # noqa: ARG002 - as other lists
        """Take nothing over."""
        return None


def _check_importance(settings: Settings) -> None:
    if settings.importance == "requests":
        raise ConfigError("importance: requests is for one machine: a fleet takes the list's weights")


def build_worker(settings: Settings, name: str, read_settings: Callable[[], Settings] | None = None) -> Daemon:
    """A worker's process, ready to run."""
    _check_importance(settings)  # before they become the fleet's
    return FleetAssembly(take_settings(settings, name), name).daemon(read_settings)
