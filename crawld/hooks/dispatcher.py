"""Takes new changes into the queues of the hooks that want them, sends what is due, and settles what was delivered."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from crawld.hooks.queue import HookPace, HookQueue
from crawld.model.crawl import ChangeVerdict
from crawld.model.errors import DamagedError, StoreError
from crawld.model.metrics import HookStanding
from crawld.model.url import UrlPattern
from crawld.model.web import Clock
from crawld.store.hooks import (
    HookFigures,
    NewChange,
    News,
    NotDelivered,
    Queued,
    QueueWrites,
    StoredHooks,
    Transport,
    Waiting,
)


@dataclass(frozen=True)
class DispatcherLimits:
    """Numbers that bound and tune this module."""

    read_at_once: int = 500
    """Changes that are read and queued in one transaction."""
    gather_seconds: float = 0.1
    """Between two transactions of the queue: so seldom that the crawls' own commits do not notice them."""
    look_seconds: float = 15.0
    """Between two looks for what has waited too long, where no change comes."""
    last_seconds: float = 3.0
    """For taking what was delivered out of the store at the end."""
    store_pause: float = 5.0
    """Seconds until the queue is tried again where the store refused it."""


LIMITS = DispatcherLimits()


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook: whom to tell of which changes, how fast, and how many may wait for how long."""

    name: str
    kind: str
    transport: Transport
    pattern: UrlPattern
    verdicts: frozenset[str]
    pace: HookPace
    most_waiting: int = 10_000
    keep_seconds: float = 7 * 86400.0
    use: str | None = None  # what its receiver uses pages for

    def wants(self, change: NewChange) -> bool:
        """Tells whether the hook is to be told of the change: not of pages that deny its use, but that they do so."""
        if self.use is not None and change.verdict == ChangeVerdict.USAGE.value:
            return self.pattern.fits(change.url)
        return self.use not in change.denies and change.verdict in self.verdicts and self.pattern.fits(change.url)


@dataclass(frozen=True, slots=True)
class Intake:
    """Fate of new changes at a hook: which wait, up to which number older ones go, and how many are lost."""

    kept: Sequence[NewChange]
    dropped_to: int | None
    lost: int


@dataclass(slots=True)
class HookLine:
    """A hook at work."""

    hook: Hook
    rng: random.Random
    figures: HookFigures
    queue: HookQueue = field(init=False)
    failures: int = 0  # sendings that failed since the start
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.queue = HookQueue(self.hook.pace, self.hook.transport.at_once, self.rng)

    def take_in(self, news: News, now: float) -> Intake:
        """Choose the changes to queue, and drop the oldest where too many wait or have waited for too long."""
        after, most = self.figures.cursor, self.hook.most_waiting
        wanted = [one for one in news.changes if one.change > after and self.hook.wants(one)]
        dropped = self.queue.expire(now - self.hook.keep_seconds)
        dropped += self.queue.drop(max(len(self.queue) + len(wanted) - most, 0))
        kept = wanted[max(len(wanted) - most, 0) :]
        lost = len(dropped) + len(wanted) - len(kept) + news.missed
        cursor = max(after, news.cursor)
        self.figures = replace(self.figures, cursor=cursor, dropped=self.figures.dropped + lost)
        return Intake(kept, max(dropped, default=None), lost)

    def delivered(self, changes: int, now: float) -> None:
        """So many changes were taken by their receiver."""
        self.figures = replace(
            self.figures,
            delivered=self.figures.delivered + changes,
            delivered_at=now,
            trouble=None,
            trouble_since=None,
        )

    def failed(self, failed: NotDelivered, now: float) -> bool:
        """A sending failed; whether it is the first since one succeeded."""
        self.failures += 1
        first = self.figures.trouble is None
        since = now if first else self.figures.trouble_since
        self.figures = replace(self.figures, trouble=failed.detail, trouble_since=since)
        return first


T = TypeVar("T")
log = logging.getLogger("crawld.hooks")


class Dispatcher:
    """Runs beside the crawler and shares nothing with it but the store."""

    def __init__(
        self,
        store: StoredHooks,
        hooks: Sequence[Hook],
        clock: Clock,
        rng: random.Random,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._clock, self._rng, self._may_send = store, clock, rng, may_send
        self._hooks = tuple(hooks)
        self._replaced = asyncio.Event()
        self._delivered: list[tuple[HookLine, list[int]]]
        self._to_settle: asyncio.Event
        self._writing: asyncio.Lock  # its holder may change figures and write them
        self._cut_off: bool  # a write did not end: the figures in memory may be ahead of the store
        self._begin()
        self.lines: dict[str, HookLine] = {}  # by name

    def change_hooks(self, hooks: Sequence[Hook]) -> None:
        """Go on with these hooks; what waits for one that is named as before waits on."""
        self._hooks = tuple(hooks)
        self._replaced.set()

    def standings(self) -> list[HookStanding]:
        """Returns how each hook stands."""
        found = []
        for name, line in self.lines.items():
            oldest, figures = line.queue.oldest, line.figures
            since = None if oldest is None else oldest.added_at
            counts = (figures.delivered, figures.dropped, line.failures)
            trouble = (figures.trouble, figures.trouble_since)
            found.append(HookStanding(name, len(line.queue), since, *counts, *trouble))
        return found

    async def run(self) -> None:
        """Tell the hooks until cancelled."""
        while True:
            self._replaced.clear()
            self._begin()
            hooks = self._hooks
            try:
                self.lines = await self._persistently(partial(self._open, hooks))
                await self._serve()
            finally:
                for hook in hooks:
                    await hook.transport.close()

    def _begin(self) -> None:
        """Start with nothing in memory: the store alone knows what was delivered before."""
        self._delivered, self._to_settle, self._writing = [], asyncio.Event(), asyncio.Lock()
        self._cut_off = False

    async def _open(self, hooks: Sequence[Hook]) -> dict[str, HookLine]:
        figures = await self._store.open_hooks([hook.name for hook in hooks])
        lines = {hook.name: HookLine(hook, self._rng, figures[hook.name]) for hook in hooks}
        for name, line in lines.items():
            for waiting in await self._store.waiting(name):
                line.queue.add(waiting)
        return lines

    async def _serve(self) -> None:
        """Until the hooks are replaced; what is being sent then is broken off, and comes again."""
        work: list[Coroutine[Any, Any, object]] = [self._replaced.wait()]
        if self.lines:
            work += [self._take_in(), self._settle(), *(self._send_due(line) for line in self.lines.values())]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one) for one in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            tasks += [task for line in self.lines.values() for task in line.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            try:
                async with asyncio.timeout(LIMITS.last_seconds):
                    if not self._cut_off:
                        await self._settle_delivered()
            except TimeoutError:
                self._cut_off = True
            if self._cut_off:
                log.warning("the queue of the hooks was not written: what was delivered last comes again")

    async def _take_in(self) -> None:
        """Queue new changes as they are committed, and drop what has waited too long."""
        while True:
            committed = self._store.committed()
            while await self._take_some():  # noqa: ASYNC110 - there is nothing to wait for but time
                await asyncio.sleep(LIMITS.gather_seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(LIMITS.look_seconds):
                    await committed.wait()
            await asyncio.sleep(LIMITS.gather_seconds)

    async def _take_some(self) -> bool:
        """Queue some changes; whether there may be more."""
        after = min(line.figures.cursor for line in self.lines.values())
        news = await self._persistently(lambda: self._store.news(after, LIMITS.read_at_once))
        async with self._writing:
            now = self._clock.now()
            intakes = {name: line.take_in(news, now) for name, line in self.lines.items()}
            for name, intake in intakes.items():
                if intake.lost:
                    log.warning("changes dropped, not delivered", extra={"hook": name, "count": intake.lost})
            if news.cursor > after or any(intake.lost for intake in intakes.values()):
                added = [Queued(name, one, now) for name, intake in intakes.items() for one in intake.kept]
                dropped = {name: one.dropped_to for name, one in intakes.items() if one.dropped_to is not None}
                await self._write(QueueWrites(added, dropped_to=dropped))
        for name, intake in intakes.items():
            for one in intake.kept:
                self.lines[name].queue.add(Waiting(one.change, one.page_id, now))
            self.lines[name].wake.set()
        return len(news.changes) == LIMITS.read_at_once

    async def _send_due(self, line: HookLine) -> None:
        """Send what is due for one hook."""
        while True:
            line.wake.clear()
            while changes := line.queue.take(self._clock.monotonic()):
                task = asyncio.create_task(self._send(line, changes))
                line.tasks.add(task)
                task.add_done_callback(line.tasks.discard)
            delay = line.queue.next_at() - self._clock.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if math.isinf(delay) else max(delay, 0.0)):
                    await line.wake.wait()

    async def _send(self, line: HookLine, changes: list[int]) -> None:
        hook = line.hook
        try:
            deliveries = await self._store.documents(hook.name, changes)
            if not self._may_send():
                failed: NotDelivered | None = NotDelivered("another worker may be sending it")
            else:
                failed = await hook.transport.send(deliveries) if deliveries else None
        except StoreError as error:
            failed = NotDelivered(f"the queue cannot be read: {error}")
        except Exception as error:
            log.exception("internal error in a hook; please report it", extra={"hook": hook.name})
            failed = NotDelivered(f"internal error: {type(error).__name__}")
        if failed is None:
            line.queue.sent()
            self._delivered.append((line, changes))
        else:
            line.queue.failed(changes, self._clock.monotonic(), failed.retry_after)
            level = logging.WARNING if line.failed(failed, self._clock.now()) else logging.DEBUG
            log.log(level, "not delivered", extra={"hook": hook.name, "change": changes[0], "detail": failed.detail})
        self._to_settle.set()
        line.wake.set()

    async def _settle(self) -> None:
        """Take what was delivered out of the store; only then may the next change of its page be sent."""
        while True:
            await self._to_settle.wait()
            await asyncio.sleep(LIMITS.gather_seconds)
            self._to_settle.clear()
            await self._settle_delivered()

    async def _settle_delivered(self) -> None:
        done = len(self._delivered)
        by_hook: dict[str, list[int]] = {}
        for line, changes in self._delivered:
            by_hook.setdefault(line.hook.name, []).extend(changes)
        async with self._writing:
            for name, settled in by_hook.items():
                self.lines[name].delivered(len(settled), self._clock.now())
            await self._write(QueueWrites(delivered=by_hook))
        del self._delivered[:done]
        for name, settled in by_hook.items():
            self.lines[name].queue.settle(settled)
            self.lines[name].wake.set()

    async def _write(self, writes: QueueWrites) -> None:
        """Write to the queue, with the figures as they are when the store takes it.

        Who is cancelled meanwhile waits for the end of the write: changes and the cursor behind them go together.
        """
        writing = asyncio.create_task(
            self._persistently(
                lambda: self._store.write(writes, {name: line.figures for name, line in self.lines.items()})
            )
        )
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing], timeout=LIMITS.last_seconds)
            if not writing.done():
                writing.cancel()
                self._cut_off = True
            await asyncio.gather(writing, return_exceptions=True)
            raise

    async def _persistently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again until the store takes it: nothing of it is sent meanwhile, and nothing is lost."""
        while True:
            try:
                return await attempt()
            except DamagedError:
                raise
            except StoreError as error:
                log.warning("the queue of the hooks cannot be used, trying again: %s", error)
                await asyncio.sleep(LIMITS.store_pause)
