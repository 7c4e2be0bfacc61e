"""The queue of the hooks in the store, on SQLite and on PostgreSQL alike, and the dispatcher over it."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from crawld.hooks.dispatcher import Dispatcher, Hook
from crawld.hooks.queue import HookPace
from crawld.model.clock import SystemClock
from crawld.model.crawl import Verdict
from crawld.model.url import UrlPattern
from crawld.store.hooks import HookDelivery, HookFigures, NotDelivered, Queued, QueueWrites
from crawld.store.store import SqlStore
from tests.support.process import HANG_SECONDS
from tests.support.store_builders import NOW, memory, record, rows, wanted

EVERY = frozenset({"new", "changed", "gone", "back", "moved"})


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A store with three pages."""
    store = SqlStore(store_url)
    await store.start()
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    yield store
    await store.close()


async def change(store: SqlStore, *pages: int, verdict: Verdict = Verdict.CHANGED) -> None:
    """Changes of these pages, one after the other."""
    for page in pages:
        store.record(record(page, verdict, at=NOW, memory=memory(page)))
    await store.flush()


async def test_a_new_hook_begins_with_the_next_change_and_keeps_its_place(store: SqlStore) -> None:
    """What was before is not told; what comes afterwards is news until the cursor is written."""
    queue = store.hooks
    await change(store, 1, 2)
    assert await queue.open_hooks(["x"]) == {"x": HookFigures(cursor=2)}
    await change(store, 3)
    news = await queue.news(2, 10)
    assert [(one.change, one.url, one.verdict) for one in news.changes] == [(3, "https://example.org/c", "changed")]
    document = json.loads(news.changes[0].document)
    assert document == {
        "id": 3, "page_id": 3, "url": "https://example.org/c", "at": NOW, "verdict": "changed", "magnitude": None,
        "version": None, "previous": None, "title": None, "language": None, "content_type": "text/html",
        "from": None, "to": None, "usage": None,
    }  # fmt: skip
    assert (await queue.open_hooks(["x"]))["x"].cursor == 2


async def test_what_waits_is_kept_until_it_is_delivered_or_dropped(store: SqlStore, store_url: str) -> None:
    """In one transaction with the hook's figures, hook by hook; a hook that is gone leaves nothing."""
    queue = store.hooks
    await queue.open_hooks(["x", "y"])
    await change(store, 1, 2, 1, 3)
    news = (await queue.news(0, 10)).changes
    added = [Queued(hook, one, NOW) for hook in ("x", "y") for one in news]
    await queue.write(QueueWrites(added), {"x": HookFigures(cursor=4)})
    figures = HookFigures(4, 1, 1, NOW, "503", NOW)
    await queue.write(QueueWrites(delivered={"x": [3]}, dropped_to={"x": 1, "y": 3}), {"x": figures})
    assert [one.change for one in await queue.waiting("x")] == [2, 4]
    assert [(one.change, one.page_id) for one in await queue.waiting("y")] == [(4, 3)]
    assert [one.change for one in await queue.documents("x", [1, 2, 3, 4])] == [2, 4]
    assert await queue.open_hooks(["x"]) == {"x": figures}
    assert await rows(store_url, "SELECT hook, change FROM deliveries ORDER BY change") == [("x", 2), ("x", 4)]


class Listening:
    """A transport that keeps what it is given and fails as it is told."""

    def __init__(self, fails: Callable[[], bool] = lambda: False, at_once: int = 1) -> None:
        self.at_once = at_once
        self.taken: list[dict[str, object]] = []
        self.tries = 0
        self._fails = fails

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Take the changes, or fail."""
        self.tries += 1
        await asyncio.sleep(0)
        if self._fails():
            return NotDelivered("no")
        self.taken += [json.loads(one.document) for one in deliveries]
        return None

    async def close(self) -> None:
        """Nothing is open."""


def hook(transport: Listening, pattern: str = "*", name: str = "x", most_waiting: int = 1000) -> Hook:
    """A hook without a rate that is tried again at once."""
    pace = HookPace(rate=1e6, concurrency=4, first_retry=0.001, longest_retry=0.01, longest_pause=0.01)
    return Hook(name, "test", transport, UrlPattern(pattern), EVERY, pace, most_waiting)


@asynccontextmanager
async def dispatching(store: SqlStore, *hooks: Hook) -> AsyncIterator[Dispatcher]:
    """A dispatcher at work."""
    dispatcher = Dispatcher(store.hooks, hooks, SystemClock(), random.Random(1))
    task = asyncio.create_task(dispatcher.run())
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while set(dispatcher.lines) != {one.name for one in hooks}:
                await asyncio.sleep(0.01)
        yield dispatcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(check: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(HANG_SECONDS):
        while not check():
            await asyncio.sleep(0.01)


async def test_every_change_comes_in_order_of_its_page_over_failures_and_restarts(store: SqlStore) -> None:
    """Half of the sendings fail and the dispatcher is broken off again and again: repeats are of the latest alone."""
    luck = random.Random(7)
    ear = Listening(lambda: luck.random() < 0.5)
    await store.hooks.open_hooks(["x"])
    for _ in range(5):
        await change(store, *(luck.randrange(1, 4) for _ in range(18)))
        async with dispatching(store, hook(ear)):
            told = len(ear.taken)
            await until(lambda seen=told: len(ear.taken) > seen + luck.randrange(15))  # type: ignore[misc]
    async with dispatching(store, hook(ear)) as dispatcher:
        await until(lambda: dispatcher.lines["x"].figures.cursor == 90 and not len(dispatcher.lines["x"].queue))
    by_page: dict[object, list[int]] = defaultdict(list)
    for one in ear.taken:
        by_page[one["url"]].append(int(str(one["id"])))
    for changes in by_page.values():
        assert changes == sorted(changes)
    assert {change for changes in by_page.values() for change in changes} == set(range(1, 91))


async def test_a_dead_receiver_loses_the_oldest_and_holds_up_nobody(store: SqlStore, store_url: str) -> None:
    """Another hook is told of everything; the dead one keeps the newest and counts the rest, also over a restart."""
    dead, well = Listening(lambda: True), Listening()
    await store.hooks.open_hooks(["dead", "well"])
    async with dispatching(store, hook(dead, name="dead", most_waiting=10), hook(well, name="well")):
        for _ in range(5):
            await change(store, 1, 2, 3, 1, 2)
        await until(lambda: len(well.taken) == 25)
        await until(lambda: dead.tries > 2)
        figures = "SELECT sum(delivered), sum(dropped), count(trouble) FROM hooks"
        async with asyncio.timeout(HANG_SECONDS):
            while await rows(store_url, figures) != [(25, 15, 1)]:  # they are written with a delay
                await asyncio.sleep(0.05)
    left = await rows(store_url, "SELECT change FROM deliveries WHERE hook = 'dead' ORDER BY change")
    assert [number for (number,) in left] == list(range(16, 26))
    kept = await store.hooks.open_hooks(["dead", "well"])
    assert (kept["dead"].dropped, kept["dead"].trouble, kept["dead"].delivered) == (15, "no", 0)
    assert (kept["well"].dropped, kept["well"].trouble, kept["well"].delivered) == (0, None, 25)


async def test_hooks_are_told_what_their_pattern_and_verdicts_say(store: SqlStore) -> None:
    """And the set of hooks can be replaced at any time: a new one begins with the next change."""
    first, other = Listening(), Listening()
    await store.hooks.open_hooks(["x"])
    async with dispatching(store, hook(first, "example.org/a")) as dispatcher:
        await change(store, 1, 2, verdict=Verdict.NEW)
        await until(lambda: len(first.taken) == 1)
        dispatcher.change_hooks([hook(first, "example.org/a"), hook(other, "*/b", name="y")])
        await until(lambda: "y" in dispatcher.lines)
        await change(store, 1, 2, 3, verdict=Verdict.GONE)
        await until(lambda: len(first.taken) == 2 and len(other.taken) == 1)
    assert [one["verdict"] for one in first.taken] == ["new", "gone"]
    assert other.taken[0]["url"] == "https://example.org/b"


async def test_a_dispatcher_that_is_stopped_while_it_writes_loses_nothing(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor never goes past changes that are not in the queue, whenever the dispatcher is stopped."""
    writing, write = asyncio.Event(), store.hooks.write

    async def slowly(writes: QueueWrites, figures: Mapping[str, HookFigures]) -> None:
        writing.set()
        await asyncio.sleep(0.1)
        await write(writes, figures)

    await store.hooks.open_hooks(["x"])
    await change(store, 1, 2, 3)
    monkeypatch.setattr(store.hooks, "write", slowly)
    async with dispatching(store, hook(Listening(lambda: True))):
        await writing.wait()
    ear = Listening()
    async with dispatching(store, hook(ear)):
        await until(lambda: len(ear.taken) == 3)


async def test_a_dispatcher_that_runs_again_after_a_cut_settlement_starts_from_the_store(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was delivered but not settled in one run comes again in the next, which knows nothing of the first."""
    write, settling = store.hooks.write, asyncio.Event()

    async def never(writes: QueueWrites, figures: Mapping[str, HookFigures]) -> None:
        if writes.delivered:
            settling.set()
            await asyncio.Event().wait()
        await write(writes, figures)

    await store.hooks.open_hooks(["x"])
    await change(store, 1, 2)
    ear = Listening()
    dispatcher = Dispatcher(store.hooks, [hook(ear)], SystemClock(), random.Random(1))
    monkeypatch.setattr(store.hooks, "write", never)
    first = asyncio.create_task(dispatcher.run())
    await settling.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    monkeypatch.setattr(store.hooks, "write", write)
    again = asyncio.create_task(dispatcher.run())
    await until(lambda: again.done() or (len(ear.taken) == 4 and not len(dispatcher.lines["x"].queue)))
    assert not again.done(), again.exception()
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_nothing_is_sent_while_another_process_may_be_sending(store: SqlStore) -> None:
    """A dispatcher that may not send keeps its changes and sends them when it may."""
    await store.hooks.open_hooks(["x"])
    await change(store, 1, 2)
    ear, allowed = Listening(), False
    dispatcher = Dispatcher(store.hooks, [hook(ear)], SystemClock(), random.Random(1), lambda: allowed)
    task = asyncio.create_task(dispatcher.run())
    await until(lambda: "x" in dispatcher.lines and dispatcher.lines["x"].failures > 3)
    assert ear.tries == 0
    allowed = True
    await until(lambda: len(ear.taken) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
