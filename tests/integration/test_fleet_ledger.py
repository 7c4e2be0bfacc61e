"""The fleet's ledger on a real PostgreSQL: leases, epochs, rounds and mail, with several workers at once."""

import asyncio
import math
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import text

from crawld.choose.chooser import Bid
from crawld.crawl.admission import Booking
from crawld.fleet.store.fence import holding
from crawld.fleet.store.ledger import LeaseLostError, Report, SqlLedger, TurnWanted
from crawld.fleet.store.making import Mail, leave_mail, make_fleet, next_changes, next_ids
from crawld.model.errors import InputError, StoreError
from crawld.model.shards import first_id
from crawld.store.address import parse_address
from crawld.store.engine import writing_engine
from tests.support.process import HANG_SECONDS
from tests.support.store_builders import rows

SHARDS = 12
BANDWIDTH = 10.0
PATIENT = {"settle_seconds": 0.0, "lease_seconds": 600.0, "command_seconds": 60.0}
"""Nothing here ends by itself, however busy the machine is."""
LedgerMaker = Callable[..., SqlLedger]


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[LedgerMaker]:
    """Ledgers of a new fleet, each with connections of its own; they claim without waiting for others to return."""
    await make_fleet(postgres_url, SHARDS, BANDWIDTH)
    opened: list[SqlLedger] = []

    def one(**options: float) -> SqlLedger:
        opened.append(SqlLedger(postgres_url, **(PATIENT | options)))
        return opened[-1]

    yield one
    for each in opened:
        await each.close()


async def run(url: str, statement: str) -> None:
    """Change the database behind everybody's back."""
    engine = writing_engine(parse_address(url))
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


async def let_expire(url: str, worker: str) -> None:
    """Let a worker's lease end."""
    await run(url, f"UPDATE fleet_workers SET expires = expires - 660 WHERE id = '{worker}'")


async def in_second_half(url: str) -> float:
    """Seconds that a round must last so that three quarters of one are over now."""
    ((now,),) = await rows(url, "SELECT extract(epoch FROM clock_timestamp())::float8")
    assert isinstance(now, float)
    return now / 1000.75


async def test_a_lease_is_renewed_and_ends_for_good(ledger: LedgerMaker, postgres_url: str) -> None:
    """A beat moves the end of the lease; one that comes after it finds no worker, then and ever after."""
    one = ledger()
    worker = await one.join("w")
    first, second = await one.beat(worker, Report()), await one.beat(worker, Report())
    assert first.now < second.now
    assert second.expires == pytest.approx(second.now + 600.0)
    await let_expire(postgres_url, worker)
    for _ in range(2):
        with pytest.raises(LeaseLostError):
            await one.beat(worker, Report())
    again = await one.join("w")
    assert again != worker
    assert (await one.beat(again, Report())).workers == 1


async def test_a_lease_that_somebody_found_over_is_never_renewed(ledger: LedgerMaker, postgres_url: str) -> None:
    """Even where the clock goes back afterwards."""
    one, two = ledger(), ledger()
    dead, alive = await one.join("dead"), await two.join("alive")
    await let_expire(postgres_url, dead)
    await two.claim(alive, 1, {})
    await run(postgres_url, f"UPDATE fleet_workers SET expires = expires + 1320 WHERE id = '{dead}'")
    with pytest.raises(LeaseLostError):
        await one.beat(dead, Report())


async def test_claims_are_disjoint_and_epochs_rise(ledger: LedgerMaker, postgres_url: str) -> None:
    """Workers that claim at the same time share the shards out; a shard that changes hands has another epoch."""
    ledgers = [ledger() for _ in range(4)]
    workers = [await each.join("w") for each in ledgers]
    claimed = await asyncio.gather(*(each.claim(w, SHARDS // 2, {}) for each, w in zip(ledgers, workers)))
    taken = Counter(lease.shard for leases in claimed for lease in leases)
    assert set(taken.values()) == {1}
    assert {lease.epoch for leases in claimed for lease in leases} == {1}
    beats = [await each.beat(w, Report()) for each, w in zip(ledgers, workers)]
    assert [dict(beat.held) for beat in beats] == [{lease.shard: 1 for lease in leases} for leases in claimed]
    assert {beat.workers for beat in beats} == {4}
    assert beats[0].free == SHARDS - len(taken)
    for worker in workers[1:]:
        await let_expire(postgres_url, worker)
    assert (await ledgers[0].beat(workers[0], Report())).free == SHARDS - len(claimed[0])
    more = await ledgers[0].claim(workers[0], SHARDS, {})
    assert {lease.shard for lease in more} == set(range(SHARDS)) - {lease.shard for lease in claimed[0]}
    assert {lease.epoch for lease in more if lease.shard in taken} <= {2}


async def test_former_shards_come_back_with_their_epoch(ledger: LedgerMaker, postgres_url: str) -> None:
    """They need not be loaded again; one that had another owner meanwhile is claimed like any other."""
    one, two = ledger(settle_seconds=3600.0), ledger()
    worker, other = await one.join("w"), await two.join("other")
    await run(postgres_url, f"UPDATE fleet_workers SET steady_since = 0 WHERE id = '{worker}'")
    former = {lease.shard: lease.epoch for lease in await one.claim(worker, SHARDS, {})}
    await let_expire(postgres_url, worker)
    (lost,) = (lease.shard for lease in await two.claim(other, 1, {}))
    again = await one.join("w")
    back = await one.claim(again, SHARDS, former)
    assert {lease.shard: lease.epoch for lease in back} == {s: e for s, e in former.items() if s != lost}


async def test_a_worker_that_has_just_come_claims_only_its_own(ledger: LedgerMaker, postgres_url: str) -> None:
    """After an outage the others may be about to return; so it is after a silence within the lease."""
    one = ledger(settle_seconds=600.0)
    worker = await one.join("w")
    assert await one.claim(worker, 4, {}) == []
    await run(postgres_url, "UPDATE fleet_workers SET steady_since = steady_since - 700")
    assert len(await one.claim(worker, 4, {})) == 4
    await run(postgres_url, "UPDATE fleet_workers SET expires = expires - 301")
    await one.beat(worker, Report())
    assert await one.claim(worker, 4, {}) == []


async def test_released_shards_are_free(ledger: LedgerMaker) -> None:
    """Whoever leaves gives everything back, and is not counted any more."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    held = [lease.shard for lease in await one.claim(worker, SHARDS, {})]
    await one.release(worker, held[:3])
    assert {lease.shard for lease in await two.claim(other, SHARDS, {})} == set(held[:3])
    await two.release(other, held[3:])  # not its own: nothing happens
    assert set((await one.beat(worker, Report())).held) == set(held[3:])
    await one.leave(worker)
    beat = await two.beat(other, Report())
    assert (beat.workers, beat.free) == (1, SHARDS - 3)
    with pytest.raises(LeaseLostError):
        await one.beat(worker, Report())


async def test_a_shard_under_a_write_is_not_claimed(ledger: LedgerMaker, postgres_url: str) -> None:
    """The fence names the shards that are still ours and keeps them until the commit; then others may have them."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    leases = {lease.shard: lease.epoch for lease in await one.claim(worker, 2, {})}
    await let_expire(postgres_url, worker)
    first, second = leases
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        assert await holding(connection, leases | {second: 99}) == {first}
        assert first not in {lease.shard for lease in await two.claim(other, SHARDS, {})}
    assert [lease.shard for lease in await two.claim(other, SHARDS, {})] == [first]
    async with engine.begin() as connection:
        assert await holding(connection, leases) == set()
        assert await holding(connection, {}) == set()
    await engine.dispose()


@pytest.mark.parametrize("seed", range(3))
async def test_grants_never_sum_to_more_than_the_bandwidth(ledger: LedgerMaker, postgres_url: str, seed: int) -> None:
    """Whatever they bid, and in whatever order and company beats come; each round is cleared once."""
    dice, length = random.Random(seed), await in_second_half(postgres_url)
    ledgers = [ledger(round_seconds=length) for _ in range(5)]
    workers = [await each.join(f"w{i}") for i, each in enumerate(ledgers)]
    counts = [tuple(sorted(dice.choices(range(10**9), k=20))) for _ in ledgers]
    reports = [Report(bid=Bid(dice.randrange(10**8), dice.randrange(-50, 50), found)) for found in counts]
    order = [*range(5), *range(5)]
    dice.shuffle(order)
    beats = await asyncio.gather(*(ledgers[i].beat(workers[i], reports[i]) for i in order))
    rounds = await rows(postgres_url, "SELECT number, bandwidth FROM fleet_rounds ORDER BY number")
    assert rounds == [(1000, BANDWIDTH), (1001, BANDWIDTH)]
    kept = await rows(postgres_url, f"SELECT sum(rate) > 0, sum(rate) <= {BANDWIDTH} FROM fleet_grants GROUP BY round")
    assert kept == [(True, True)] * 2
    stored = set(await rows(postgres_url, "SELECT worker, round, rate FROM fleet_grants"))
    seen = {(workers[i], grant.round, grant.rate) for i, beat in zip(order, beats) for grant in beat.grants}
    assert seen <= stored
    later = [await each.beat(w, Report()) for each, w in zip(ledgers, workers)]
    assert {(w, g.round, g.rate) for w, beat in zip(workers, later) for g in beat.grants} == stored
    assert all(g.starts == g.round * length and g.ends == (g.round + 1) * length for b in later for g in b.grants)


async def test_without_a_fresh_bid_there_is_no_grant(ledger: LedgerMaker, postgres_url: str) -> None:
    """Neither for who wants nothing, nor for a bid of another round, nor for a worker whose lease is over."""
    length = await in_second_half(postgres_url)
    quiet, early, dead, one = (ledger(round_seconds=length) for _ in range(4))
    names = [await each.join(name) for each, name in ((quiet, "q"), (early, "e"), (dead, "d"), (one, "o"))]
    await run(postgres_url, "INSERT INTO fleet_rounds VALUES (1000, 0, '', 1, 1), (1001, 0, '', 1, 1)")
    bid = Report(bid=Bid(1000))
    for each, worker, report in ((quiet, names[0], Report()), (early, names[1], bid), (dead, names[2], bid)):
        assert (await each.beat(worker, report)).grants == []
    await run(postgres_url, f"UPDATE fleet_workers SET bid_round = 1000 WHERE id = '{names[1]}'")
    await let_expire(postgres_url, names[2])
    await run(postgres_url, "DELETE FROM fleet_rounds WHERE number = 1001")
    (grant,) = (await one.beat(names[3], bid)).grants
    assert grant.round == 1001
    assert grant.rate == pytest.approx(BANDWIDTH)
    assert await rows(postgres_url, "SELECT worker FROM fleet_grants") == [(names[3],)]


async def test_the_operators_bandwidth_wins_and_a_pause_wins_over_that(ledger: LedgerMaker, postgres_url: str) -> None:
    """A round is cleared with the rate that holds at that moment."""
    one = ledger()
    worker = await one.join("w")
    assert (await one.beat(worker, Report())).bandwidth == BANDWIDTH
    await run(postgres_url, "INSERT INTO settings VALUES ('bandwidth', '2.5', 0)")
    assert (await one.beat(worker, Report())).bandwidth == 2.5
    await run(postgres_url, "INSERT INTO settings VALUES ('paused', 'yes', 0)")
    await run(postgres_url, "DELETE FROM fleet_rounds")
    beat = await one.beat(worker, Report(bid=Bid(5)))
    assert beat.bandwidth == 0
    assert [grant.rate for grant in beat.grants] == [0.0] * len(beat.grants) != []


async def test_turns_at_a_host_are_booked_one_after_the_other(ledger: LedgerMaker) -> None:
    """Whoever asks; one that would come too late is not booked."""
    one, two = ledger(), ledger()
    now = await one.time()
    wanted = TurnWanted("third.example", 0, delay=10.0, gaps=5, late=2.0, longest=15.0)
    first, second, third = await one.book(wanted), await two.book(wanted), await one.book(wanted)
    assert (first.until, second.until) == (first.at + 2.0, second.at + 2.0)
    assert now <= first.at
    assert second.at == pytest.approx(first.at + 12.0)
    assert third.at == pytest.approx(first.at + 24.0)
    assert third.until is None
    other = await two.book(replace(wanted, host="fourth.example"))
    assert other.until is not None
    assert other.at < second.at


async def test_the_holder_of_a_hosts_pages_hears_of_turns_there(ledger: LedgerMaker, postgres_url: str) -> None:
    """In time to leave room, by what is known of the host; a blocked host has no turns."""
    one, two = ledger(), ledger()
    holder, now = await two.join("holder"), await one.time()
    shard = (await two.claim(holder, 1, {}))[0].shard
    await run(postgres_url, "INSERT INTO hosts (id, name, delay) VALUES (1, 'h.example', 3)")
    await run(
        postgres_url,
        "INSERT INTO pages (id, url, host_id, importance, state, origin, added_at)"
        " VALUES (1, 'https://h.example/', 1, 1, 'live', 'list', 0)",
    )
    wanted = TurnWanted("h.example", shard, delay=1.0, gaps=10, late=0.5, longest=30.0)
    first, second = await one.book(wanted), await one.book(wanted)
    assert first.at >= now + 2.0 + 3.0
    assert second.at == pytest.approx(first.at + 30.5)
    assert second.until is None
    told = {"host": "h.example", "at": pytest.approx(first.at), "until": pytest.approx(first.until)}
    assert (await two.beat(holder, Report())).mail == [Mail(shard, "turn", told)]
    await run(postgres_url, "UPDATE hosts SET blocked = true")
    assert await one.book(wanted) == Booking(math.inf, None)


async def test_mail_is_taken_once_by_whoever_holds_the_shard(ledger: LedgerMaker, postgres_url: str) -> None:
    """It waits for an owner; whoever claims a shard anew is spared what loading it tells."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    shard = (await one.claim(worker, 1, {}))[0].shard
    letters = [Mail(shard, "signals", {"pages": [1, 2]}), Mail(shard, "pages", {"ids": [7]})]
    await two.send([*letters, Mail((shard + 1) % SHARDS, "signals", {})])
    assert (await two.beat(other, Report())).mail == []
    assert (await one.beat(worker, Report())).mail == letters
    assert (await one.beat(worker, Report())).mail == []
    assert len(await rows(postgres_url, "SELECT id FROM fleet_mail")) == 1
    await two.send(letters)
    await let_expire(postgres_url, worker)
    assert shard in {lease.shard for lease in await two.claim(other, SHARDS, {})}
    assert (await two.beat(other, Report())).mail[-1] == letters[0]
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        await leave_mail(connection, letters)
        assert (await two.beat(other, Report())).mail == []
    await engine.dispose()
    assert (await two.beat(other, Report())).mail == letters


async def test_one_worker_has_a_duty(ledger: LedgerMaker, postgres_url: str) -> None:
    """Until it gives it away, leaves or its lease ends; each taking is a term of its own."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    assert {await one.take_duty(worker, "list"), await two.take_duty(other, "list")} == {1, None}
    assert (await one.beat(worker, Report())).duties == {"list": 1}
    assert (await two.beat(other, Report())).duties == {}
    await one.give_duty(worker, "list")
    assert await one.take_duty(worker, "list") == 2
    await let_expire(postgres_url, worker)
    assert await two.take_duty(other, "list") == 3
    await two.leave(other)
    assert await one.take_duty(await one.join("w"), "list") == 4


async def test_each_worker_hears_what_the_others_teach(ledger: LedgerMaker, postgres_url: str) -> None:
    """The latest of each live one, of the same length; nobody hears itself."""
    one, two, three = ledger(), ledger(), ledger()
    worker, other, old = [await each.join(name) for each, name in ((one, "w"), (two, "other"), (three, "old"))]
    assert await one.teach(worker, [1.0, 2.0]) == []
    assert await three.teach(old, [1.0, 2.0, 3.0]) == []
    assert await two.teach(other, [0.5, 0.25]) == [[1.0, 2.0]]
    assert await one.teach(worker, [3.0, 4.0]) == [[0.5, 0.25]]
    assert await two.teach(other, [0.5, 0.25]) == [[3.0, 4.0]]
    await let_expire(postgres_url, worker)
    assert await two.teach(other, [0.5, 0.25]) == []


async def test_a_worker_that_drains_claims_nothing(ledger: LedgerMaker, postgres_url: str) -> None:
    """It is told so, is not counted, and stays so where it loses its lease meanwhile, but not after it has left."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    await run(postgres_url, f"UPDATE fleet_workers SET draining = true WHERE id = '{worker}'")
    assert (await one.beat(worker, Report())).draining
    assert (await two.beat(other, Report())).workers == 1
    assert await one.claim(worker, 3, {}) == []
    assert not await one.take_duty(worker, "list")
    await let_expire(postgres_url, worker)
    again = await one.join("w")
    assert (await one.beat(again, Report())).draining
    await one.leave(again)
    await two.claim(other, 1, {})
    assert not (await one.beat(await one.join("w"), Report())).draining


async def test_numbers_are_given_out_once(ledger: LedgerMaker, postgres_url: str) -> None:
    """Ids rise within their shard; changes are numbered in the order of commits, without gaps."""
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        assert await next_ids(connection, "pages", {3: 2, 0: 5}) == {3: first_id(3) + 1, 0: 1}
        assert await next_ids(connection, "hosts", {3: 1}) == {3: first_id(3) + 1}
        assert await next_ids(connection, "pages", {}) == {}
        assert await next_changes(connection, 3) == 1
    async with engine.begin() as connection:
        assert await next_ids(connection, "pages", {3: 1}) == {3: first_id(3) + 3}
        await connection.rollback()
    async with engine.begin() as connection:
        assert await next_ids(connection, "pages", {0: 1, 3: 1}) == {0: 6, 3: first_id(3) + 3}
        assert await next_changes(connection, 1) == 4
    await engine.dispose()


async def test_a_fleet_is_made_once(postgres_url: str) -> None:
    """A second time with as many shards is harmless; their number is fixed; pages of a single daemon are kept out."""
    assert await make_fleet(postgres_url, SHARDS, BANDWIDTH)
    assert not await make_fleet(postgres_url, SHARDS, 99.0)
    assert await rows(postgres_url, "SELECT shards, bandwidth FROM fleet") == [(SHARDS, BANDWIDTH)]
    with pytest.raises(StoreError, match="has 12 shards, and their number is fixed"):
        await make_fleet(postgres_url, 13, BANDWIDTH)
    for wrong in (0, 8193):
        with pytest.raises(StoreError, match=f"{wrong} shards: a fleet has 1 to 8192"):
            await make_fleet(postgres_url, wrong, BANDWIDTH)
    with pytest.raises(StoreError, match="a fleet needs PostgreSQL"):
        await make_fleet("sqlite:////tmp/x.db", 1, BANDWIDTH)


async def test_a_database_with_pages_is_not_made_a_fleet(postgres_url: str) -> None:
    """Their ids have no shard."""
    from crawld.store.store import SqlStore
    from tests.support.store_builders import NOW, wanted

    store = SqlStore(postgres_url)
    await store.start()
    with pytest.raises(StoreError, match="in use by another crawld"):
        await make_fleet(postgres_url, SHARDS, BANDWIDTH)
    await store.adopt(wanted("a"), origin="list", now=NOW)
    await store.close()
    with pytest.raises(StoreError, match="holds pages of a single crawld"):
        await make_fleet(postgres_url, SHARDS, BANDWIDTH)
    one = SqlLedger(postgres_url)
    with pytest.raises(StoreError, match="is no fleet's: `crawld fleet init` makes it one"):
        await one.join("w")
    await one.close()


async def test_a_database_out_of_reach_is_told_in_a_sentence() -> None:
    """Nothing listens, the server does not answer, or the database is a file."""
    one = SqlLedger("postgresql://crawld@127.0.0.1:9/crawld")
    with pytest.raises(StoreError, match="no PostgreSQL answers at"):
        await one.join("w")
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = SqlLedger(f"postgresql://crawld@127.0.0.1:{server.getsockname()[1]}/crawld")
        with pytest.raises(StoreError, match="did not answer within 2 s"):
            await silent.join("w")
    with pytest.raises(StoreError, match="a fleet needs PostgreSQL"):
        SqlLedger("sqlite:////tmp/x.db")


async def test_a_broken_connection_is_opened_anew(ledger: LedgerMaker, postgres_url: str) -> None:
    """A beat may fail in a sentence; the next one goes on with the same lease."""
    one = ledger()
    worker = await one.join("w")
    await one.beat(worker, Report())
    await run(
        postgres_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'crawld fleet' AND datname = current_database()",
    )
    with suppress(StoreError):  # where the end of the connection is only met by the statement
        await one.beat(worker, Report())
    assert (await one.beat(worker, Report())).workers == 1


async def test_a_beat_that_waited_past_its_lease_is_lost(ledger: LedgerMaker, postgres_url: str) -> None:
    """The lease is looked at again after a wait for the worker's row, by the clock of that moment."""
    one = ledger()
    worker = await one.join("w")
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        await connection.execute(text("SELECT FROM fleet_workers FOR UPDATE"))
        beat = asyncio.create_task(one.beat(worker, Report()))
        await until_waiting(postgres_url)
        await connection.execute(text("UPDATE fleet_workers SET expires = extract(epoch FROM clock_timestamp())"))
    with pytest.raises(LeaseLostError):
        await beat
    await engine.dispose()


async def test_a_server_that_keeps_us_waiting_is_out_of_reach(ledger: LedgerMaker, postgres_url: str) -> None:
    """A beat gives up in time for another try, and changes nothing."""
    one = ledger(command_seconds=2.0)
    worker = await one.join("w")
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        await connection.execute(text("SELECT FROM fleet_workers FOR UPDATE"))
        with pytest.raises(StoreError):
            await one.beat(worker, Report())
    await engine.dispose()
    assert (await one.beat(worker, Report())).workers == 1


async def test_a_renewal_under_way_keeps_its_shards(ledger: LedgerMaker, postgres_url: str) -> None:
    """Whoever claims passes a worker over whose row is being renewed, however late that is."""
    one, two = ledger(), ledger()
    worker, other = await one.join("w"), await two.join("other")
    await one.claim(worker, SHARDS, {})
    engine = writing_engine(parse_address(postgres_url))
    async with engine.begin() as connection:
        await connection.execute(text(f"SELECT FROM fleet_workers WHERE id = '{worker}' FOR UPDATE"))
        await connection.execute(text(f"UPDATE fleet_workers SET expires = expires + 660 WHERE id = '{worker}'"))
        assert await two.claim(other, SHARDS, {}) == []
    await engine.dispose()
    assert len((await one.beat(worker, Report())).held) == SHARDS


async def until_waiting(url: str) -> None:
    """Wait until somebody waits for a lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(HANG_SECONDS):
        while await rows(url, waiting) == [(0,)]:
            await asyncio.sleep(0.01)


async def test_two_workers_of_one_name_are_refused(postgres_url: str) -> None:
    """While the first one beats; one that beats no more, as after a kill, gives its name to the next."""
    await make_fleet(postgres_url, 4, 10.0)
    first, second = SqlLedger(postgres_url), SqlLedger(postgres_url)
    worker = await first.join("w1")

    async def beats() -> None:
        while True:
            await first.beat(worker, Report())
            await asyncio.sleep(0.2)

    beating = asyncio.create_task(beats())
    try:
        with pytest.raises(InputError, match="a worker called w1 runs already"):
            await second.join("w1")
        assert (await second.join("w2")).startswith("w2.")
    finally:
        beating.cancel()
        await asyncio.wait([beating])
    assert await second.join("w1") != worker
    await first.close()
    await second.close()
