"""Pages that come to a running daemon's memory and leave it again, as the store has them: what shards are moved by."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from crawld.choose import policies
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.scheduler import Scheduler
from crawld.model.page import BY_HAND, Wanted
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.signals.poll_signals import PageIndex
from crawld.store.store import SqlStore

NOW = 1_000.0


class _Parts:
    def __init__(self, folder: Path) -> None:
        self.gate = HostGate(HostLimits(2.0, 60.0, 1), random.Random(1))
        self.scheduler = Scheduler(policies.choose("greedy-ncis").chooser(bandwidth=10.0, gate=self.gate))
        self.store, self.pages, self.index = SqlStore(f"sqlite:///{folder / 'x.db'}"), Pages(), PageIndex()
        self.page_set = PageSet(self.store, self.pages, self.scheduler, self.gate, self.index)

    async def adopt(self, **weights: float) -> None:
        wanted = [Wanted(f"https://{name}.example/", weight) for name, weight in weights.items()]
        await self.store.adopt(wanted, origin=BY_HAND, now=NOW, complete=False)


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[_Parts]:
    parts = _Parts(folder)
    await parts.store.start()
    try:
        yield parts
    finally:
        await parts.store.close()


async def test_pages_are_taken_in_once_and_found_by_signals(tmp_path: Path) -> None:
    """Taking them in a second time changes nothing."""
    async with _started(tmp_path) as parts:
        await parts.adopt(a=1.0, b=2.0, c=3.0)
        stored = await parts.store.restore()
        await parts.page_set.load(stored.part(slice(0, 2)), NOW)
        await parts.page_set.load(stored, NOW)
        assert len(parts.scheduler) == len(parts.pages) == len(parts.index) == 3
        assert sorted(parts.scheduler.importance_of(stored.ids.tolist()).tolist()) == [1.0, 2.0, 3.0]
        assert parts.page_set.hosts_of(stored.ids.tolist()) == {"a.example", "b.example", "c.example"}


async def test_a_page_that_is_being_crawled_leaves_when_it_is_given_back(tmp_path: Path) -> None:
    """Until then it is known, so that its crawl is recorded as that of a page of ours."""
    async with _started(tmp_path) as parts:
        await parts.adopt(a=1.0, b=2.0)
        stored = await parts.store.restore()
        await parts.page_set.load(stored, NOW)
        held = parts.scheduler.pick(NOW)
        assert held is not None
        assert await parts.page_set.drop_idle(stored.ids.tolist()) == [held]
        assert [page.id for page in parts.pages] == [held]
        parts.scheduler.settle(held, NOW)
        assert await parts.page_set.drop_idle(stored.ids.tolist()) == []
        assert len(parts.scheduler) == len(parts.pages) == len(parts.index) == 0


async def test_memory_follows_what_the_store_says_of_pages(tmp_path: Path) -> None:
    """Those that came are taken in, those that went are dropped, and others weigh what they weigh now."""
    async with _started(tmp_path) as parts:
        await parts.adopt(a=1.0, b=2.0)
        before = await parts.store.restore()
        await parts.page_set.load(before, NOW)
        await parts.adopt(b=5.0, c=7.0)
        await parts.store.retire(["https://a.example/"], now=NOW)
        after = await parts.store.restore()
        await parts.page_set.renew(np.union1d(before.ids, after.ids).tolist(), NOW)
        assert {page.host: page.importance for page in parts.pages} == {"b.example": 5.0, "c.example": 7.0}
        assert sorted(parts.scheduler.importance_of(after.ids.tolist()).tolist()) == [5.0, 7.0]


async def test_a_page_that_came_too_late_is_not_taken_in(tmp_path: Path) -> None:
    """While it was read, its shard may have been given away."""
    async with _started(tmp_path) as parts:
        await parts.adopt(a=1.0, b=2.0)
        ids = (await parts.store.restore()).ids.tolist()
        parts.page_set.keeps = lambda page_id: page_id == ids[0]
        await parts.page_set.renew(ids, NOW)
        assert [page.id for page in parts.pages] == ids[:1]


async def test_pages_that_others_keep_are_not_taken_in(tmp_path: Path) -> None:
    """A list may name pages of every shard; memory takes those it keeps."""
    async with _started(tmp_path) as parts:
        parts.page_set.keeps = lambda page_id: page_id % 2 == 0
        wanted = [Wanted(f"https://h{number}.example/") for number in range(6)]
        await parts.page_set.adopt(wanted, origin=BY_HAND, now=NOW)
        assert sorted(page.id for page in parts.pages) == [2, 4, 6]
        await parts.page_set.adopt([Wanted("https://h0.example/", 9.0)], origin=BY_HAND, now=NOW, complete=False)
        assert len(parts.scheduler) == 3


async def test_a_host_taken_over_waits_one_spacing_and_one_let_go_is_forgotten(tmp_path: Path) -> None:
    """Whoever held it before may have asked it just now."""
    async with _started(tmp_path) as parts:
        host = parts.gate.host_of_pages("a.example")
        parts.gate.wait_until(host, NOW + float(parts.gate.delay[host]))
        assert not parts.gate.ready(host, NOW + 1.9)
        assert parts.gate.ready(host, NOW + 2.0)
        parts.gate.acquire(host, NOW + 2.0)
        parts.gate.forget("a.example")
        assert parts.gate.knows("a.example")  # something is under way there
        parts.gate.finish(host, NOW + 3.0)
        parts.gate.forget("a.example")
        assert not parts.gate.knows("a.example")
