"""Several workers' stores on one real PostgreSQL: ids, numbers of changes, the fence, and reads of some shards."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from crawld.fleet.store import fleet_store as fleet_database
from crawld.fleet.store.fence import Term, fenced_by
from crawld.fleet.store.ledger import SqlLedger
from crawld.fleet.store.making import make_fleet
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.crawl import Verdict
from crawld.model.errors import DutyLostError, StoreError
from crawld.model.estimate import AgeCurve
from crawld.model.fetched import RobotsState
from crawld.model.host import HostState
from crawld.model.page import Page, Wanted
from crawld.model.shards import first_id, shard_of_host, shard_of_id
from crawld.model.signal import SignalTrust, Source
from crawld.store.address import parse_address
from crawld.store.batch import Record
from crawld.store.engine import writing_engine
from crawld.store.hooks import HookFigures, NewChange, Queued, QueueWrites
from crawld.store.retention import Retention
from crawld.store.sources import Poll, SourceFile
from crawld.store.store import SqlStore
from tests.support.process import HANG_SECONDS
from tests.support.store_builders import NOW, estimate, memory, record, rows, signal

SHARDS = 8
HOSTS = [f"h{i}.example" for i in range(24)]


@pytest.fixture
async def fleet(postgres_url: str) -> str:
    """A database that is a fleet's."""
    await make_fleet(postgres_url, SHARDS, 10.0)
    return postgres_url


@pytest.fixture
async def stores(fleet: str) -> AsyncIterator[list[SqlShardStore]]:
    """Two workers' stores: the first holds the even shards, the second the odd ones."""
    found = [SqlShardStore(fleet), SqlShardStore(fleet)]
    for number, store in enumerate(found):
        await store.start()
        store.hold({shard: 0 for shard in range(SHARDS) if shard % 2 == number})
    yield found
    for store in found:
        await store.close()


async def run(url: str, statement: str) -> None:
    """Run a statement as somebody else."""
    engine = writing_engine(parse_address(url))
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


def lines(*paths: str, hosts: Sequence[str] = HOSTS) -> list[Wanted]:
    """Lines of a URL list, these paths on each host."""
    return [Wanted(f"https://{host}/{path}") for path in paths for host in hosts]


def of(pages: Sequence[Page], number: int) -> list[Page]:
    """The pages whose shards the first or the second worker holds."""
    return [page for page in pages if shard_of_id(page.id) % 2 == number]


async def test_ids_are_unique_and_begin_with_the_shard_of_the_host(fleet: str, stores: list[SqlShardStore]) -> None:
    """Two who take over overlapping lists at once make one page of each URL, in the shard of its host."""
    await asyncio.gather(
        stores[0].adopt(lines("a", "b", "c"), origin="one", now=NOW, complete=False),
        stores[1].adopt(lines("b", "c", "d"), origin="two", now=NOW, complete=False),
    )
    found = await rows(fleet, "SELECT p.id, p.url, h.id, h.name FROM pages p JOIN hosts h ON h.id = p.host_id")
    assert len(found) == len({page for page, *_ in found}) == 4 * len(HOSTS)
    assert len({host for _, _, host, _ in found}) == len(HOSTS)
    for page, _, host, name in found:
        assert shard_of_id(int(str(page))) == shard_of_id(int(str(host))) == shard_of_host(str(name), SHARDS)


async def test_changes_are_numbered_without_gaps_in_the_order_of_commits(
    fleet: str, stores: list[SqlShardStore]
) -> None:
    """Whoever reads while two workers commit never sees a number before all smaller ones."""
    pages = (await stores[0].adopt(lines("a", "b"), origin="list", now=NOW)).added
    seen: list[int] = []
    done = asyncio.Event()

    async def consume() -> None:
        while not done.is_set() or len(await _after(fleet, seen)):
            found = await _after(fleet, seen)
            assert found == list(range(len(seen) + 1, len(seen) + 1 + len(found)))
            seen.extend(found)

    async def crawl(number: int) -> None:
        store = stores[number]
        for round_ in range(20):
            for page in of(pages, number):
                verdict = Verdict.CHANGED if round_ else Verdict.NEW
                tau = 1.0 if round_ else None
                store.record(record(page.id, verdict, at=NOW + round_, tau=tau, body=b"x", memory=memory(page.id)))
            await store.flush()

    async def both() -> None:
        await asyncio.gather(crawl(0), crawl(1))
        done.set()

    await asyncio.gather(consume(), both())
    assert len(seen) == 20 * len(pages)
    versions = await rows(fleet, "SELECT version FROM bodies ORDER BY version")
    assert [version for (version,) in versions] == seen
    wrong = "SELECT count(*) FROM bodies b JOIN changes c ON c.id = b.version WHERE c.page_id <> b.page_id"
    assert await rows(fleet, wrong) == [(0,)]


async def _after(url: str, seen: list[int]) -> list[int]:
    found = await rows(url, f"SELECT id FROM changes WHERE id > {len(seen)} ORDER BY id")
    return [int(str(number)) for (number,) in found]


async def test_rows_of_a_lost_shard_are_dropped_and_the_others_written(fleet: str, stores: list[SqlShardStore]) -> None:
    """The fence stands in the transaction: nothing of a shard that another claimed is written, and it is counted."""
    store, pages = stores[0], of((await stores[0].adopt(lines("a"), origin="list", now=NOW)).added, 0)
    lost = shard_of_id(pages[0].id)
    others = [page for page in pages if shard_of_id(page.id) != lost]
    await run(fleet, f"UPDATE fleet_shards SET epoch = 1 WHERE id = {lost}")
    for page in pages:
        store.record(record(page.id, Verdict.NEW, memory=memory(page.id), body=b"x"))
        store.record_signals([signal(page.id, at=NOW)])
    await store.flush()
    dropped = len(pages) - len(others)
    assert store.stale == 2 * dropped
    assert await rows(fleet, "SELECT DISTINCT page_id FROM crawls ORDER BY 1") == sorted((page.id,) for page in others)
    assert await rows(fleet, "SELECT count(*), max(id) FROM changes") == [(len(others), len(others))]
    assert await store.recall(pages[0].id) is None

    await store.save_estimates([estimate(page.id, at=NOW + 1) for page in pages])
    await store.save_age_curves(dict.fromkeys((page.host for page in pages), AgeCurve(0.0, 1.0, "")))
    await store.save_signal_trust([SignalTrust(page.host, Source.SITEMAP, True, 1.0, 1, "") for page in pages])
    for table in ("estimates", "age_curves", "signal_trust"):
        assert await rows(fleet, f"SELECT count(*) FROM {table}") == [(len(others),)]
    assert store.stale == 5 * dropped
    assert sorted(await store.dirty_pages(100)) == []


async def test_a_record_of_before_a_loss_is_not_written_under_a_later_epoch(
    fleet: str, stores: list[SqlShardStore]
) -> None:
    """A shard that was lost and claimed again had another owner: what was queued before counts no more."""
    store, page = stores[0], of((await stores[0].adopt(lines("a"), origin="list", now=NOW)).added, 0)[0]
    shard = shard_of_id(page.id)
    await run(fleet, f"UPDATE fleet_shards SET epoch = 2 WHERE id = {shard}")
    store.record(record(page.id, Verdict.NEW, at=NOW))  # by the epoch that the store knows
    store.hold({shard: 2})
    store.record(record(page.id, Verdict.NEW, at=NOW + 1))
    await store.flush()
    assert await rows(fleet, "SELECT at FROM crawls") == [(NOW + 1,)]
    assert store.stale == 1


async def test_a_record_outlives_a_lease_that_nobody_else_took(fleet: str, stores: list[SqlShardStore]) -> None:
    """Between the end of a lease and its return nobody held the shard: records of that time are written."""
    store, page = stores[0], of((await stores[0].adopt(lines("a"), origin="list", now=NOW)).added, 0)[0]
    store.hold({})
    store.record(record(page.id, Verdict.NEW))
    await store.flush()
    assert await rows(fleet, "SELECT page_id FROM crawls") == [(page.id,)]
    assert (await store.dirty_pages(10)).tolist() == []
    store.hold({shard_of_id(page.id): 0})
    assert (await store.dirty_pages(10)).tolist() == [page.id]


async def test_what_is_not_ours_is_not_queued(fleet: str, stores: list[SqlShardStore]) -> None:
    """A page of a shard that was never held is dropped; a host that a redirect led to is left to its owner."""
    page = of((await stores[0].adopt(lines("a"), origin="list", now=NOW)).added, 1)[0]
    stores[0].record(record(page.id, Verdict.NEW))
    stores[0].record_host(HostState(page.host, failures=3))
    await stores[0].flush()
    assert stores[0].stale == 1
    assert await rows(fleet, "SELECT count(*) FROM crawls") == [(0,)]
    assert await rows(fleet, "SELECT max(failures) FROM hosts") == [(0,)]


async def test_a_worker_loads_its_own_shards_alone(fleet: str, stores: list[SqlShardStore]) -> None:
    """Pages, hosts, robots.txt, source files, age curves and dirty pages come by shard."""
    pages = (await stores[0].adopt(lines("a", "b"), origin="list", now=NOW)).added
    for number, store in enumerate(stores):
        for page in of(pages, number):
            store.record(Record(record(page.id, Verdict.NEW).crawl, record(page.id).state, host=HostState(page.host)))
            store.record_robots(RobotsState(f"https://{page.host}", "crawld", NOW, NOW, None, None, 0, "ok"))
            file = SourceFile(f"https://{page.host}/sitemap.xml", Source.SITEMAP, page.host, NOW, b"state")
            store.record_poll(Poll(file))
        await store.flush()
        await store.save_age_curves({page.host: AgeCurve(0.0, 1.0, "") for page in of(pages, number)})
    fresh = SqlShardStore(fleet)
    await fresh.start()
    fresh.hold({2: 0, 3: 0})
    shards = await fresh.load([2])
    names = {host for host in HOSTS if shard_of_host(host, SHARDS) == 2}
    ours = sorted(page.id for page in pages if page.host in names)
    assert shards.pages.ids.tolist() == ours
    assert set(shards.pages.hosts) == names
    assert {state.name for state in shards.hosts} == names
    assert {state.origin for state in shards.robots} == {f"https://{name}" for name in names}
    assert {file.host for file in shards.sources} == set(shards.age_curves) == names
    assert sorted(await fresh.dirty_pages(100)) == ours
    assert (await fresh.crawled_in([2], first_id(2), 1)).tolist() == ours[:1]
    assert (await fresh.crawled_pages(0, 100)).tolist() == sorted(
        page.id for page in pages if shard_of_id(page.id) in {2, 3}
    )
    await fresh.close()


async def test_a_worker_that_lost_a_duty_writes_nothing_more_for_it(fleet: str, stores: list[SqlShardStore]) -> None:
    """Neither the queue of hooks nor the list nor settings, also from tasks begun during the term; a new term may."""
    ledger, other = SqlLedger(fleet), SqlLedger(fleet)
    worker, successor = await ledger.join("w"), await other.join("successor")
    term = Term("hooks", worker, await ledger.take_duty(worker, "hooks") or 0)
    queued = Queued("x", NewChange(1, 1, "https://h1.example/", "changed", "{}"), NOW)

    async def write() -> None:
        await stores[0].hooks.write(QueueWrites([queued]), {"x": HookFigures(cursor=1)})

    with fenced_by(term):
        await write()
        await write()  # the same again adds nothing
        await ledger.give_duty(worker, "hooks")
        assert await other.take_duty(successor, "hooks") == term.epoch + 1
        for attempt in (write(), asyncio.create_task(write()), stores[0].change_setting("paused", "yes", now=NOW)):
            with pytest.raises(DutyLostError, match="another worker has the duty hooks"):
                await attempt
        with pytest.raises(DutyLostError):
            await stores[0].adopt(lines("/new"), origin="list", now=NOW)
    assert await rows(fleet, "SELECT hook, change FROM deliveries") == [("x", 1)]
    assert await rows(fleet, "SELECT count(*) FROM settings WHERE name = 'paused'") == [(0,)]
    assert await rows(fleet, "SELECT count(*) FROM pages") == [(0,)]
    await write()  # what is no part of a duty is not fenced by one
    for one in (ledger, other):
        await one.close()


async def test_hooks_that_a_worker_does_not_know_keep_their_queue(fleet: str, stores: list[SqlShardStore]) -> None:
    """Settings of workers may differ for a while: taking the duty forgets nothing."""
    queued = Queued("x", NewChange(1, 1, "https://h1.example/", "changed", "{}"), NOW)
    await stores[0].hooks.write(QueueWrites([queued]), {"x": HookFigures(cursor=1)})
    await stores[1].hooks.open_hooks(["y"])
    assert await rows(fleet, "SELECT hook, change FROM deliveries") == [("x", 1)]


async def test_new_hosts_get_one_id_whoever_comes_first(fleet: str, stores: list[SqlShardStore]) -> None:
    """A worker that learns of a host and one who takes over a list with it agree on its row."""
    ours = [host for host in HOSTS if shard_of_host(host, SHARDS) % 2 == 0]
    for host in ours:
        stores[0].record_host(HostState(host, failures=1))
    await asyncio.gather(stores[0].flush(), stores[1].adopt(lines("a"), origin="list", now=NOW))
    found = await rows(fleet, "SELECT name, failures FROM hosts ORDER BY name")
    assert found == sorted((host, int(host in ours)) for host in HOSTS)


async def test_a_single_daemon_and_a_fleet_exclude_each_other(fleet: str, postgres_url: str) -> None:
    """A fleet's database is no single daemon's, whether workers run or not; and another database is no fleet's."""
    with pytest.raises(StoreError, match="is a fleet's: `crawld fleet run`"):
        await SqlStore(fleet).start()
    worker = SqlShardStore(fleet)
    await worker.start()
    with pytest.raises(StoreError, match="in use by another crawld"):
        await SqlStore(fleet).start()
    await worker.close()
    await run(postgres_url, "DELETE FROM fleet")
    with pytest.raises(StoreError, match="is no fleet's: `crawld fleet init`"):
        await SqlShardStore(postgres_url).start()
    with pytest.raises(StoreError, match="a fleet needs PostgreSQL"):
        SqlShardStore("sqlite:////nowhere/x.db")


async def test_pages_of_every_shard_are_pruned(fleet: str) -> None:
    """A worker bounds the rows of pages that it crawls; whoever has the duty walks over all shards."""
    store = SqlShardStore(fleet, retention=Retention(crawls_per_page=2, days=10))
    await store.start()
    store.hold(dict.fromkeys(range(SHARDS), 0))
    pages = (await store.adopt(lines("a", "b"), origin="list", now=NOW)).added
    for page in pages:
        for at in range(4):
            store.record(record(page.id, Verdict.UNCHANGED, at=time.time() + at, tau=1.0))
    await store.flush()
    while await store.prune_own():
        pass
    assert await rows(fleet, "SELECT DISTINCT count(*) FROM crawls GROUP BY page_id") == [(2,)]
    await store.adopt(lines("a"), origin="list", now=NOW)  # retires the others long ago
    for _ in range(3 * SHARDS):
        await store.prune()
    assert await rows(fleet, "SELECT count(*) FROM pages") == [(len(HOSTS),)]
    await store.close()


async def test_most_updates_of_pages_are_heap_only(fleet: str, stores: list[SqlShardStore]) -> None:
    """No index holds what a crawl without a change writes: the new row stays beside the old one."""
    pages = of((await stores[0].adopt(lines("a", "b", "c"), origin="list", now=NOW)).added, 0)
    for round_ in range(11):
        for page in pages:
            verdict = Verdict.UNCHANGED if round_ else Verdict.NEW
            stores[0].record(record(page.id, verdict, at=NOW + round_, tau=1.0 if round_ else None))
        await stores[0].flush()
        await stores[0].save_estimates([estimate(page.id, at=NOW + round_) for page in pages])
    await stores[0].close()  # the server counts what a connection did at its end
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'pages'"
    while (updates := (await rows(fleet, counted))[0])[0] != 11 * len(pages):
        await asyncio.sleep(0.01)
    assert int(str(updates[1])) > 0.8 * int(str(updates[0]))


async def test_shards_are_loaded_while_a_list_brings_new_hosts(stores: list[SqlShardStore]) -> None:
    """Pages and the hosts they belong to are read as of one moment, whatever is written meanwhile."""
    ours = range(0, SHARDS, 2)

    async def adopt() -> None:
        for number in range(30):
            news = lines("a", hosts=[f"n{number}-{i}.example" for i in range(10)])
            await stores[1].adopt(news, origin="list", now=NOW, complete=False)

    adopting = asyncio.create_task(adopt())
    while not adopting.done():
        found = (await stores[0].load(ours)).pages
        assert all(url == f"https://{host}/a" for url, host in zip(found.urls, found.hosts, strict=True))
    await adopting
    assert (await stores[0].load(ours)).pages.urls


async def test_a_server_that_does_not_answer_is_let_go(
    fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that was cut off without a word is broken off: writes and questions go over new ones."""
    monkeypatch.setattr(
        fleet_database, "LIMITS", dataclasses.replace(fleet_database.LIMITS, max_transaction_seconds=2.0)
    )
    monkeypatch.setattr(SqlShardStore, "max_answer_seconds", 2.0)
    silent, over = asyncio.Event(), asyncio.Event()
    connections: list[Any] = []
    address = parse_address(fleet).url
    server = Path(str(address.query["host"])) / ".s.PGSQL.5432"

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if silent.is_set():
                await over.wait()
                break
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        there, back = await asyncio.open_unix_connection(server)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    async with await asyncio.start_unix_server(connect, tmp_path / ".s.PGSQL.5432"):
        store = SqlShardStore(f"postgresql://postgres@/{address.database}?host={tmp_path}")
        await store.start()
        store.hold(dict.fromkeys(range(SHARDS), 0))
        page = (await store.adopt(lines("a"), origin="list", now=NOW)).added[0]
        assert await store.setting("none") is None
        silent.set()
        store.record(record(page.id, Verdict.NEW))
        asking = [asyncio.create_task(ask) for ask in (store.recall(page.id), store.histories(np.array([page.id])))]
        while store.healthy or caplog.text.count("does not answer") < len(asking):
            await asyncio.sleep(0.01)
        assert "closed" in (store.trouble or "")
        silent.clear()
        await store.flush()
        assert store.lost == 0
        await asyncio.wait_for(asyncio.gather(*asking), HANG_SECONDS)
        await store.close()
        over.set()
        await asyncio.wait(connections)
    assert await rows(fleet, "SELECT page_id FROM crawls") == [(page.id,)]
