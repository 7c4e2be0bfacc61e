"""Pages, hosts and settings of a fleet, changed from any machine and told to the workers by mail."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from crawld.fleet.status import FleetHistory
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.fleet.store.ledger import Report, SqlLedger
from crawld.fleet.store.making import make_fleet, next_changes
from crawld.model.errors import StoreError
from crawld.model.page import BY_HAND, Wanted
from crawld.model.shards import first_id, shard_of_host, shard_of_id
from crawld.store.address import parse_address
from crawld.store.batch import FreshnessPoint
from crawld.store.engine import writing_engine
from crawld.store.store import SqlStore
from tests.support.store_builders import NOW, rows

SHARDS = 8
Opener = Callable[[], SqlFleetStore]


@pytest.fixture
async def fleet(postgres_url: str) -> AsyncIterator[Opener]:
    """Stores of a new fleet, each with connections of its own."""
    await make_fleet(postgres_url, SHARDS, 10.0)
    opened: list[SqlFleetStore] = []

    def one() -> SqlFleetStore:
        opened.append(SqlFleetStore(postgres_url, time.monotonic))
        return opened[-1]

    yield one
    for each in opened:
        await each.close()


def listed(*hosts: str, pages: int = 2) -> list[Wanted]:
    """Lines of a list, some on each host."""
    return [Wanted(f"https://{host}/{number}") for host in hosts for number in range(pages)]


async def told(url: str) -> dict[int, list[int]]:
    """The pages that whoever holds a shard is told of."""
    found: dict[int, list[int]] = {}
    for shard, body in await rows(url, "SELECT shard, body FROM fleet_mail WHERE kind = 'pages' ORDER BY id"):
        assert isinstance(shard, int)
        found.setdefault(shard, []).extend(json.loads(str(body))["ids"])
    return found


async def test_pages_get_ids_of_their_hosts_shard(fleet: Opener, postgres_url: str) -> None:
    """Pages and hosts alike, one after the other; the holders of the shards are told of all of them."""
    store = fleet()
    await store.start()
    adoption = await store.adopt(listed("a.example", "b.example", "c.example"), origin=BY_HAND, now=NOW)
    assert len(adoption.added) == 6
    for page in adoption.added:
        assert shard_of_id(page.id) == shard_of_host(page.host, SHARDS)
    elsewhere = "SELECT count(*) FROM pages WHERE id >> 40 <> host_id >> 40"
    assert await rows(postgres_url, elsewhere) == [(0,)]
    mail = await told(postgres_url)
    assert sorted(page for pages in mail.values() for page in pages) == sorted(page.id for page in adoption.added)
    assert all(shard_of_id(page) == shard for shard, pages in mail.items() for page in pages)
    assert min(page.id - first_id(shard_of_id(page.id)) for page in adoption.added) == 1


async def test_two_who_add_the_same_pages_at_once_add_them_once(fleet: Opener, postgres_url: str) -> None:
    """They take turns, chunk by chunk."""
    stores = [fleet() for _ in range(3)]
    for store in stores:
        await store.start()
    wanted = listed(*(f"h{i}.example" for i in range(20)), pages=5)
    done = await asyncio.gather(*(store.adopt(wanted, origin=BY_HAND, now=NOW) for store in stores))
    assert sum(len(adoption.added) for adoption in done) == 100
    assert await rows(postgres_url, "SELECT count(*), count(DISTINCT url) FROM pages") == [(100, 100)]


async def test_pages_that_go_are_told_too(fleet: Opener, postgres_url: str) -> None:
    """And those that come back or weigh otherwise."""
    store = fleet()
    await store.start()
    (page,) = (await store.adopt(listed("a.example", pages=1), origin=BY_HAND, now=NOW)).added
    assert [one.id for one in await store.pages.retire([page.url, "https://a.example/unknown"], now=NOW)] == [page.id]
    assert (await store.adopt([Wanted(page.url)], origin=BY_HAND, now=NOW)).returned
    assert (await store.adopt([Wanted(page.url, 5.0)], origin=BY_HAND, now=NOW)).reweighted
    assert not (await store.adopt([Wanted(page.url, 5.0)], origin=BY_HAND, now=NOW)).reweighted
    assert await told(postgres_url) == {shard_of_id(page.id): [page.id] * 4}


async def test_a_host_is_steered_and_its_worker_told(fleet: Opener, postgres_url: str) -> None:
    """Its row changes in the transaction that leaves the mail; a host without pages is not known."""
    store = fleet()
    await store.start()
    await store.adopt(listed("a.example"), origin=BY_HAND, now=NOW)
    state = await store.steer_host("a.example", lambda old: replace(old, blocked=True), {"blocked": True})
    assert state is not None
    assert state.blocked
    (page, *_) = (await store.adopt([Wanted("https://a.example/0", 3.0)], origin=BY_HAND, now=NOW)).reweighted
    found = await store.stored_page(page.id)
    assert found is not None
    assert list(found.hosts) == [state]
    assert await store.stored_page(page.id + 99) is None
    assert await rows(postgres_url, "SELECT shard, body FROM fleet_mail WHERE kind = 'host'") == [
        (shard_of_host("a.example", SHARDS), '{"name":"a.example","blocked":true}')
    ]
    assert await store.steer_host("b.example", lambda old: old, {}) is None


async def test_a_fleet_and_a_single_daemon_exclude_each_other(fleet: Opener, postgres_url: str) -> None:
    """Whoever steers a fleet shares its lock; a daemon wants it for itself."""
    store = fleet()
    await store.start()
    await store.change_setting("bandwidth", "3.0", now=NOW)
    with pytest.raises(StoreError, match="in use by another crawld"):
        await SqlStore(postgres_url).start()
    assert (await store.view()).bandwidth == 3.0
    await store.change_setting("paused", "yes", now=NOW)
    assert (await store.view()).paused


async def test_what_is_no_fleet_is_refused(postgres_url: str) -> None:
    """With what makes it one."""
    store = SqlStore(postgres_url)
    await store.start()
    await store.close()
    with pytest.raises(StoreError, match="is no fleet's: `crawld fleet init` makes it one"):
        await SqlFleetStore(postgres_url, time.monotonic).start()


async def test_a_beat_tells_the_number_of_the_latest_change(fleet: Opener, postgres_url: str) -> None:
    """It moves with every commit of changes, whichever worker commits them."""
    await fleet().start()
    ledger = SqlLedger(postgres_url, settle_seconds=0.0, lease_seconds=3600.0, command_seconds=60.0)
    worker = await ledger.join("w1")
    assert (await ledger.beat(worker, Report())).last_change == 0
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        assert await next_changes(connection, 2) == 1
    await engine.dispose()
    assert (await ledger.beat(worker, Report())).last_change == 2
    await ledger.close()


async def test_the_history_has_one_point_a_tick_for_the_fleet(fleet: Opener, postgres_url: str) -> None:
    """Of all workers together, in the worker that has the duty."""
    store = fleet()
    await store.start()
    for name in ("w1", "w2"):
        ledger = SqlLedger(postgres_url, settle_seconds=0.0, lease_seconds=3600.0, command_seconds=60.0)
        await ledger.beat(await ledger.join(name), Report(pages=5, fresh=1.0, weight=2.0, request_rate=3.0))
        await ledger.close()
    points: asyncio.Queue[FreshnessPoint] = asyncio.Queue()
    history = asyncio.create_task(FleetHistory(store, points.put_nowait, 0.01).run())
    point = await points.get()
    history.cancel()
    assert (point.pages, point.predicted, point.request_rate, point.bandwidth) == (10, 0.5, 6.0, 10.0)


async def test_some_shards_stand_for_all_pages(fleet: Opener, postgres_url: str) -> None:
    """Where pages are few, all of them do; else whole shards, and what part of all they are is known."""
    store = fleet()
    await store.start()
    await store.adopt(listed(*(f"h{i}.example" for i in range(40)), pages=10), origin=BY_HAND, now=NOW)
    whole = await store.stored_part(1_000, NOW)
    assert (len(whole.pages.ids), whole.part) == (400, 1.0)
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        await connection.execute(text("ANALYZE pages"))
    await engine.dispose()
    some = await store.stored_part(100, NOW)
    assert 0 < some.part < 1
    assert some.part == len(some.pages.ids) / 400
    assert len({shard_of_id(page) for page in some.pages.ids.tolist()}) <= 2
    assert {host.name for host in some.hosts} == set(some.pages.hosts)
