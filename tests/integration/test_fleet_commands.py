"""The commands of a fleet and those that steer and read it, on a real PostgreSQL."""

import asyncio
import json
import math
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from crawld.cli import main
from crawld.interfaces.fleet import Report
from crawld.model.fleet import Bid
from crawld.store.address import parse_address
from crawld.store.engine import writing_engine
from crawld.store.fleet.ledger import SqlLedger

Command = Callable[..., Result]


@pytest.fixture
def crawld(postgres_url: str) -> Command:
    """Runs a command on a database of its own."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--database", postgres_url])

    return run


def test_init_makes_a_fleet_once(crawld: Command) -> None:
    """It says what it made; a second time changes nothing, and another number of shards is refused in a sentence."""
    made = crawld("fleet", "init", "--shards", "8", "--bandwidth", "20/s")
    assert made.exit_code == 0, made.output
    assert made.output.startswith("made a fleet of 8 shards at 20/s")
    assert crawld("fleet", "init", "--shards", "8").output == "it is a fleet of 8 shards already: nothing changed\n"
    assert json.loads(crawld("fleet", "init", "--shards", "8", "--json").output) == {"made": False, "shards": 8}
    refused = crawld("fleet", "init")
    assert refused.exit_code == 2
    assert "has 8 shards, and their number is fixed" in refused.output


def test_a_fleet_needs_postgresql() -> None:
    """A file cannot be shared by workers."""
    refused = CliRunner().invoke(main, ["fleet", "init", "--database", "sqlite:////tmp/crawld.db"])
    assert refused.exit_code == 2
    assert "a fleet needs PostgreSQL" in refused.output


@pytest.fixture
def fleet(crawld: Command) -> Command:
    """Runs a command on a fleet of eight shards at 20 requests a second."""
    assert crawld("fleet", "init", "--shards", "8", "--bandwidth", "20/s").exit_code == 0
    return crawld


def workers(url: str, **reports: Report) -> dict[str, str]:
    """Let workers of these names join, take their share of the shards and beat; their ids."""

    async def joined() -> dict[str, str]:
        ids = {}
        for name, report in reports.items():
            ledger = SqlLedger(url, settle_seconds=0.0)
            ids[name] = await ledger.join(name)
            await ledger.claim(ids[name], 8 // len(reports), {})
            await ledger.beat(ids[name], report)
            await ledger.close()
        return ids

    return asyncio.run(joined())


def test_status_of_a_fleet_without_workers(fleet: Command) -> None:
    """It says what is missing."""
    shown = fleet("fleet", "status")
    assert shown.exit_code == 0, shown.output
    assert "no worker runs and nothing is crawled: `crawld fleet run` starts one" in shown.output
    assert json.loads(fleet("fleet", "status", "--json").output)["shards_free"] == 8


def test_status_shows_workers_and_the_whole(fleet: Command, postgres_url: str) -> None:
    """Each worker with what it holds and sends; sums, freshness weighted by importance, the level and the worst lag."""
    one = Report(Bid(0, 0, (100,)), pages=30, request_rate=8.0, level=0.5, lag=0.1, fresh=9.0, weight=10.0)
    two = Report(Bid(0, 0, (100,)), pages=10, request_rate=9.0, level=math.inf, lag=7.0, fresh=15.0, weight=20.0)
    workers(postgres_url, w1=one, w2=two)
    found = json.loads(fleet("fleet", "status", "--json").output)
    assert [row["worker"] for row in found["workers"]] == ["w1", "w2"]
    assert [row["shards"] for row in found["workers"]] == [4, 4]
    assert (found["pages"], found["request_rate"], found["lag"], found["freshness"]) == (40, 17.0, 7.0, 0.8)
    assert [row["level"] for row in found["workers"]] == [0.5, None]
    assert [one["kind"] for one in found["trouble"]] == ["lag"]
    shown = fleet("fleet", "status").output
    assert "2 workers with 8 of 8 shards, 40 pages" in shown
    assert "worker w2 has waited for 7 s to write to the database" in shown


def test_status_names_a_worker_that_was_lost(fleet: Command, postgres_url: str) -> None:
    """Until it is back; its shards count as held by nobody."""
    workers(postgres_url, w1=Report(), w2=Report())
    behind(postgres_url, "UPDATE fleet_workers SET expires = expires - 60, seen_at = seen_at - 60 WHERE name = 'w2'")
    found = json.loads(fleet("fleet", "status", "--json").output)
    assert [one["kind"] for one in found["trouble"]] == ["free_shards", "worker_lost"]
    assert [row["state"] for row in found["workers"]] == ["live", "lost"]
    shown = " ".join(fleet("fleet", "status").output.split())
    assert "4 of 8 shards are held by no worker, and their pages are not crawled" in shown
    assert "worker w2 was last seen 60" in shown


def test_drain_is_told_to_the_worker(fleet: Command, postgres_url: str) -> None:
    """By its name or id; it can be taken back, and a name that nobody has is refused with those there are."""
    ids = workers(postgres_url, w1=Report())
    assert fleet("fleet", "drain", "w1").output.startswith("w1 gives its 8 shards away")
    assert json.loads(fleet("fleet", "status", "--json").output)["workers"][0]["state"] == "draining"
    behind(postgres_url, "UPDATE fleet_shards SET worker = NULL")
    assert json.loads(fleet("fleet", "status", "--json").output)["workers"][0]["state"] == "drained"
    assert fleet("fleet", "drain", ids["w1"], "--undo").output == f"{ids['w1']} takes shards again\n"
    assert json.loads(fleet("fleet", "status", "--json").output)["workers"][0]["state"] == "live"
    refused = fleet("fleet", "drain", "w9")
    assert refused.exit_code == 2
    assert "no live worker is called w9: there are w1" in refused.output


def behind(url: str, statement: str) -> None:
    """Change the database behind everybody's back."""

    async def run() -> None:
        engine = writing_engine(parse_address(url))
        async with engine.begin() as connection:
            await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(run())


def test_status_refuses_what_is_no_fleet(crawld: Command) -> None:
    """And says what makes it one."""
    refused = crawld("fleet", "status")
    assert refused.exit_code == 2
    assert "is no fleet's: `crawld fleet init` makes it one" in refused.output
