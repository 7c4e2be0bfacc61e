"""The shards in a worker's memory: loaded while others are served, and unloaded without losing what is under way."""

import asyncio
import gc
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.crawl.host_frames import Frames
from crawld.crawl.loop import Crawler
from crawld.crawl.polls import Polls
from crawld.fetch.robots_cache import RobotsCache
from crawld.fleet.learner import ShardLearner
from crawld.fleet.store.shard_store import SqlShardStore, StoredShards
from crawld.model.shards import LIMITS as SHARDS_LIMITS
from crawld.model.shards import shard_of_host, shard_of_id
from crawld.model.signal import Signal, Source
from crawld.model.web import Clock
from crawld.pages.page_set import PageSet, bound_waste
from crawld.show.control import steer
from crawld.signals.poll_signals import keys_of
from crawld.signals.polled_sources import PolledSources


@dataclass(frozen=True)
class ShardSetLimits:
    """Numbers that bound and tune this module."""

    hosts_at_once: int = 500
    """Hosts that are taken in or forgotten in one turn of the loop."""
    pages_at_once: int = 5_000
    """Pages that are looked up in one turn of the loop."""
    look_seconds: float = 0.05
    """Between two looks at what is still under way of shards that are to go."""


LIMITS = ShardSetLimits()


T = TypeVar("T")


@dataclass(slots=True)
class ShardSet:
    """Takes shards in and out of everything that is held in memory of pages and hosts."""

    store: SqlShardStore
    page_set: PageSet
    scheduler: Scheduler
    gate: HostGate
    robots: RobotsCache
    sources: PolledSources
    polls: Polls
    frames: Frames
    crawler: Crawler
    clock: Clock
    shards: Callable[[], int]  # how many the fleet has
    learner: ShardLearner
    present: dict[int, int] = field(default_factory=dict)  # the epochs as of which shards are in memory, if half
    loaded: set[int] = field(default_factory=set)  # those of them that are in memory whole

    def shard(self, host: str) -> int:
        """The shard of a host."""
        return shard_of_host(host, self.shards())

    def strange(self, held: Mapping[int, int]) -> list[int]:
        """Shards in memory that are not held, or not by the epoch as of which they were read."""
        return sorted(shard for shard, epoch in self.present.items() if held.get(shard) != epoch)

    async def load(self, epochs: Mapping[int, int]) -> int:
        """Read shards and take them in; how many pages they have. Slots are served meanwhile.

        What the previous owner asked of a host in its last second is unknown: each waits one spacing.
        """
        bound_waste()
        gc.disable()  # millions of objects are made: to look through them for garbage again and again costs seconds
        try:
            stored = await self.store.load(list(epochs))
            await self._take_in(stored, epochs)
        finally:
            gc.enable()
            gc.freeze()
        return len(stored.pages.ids)

    async def _take_in(self, stored: StoredShards, epochs: Mapping[int, int]) -> None:
        self.present.update(epochs)
        names = list(dict.fromkeys(stored.pages.hosts))
        await _in_slices(names, self.gate.host_of_pages)  # first, because of the others the gate keeps only so many
        await _in_slices(stored.hosts, self.gate.restore)
        await _in_slices(names, self._let_wait)
        now = self.clock.now()
        for host, curve in stored.age_curves.items():
            self.scheduler.set_age_curve(self.gate.host_of_pages(host), curve)
        self.robots.restore(stored.robots, own=True)  # before the first page is picked
        await self.page_set.load(stored.pages, now)
        self.sources.restore(stored.sources)
        for poll in self.sources.watch_given(now, lambda host: self.shard(host) in epochs):
            self.store.record_poll(poll)
        self.loaded.update(epochs)
        self.learner.recall_later(list(epochs))

    def keeps(self, page_id: int) -> bool:
        """Tells whether a page belongs to a shard that is in memory."""
        return shard_of_id(page_id) in self.loaded

    def steer_host(
        self, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
    ) -> None:
        """Take over what the operator said of a host that is held; it is written again, over what may be queued."""
        if self.gate.knows(name):
            self.store.record_host(steer(self.gate, name, blocked=blocked, delay=delay, drop_delay=drop_delay))

    def leave_room(self, host: str, at: float, until: float) -> None:
        """Ask a host nothing for one spacing before and after a request of another worker."""
        if self.gate.knows(host):
            delay = float(self.gate.delay[self.gate.host(host)])
            begin = max(at - delay - self.clock.now(), 0.0)
            asyncio.get_running_loop().call_later(begin, self._pause, host, until + delay)

    def _pause(self, name: str, until: float) -> None:
        if self.gate.knows(name):
            self.crawler.admission.pause(self.gate.host(name), until)

    def hear(self, told: Sequence[tuple[str, str, float, float | None]]) -> None:
        """Take signals that others were sent: URL, source, when it was seen, and what time it claims."""
        positions, ids = self.sources.pages.find(keys_of(url for url, *_ in told))
        signals = []
        for position, page_id in zip(positions.tolist(), ids.tolist(), strict=True):
            _, source, seen_at, claimed_at = told[position]
            last = self.scheduler.last_success(page_id)
            if not math.isnan(last):
                stale = claimed_at is not None and claimed_at <= last
                signals.append(Signal(page_id, Source(source), seen_at, claimed_at, stale))
        self.polls.take(signals)

    async def unload(self, shards: Sequence[int], seconds: float) -> None:
        """Forget shards: pick no page of theirs, let what is under way finish for so long, and give up the rest."""
        until = self.clock.monotonic() + seconds
        self.loaded.difference_update(shards)
        ids = self.scheduler.ids()
        pages = left = ids[np.isin(ids >> SHARDS_LIMITS.id_bits, list(shards))].tolist()
        hosts = await self._hosts(pages, set(shards))
        while True:
            left, polled = await self.page_set.drop_idle(left), self.sources.unwatch(hosts)
            busy = left or polled or self.crawler.busy(hosts)
            if not busy or self.clock.monotonic() >= until:
                break
            await asyncio.sleep(LIMITS.look_seconds)
        await self.crawler.give_up(hosts)
        await self.page_set.drop_idle(left)
        self.sources.unwatch(hosts)
        await _in_slices(list(hosts), self._forget_host)
        self.learner.forget(shards, pages)
        for shard in shards:
            self.present.pop(shard, None)

    async def _hosts(self, page_ids: Sequence[int], shards: Container[int]) -> set[str]:
        """The hosts of these pages, and those of these shards that have files which are polled."""
        hosts = {file.host for file in self.sources.schedule if self.shard(file.host) in shards}
        for start in range(0, len(page_ids), LIMITS.pages_at_once):
            hosts.update(self.page_set.hosts_of(page_ids[start : start + LIMITS.pages_at_once]))
            await asyncio.sleep(0)
        return hosts

    def _let_wait(self, name: str) -> None:
        host = self.gate.host_of_pages(name)
        self.crawler.admission.pause(host, self.clock.now() + float(self.gate.delay[host]))

    def _forget_host(self, name: str) -> None:
        self.scheduler.set_age_curve(self.gate.host(name), None)
        self.gate.forget(name)
        self.robots.forget(name)
        self.frames.forget(name)


async def _in_slices(items: Sequence[T], do: Callable[[T], object]) -> None:
    """Do something with each of many hosts, some in one turn of the loop."""
    for start in range(0, len(items), LIMITS.hosts_at_once):
        for item in items[start : start + LIMITS.hosts_at_once]:
            do(item)
        await asyncio.sleep(0)
