"""A worker of a fleet: beats, holds a fair share of the shards, and sends what it is granted.

The life of a worker: `join`; then a beat every second, on a grid in the database's time, each of which renews the
lease and brings grants; shards are claimed, loaded and given back beside it. Where the lease was lost it rejoins under
a new id and keeps, without loading them again, the shards that no other worker has held meanwhile. Two things always
hold: there is a grant only while every page in memory is of a shard that is ours, and without a grant nothing is sent.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from crawld.crawl.loop import Crawler
from crawld.fleet.pacing import NOTHING, DatabaseClock, DatabaseTime, GrantDoor, GrantPacer, lease_end, schedule
from crawld.fleet.reporting import Reporter
from crawld.fleet.shard_set import ShardSet
from crawld.fleet.store.ledger import Beat, LeaseLostError, SqlLedger
from crawld.fleet.store.making import Mail
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.errors import ClockError, StoreError
from crawld.model.shards import LIMITS as SHARDS_LIMITS
from crawld.model.units import format_rate


@dataclass(frozen=True)
class WorkerLimits:
    """Numbers that bound and tune this module."""

    retry_seconds: float = 0.25
    """Between two tries while the database is out of reach: it must not wait for us when it is back."""
    reclaim_seconds: float = 1.0
    """For which a worker that came back tries to get its former shards: a row may be locked by its own last write."""
    give_seconds: float = 3.0
    """For which what is under way of a shard may finish before the shard is given back."""
    loaded_at_once: int = 8
    """Shards that are read at once: few, so that the first pages are crawled while the others are read."""
    tell_seconds: float = 300.0
    """Between two log lines about the rate that is granted, while there is one."""


LIMITS = WorkerLimits()


@dataclass(frozen=True, slots=True)
class Move:
    """The next step of a worker toward its share: claim at most so many free shards, or give so many away."""

    claim: int = 0
    give: int = 0


def move(beat: Beat, held: int, shards: int) -> Move:
    """Keep an equal part of all shards; a worker that drains keeps none."""
    fair = 0 if beat.draining else -(-shards // max(beat.workers, 1))
    if held > fair:
        return Move(give=held - fair)
    return Move(claim=min(fair - held, beat.free))


@dataclass(frozen=True, slots=True)
class Grid:
    """Moments `spacing` seconds apart from `start` on: what happens at them does not drift."""

    start: float
    spacing: float

    def after(self, now: float) -> float:
        """The first moment after `now`."""
        return self.start + (math.floor((now - self.start) / self.spacing) + 1) * self.spacing


log = logging.getLogger("crawld.fleet")


@dataclass(slots=True)
class Worker:
    """One worker, whatever id it has just now."""

    name: str
    ledger: SqlLedger
    store: SqlShardStore
    shard_set: ShardSet
    pacer: GrantPacer
    door: GrantDoor
    crawler: Crawler
    clock: DatabaseClock
    reporter: Reporter
    on_mail: Callable[[Sequence[Mail]], None]
    phase: float = 0.0  # seconds after those of the database's at which it beats: workers should not all at once
    id: str | None = None
    held: dict[int, int] = field(default_factory=dict)  # epochs by shard, of those that are ours
    beat: Beat | None = None  # the latest
    duties: Mapping[str, int] = field(default_factory=dict)  # what we do for the whole fleet, by epoch of the term
    lease_until: float = float("-inf")  # the clock's monotonic time from which another worker may do our work
    _served: set[str] = field(default_factory=set)  # duties that are being done
    _unserved: asyncio.Condition = field(default_factory=asyncio.Condition)
    _beaten: asyncio.Event = field(default_factory=asyncio.Event)
    _loading: asyncio.Task[None] | None = None
    _verbs: int = 0  # claims and such so far: what a beat says of shards and duties counts if none came in between
    _stopping: bool = False
    _left: bool = False
    _unreachable: bool = False
    _share: float = 0.0  # of the fleet's requests a second, as policies were told
    _granted: float = 0.0  # requests a second, as was logged last,
    _told_at: float = 0.0  # at this time

    async def join(self) -> None:
        """Become a worker; StoreError where the database is no fleet, or where this machine's clock is too wrong."""
        await self._check_clock()
        self.id = await self.ledger.join(self.name)
        log.info("joined the fleet", extra={"worker": self.name, "id": self.id})

    async def _check_clock(self) -> None:
        asked = self.clock.monotonic()
        now = await self.ledger.time()
        self.clock.follow(DatabaseTime(asked, self.clock.monotonic(), now))
        self.clock.check()

    async def run(self) -> None:
        """Be a worker until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beats())
            tasks.create_task(self._tend())
            await asyncio.Event().wait()  # a service that ends would end the daemon

    def stop(self) -> None:
        """Send, claim and load nothing more; the lease is renewed until `leave`."""
        self._stopping = True
        if self._loading is not None:
            self._loading.cancel()
        self._fall_silent()

    async def leave(self) -> None:
        """Give everything back; all that was recorded must be committed."""
        self.stop()
        worker, self.id, self._left = self.id, None, True
        if worker is None:
            return
        try:
            await self.ledger.leave(worker)
        except StoreError as error:
            log.warning("left without telling the fleet: the shards are free when the lease ends", extra=_why(error))
        else:
            log.info("left the fleet", extra={"worker": self.name, "shards": len(self.held)})

    async def take_duty(self, name: str) -> bool:
        """Do something for the whole fleet; False where another live worker does it."""
        worker = self.id
        if worker is None or self._stopping or (self.beat is not None and name in self.beat.taken):
            return False
        epoch = await self.ledger.take_duty(worker, name)
        self._verbs += 1
        if epoch is None or worker != self.id:
            return False
        self.duties = {**self.duties, name: epoch}
        return True

    async def give_duty(self, name: str) -> None:
        """Let another worker do it from now on."""
        worker = self.id
        self.duties = {duty: epoch for duty, epoch in self.duties.items() if duty != name}
        self._verbs += 1
        if worker is not None:
            await self.ledger.give_duty(worker, name)

    @contextlib.asynccontextmanager
    async def serving(self, name: str) -> AsyncIterator[None]:
        """While a duty is being done: `finish_duties` waits for its end."""
        self._served.add(name)
        try:
            yield
        finally:
            self._served.discard(name)
            async with self._unserved:
                self._unserved.notify_all()

    async def finish_duties(self) -> None:
        """Return once no duty is being done: each ends by itself after `stop`, and writes its last word."""
        async with self._unserved:
            await self._unserved.wait_for(lambda: not self._served)

    @property
    def draining(self) -> bool:
        """Tells whether this worker is to give everything away."""
        return self._stopping or (self.beat is not None and self.beat.draining)

    # -- beats ------------------------------------------------------------------------------------------------------

    async def _beats(self) -> None:
        while not self._left:
            try:
                await self._beat_once()
            except LeaseLostError:
                self._lose_lease()
            except StoreError as error:
                self._miss(error)
                await asyncio.sleep(LIMITS.retry_seconds)
            else:
                await self.clock.sleep_until(self._next_beat(self.clock.monotonic()))

    def _next_beat(self, now: float) -> float:
        """Returns the time of the next beat: on a grid in the database's time, early in each half of a round.

        A bid is there before its round is cleared, and the grant is known before its round begins.
        """
        if self.reporter.time is None:
            return now + SHARDS_LIMITS.beat_seconds
        time = self.reporter.time.least(now)
        return now + Grid(self.phase, SHARDS_LIMITS.beat_seconds).after(time) - time

    async def _beat_once(self) -> None:
        if self.id is None:
            await self._come_back()
        worker, verbs, asked = self.id, self._verbs, self.clock.monotonic()
        assert worker is not None  # noqa: S101 - `_come_back` has given us one
        ours = bool(self.held) and not self.shard_set.strange(self.held)
        beat = await self.ledger.beat(worker, self.reporter.report(bids=ours))
        time = DatabaseTime(asked, self.clock.monotonic(), beat.now)
        self._unreachable = False
        self.clock.follow(time)
        if self.beat is None or self.beat.last_change != beat.last_change:
            self.store.changes.tell()  # whichever worker committed them
        self.beat = beat
        if verbs == self._verbs:
            self._reconcile(beat.held)
            self.duties = beat.duties
        self._tell_share(beat.bandwidth)
        self._follow(beat, time)
        self.on_mail(beat.mail)
        self._beaten.set()

    def _tell_share(self, bandwidth: float) -> None:
        """Tell a policy that allots rates how much there is to allot: our part of the fleet's, by shards."""
        share = bandwidth * len(self.held) / self.ledger.shards
        if share != self._share:
            self._share = share
            self.shard_set.scheduler.change_bandwidth(share, self.clock.now())

    def _follow(self, beat: Beat, time: DatabaseTime) -> None:
        """Send by the grants of this beat from now on."""
        rates, now = NOTHING if self._stopping else schedule(time, beat.grants), self.clock.monotonic()
        self.reporter.time, self.reporter.rates, self.reporter.level = time, rates, beat.level
        self.pacer.follow(rates, now)
        self.lease_until = lease_end(time, beat.expires)
        self.door.follow(rates, self.lease_until)
        self.crawler.status.bandwidth = rates.rate(now)
        self.crawler.wake()
        self._tell_grant(max(rates.rates, default=0.0))

    def _tell_grant(self, rate: float) -> None:
        """Log when grants begin and end, and now and then in between."""
        now = self.clock.monotonic()
        if rate > 0 and (self._granted == 0 or now > self._told_at + LIMITS.tell_seconds):
            if self._granted == 0:
                self.crawler.status.last_slot_at = now  # none could come before
            self._granted, self._told_at = rate, now
            log.info("granted requests", extra={"rate": format_rate(rate)})
        elif rate == 0 < self._granted:
            self._granted = 0.0
            log.info("no grant: nothing is sent")

    def _miss(self, error: StoreError) -> None:
        if not self._unreachable:
            self._unreachable = True
            wrong_clock = isinstance(error, ClockError)
            what = "this worker stays out of the fleet" if wrong_clock else "the fleet's database is out of reach"
            log.warning(f"{what}; nothing is sent once the grant ends", extra=_why(error))

    def _reconcile(self, held: Mapping[int, int]) -> None:
        """Go by what the database says is ours: the answer to a claim or a release may have been lost."""
        if self.held != held:
            self._hold(dict(held))

    def _hold(self, held: dict[int, int]) -> None:
        self.held = held
        self.store.hold(held)

    def _fall_silent(self) -> None:
        """Send nothing from now on."""
        self.reporter.rates = NOTHING
        self.pacer.follow(NOTHING, self.clock.monotonic())
        self.door.follow(NOTHING, float("-inf"))
        self.crawler.status.bandwidth = 0.0
        self._tell_grant(0.0)

    # -- a lease that was lost --------------------------------------------------------------------------------------

    def _lose_lease(self) -> None:
        log.warning("the lease is lost: silent until this worker has joined anew", extra={"worker": self.name})
        self.id, self.duties, self.lease_until = None, {}, float("-inf")
        self._fall_silent()

    async def _come_back(self) -> None:
        """Join under a new id and reclaim the shards that no other worker has held since."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
            self._loading = None
        former = {shard: epoch for shard, epoch in self.held.items() if shard in self.shard_set.loaded}
        await self._check_clock()
        worker = await self.ledger.join(self.name)
        kept = await self._reclaim(worker, former)
        self.id = worker
        self._verbs += 1
        self._hold(kept)
        told = {"worker": self.name, "id": worker, "kept": len(kept), "lost": len(former) - len(kept)}
        log.info("joined the fleet again", extra=told)

    async def _reclaim(self, worker: str, former: dict[int, int]) -> dict[int, int]:
        """Those of the former shards that are ours as they were."""
        kept: dict[int, int] = {}
        until = self.clock.monotonic() + LIMITS.reclaim_seconds
        while left := {shard: epoch for shard, epoch in former.items() if shard not in kept}:
            for lease in await self.ledger.claim(worker, len(left), left):
                kept[lease.shard] = lease.epoch
            if self.clock.monotonic() > until or former.items() <= kept.items():
                break
            await asyncio.sleep(LIMITS.retry_seconds)
        return {shard: epoch for shard, epoch in kept.items() if former.get(shard) == epoch}

    # -- shards -----------------------------------------------------------------------------------------------------

    async def _tend(self) -> None:
        """After each beat: drop what is lost, claim what is free, give back what is too much."""
        while True:
            await self._beaten.wait()
            self._beaten.clear()
            worker, beat = self.id, self.beat
            if worker is None or beat is None or self._stopping:
                continue
            with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                await self._drop_lost()
                await self._balance(worker, beat)
            self._load_rest()

    async def _drop_lost(self) -> None:
        """Forget shards in memory that are not ours any more: of what is under way there nothing is recorded."""
        if self._loading is not None:  # what is half loaded is its own business
            return
        if lost := self.shard_set.strange(self.held):
            await self.shard_set.unload(lost, 0.0)
            log.warning("dropped shards that others hold now", extra={"shards": len(lost)})

    async def _balance(self, worker: str, beat: Beat) -> None:
        due = move(beat, len(self.held), self.ledger.shards)
        if due.give:
            spare = sorted(self.held, key=lambda shard: (shard in self.shard_set.loaded, -shard))
            await self._give(worker, spare[: due.give], draining=beat.draining)
        elif due.claim:
            self._verbs += 1
            leases = await self.ledger.claim(worker, due.claim, {})
            self._verbs += 1
            if leases and worker == self.id:
                self._hold(self.held | {lease.shard: lease.epoch for lease in leases})
                told = {"shards": len(leases), "held": len(self.held), "of": self.ledger.shards}
                log.info("claimed shards", extra=told)

    async def _give(self, worker: str, shards: Sequence[int], *, draining: bool) -> None:
        """Give shards back once what is under way has finished and everything is committed."""
        await self._stop_loading()
        await self.shard_set.unload(shards, LIMITS.give_seconds)
        await self.store.flush()
        if worker != self.id:
            return
        self._verbs += 1
        await self.ledger.release(worker, shards)
        self._verbs += 1
        self._hold({shard: epoch for shard, epoch in self.held.items() if shard not in shards})
        log.info("gave shards back", extra={"shards": len(shards), "held": len(self.held), "draining": draining})

    async def _stop_loading(self) -> None:
        """End the loading under way; shards that it has half loaded are forgotten, and loaded anew later."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
            self._loading = None
            if half := sorted(self.shard_set.present.keys() - self.shard_set.loaded):
                await self.shard_set.unload(half, 0.0)

    def _load_rest(self) -> None:
        """Load, beside everything else, the shards that are ours and not in memory."""
        if self._loading is not None and self._loading.done():
            done, self._loading = self._loading, None
            done.result()
        if self._loading is None and not self.held.keys() <= self.shard_set.present.keys():
            self._loading = asyncio.create_task(self._load(), name="loading shards")

    async def _load(self) -> None:
        while left := sorted(self.held.keys() - self.shard_set.present.keys())[: LIMITS.loaded_at_once]:
            try:
                pages = await self.shard_set.load({shard: self.held[shard] for shard in left})
            except StoreError as error:
                log.warning("shards could not be loaded, trying again", extra=_why(error))
                return
            waiting = len(self.held.keys() - self.shard_set.present.keys())
            log.info("loaded shards", extra={"shards": len(left), "pages": pages, "waiting": waiting})


def _why(error: Exception) -> dict[str, str]:
    return {"reason": str(error)}
