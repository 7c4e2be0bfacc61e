"""The commands of a fleet and those that steer and read it, on a real PostgreSQL."""

import asyncio
import json
import math
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from crawld.choose.chooser import Bid
from crawld.cli import main
from crawld.cli.remote import CommandTarget
from crawld.fleet.store.ledger import Report, SqlLedger
from crawld.model.errors import InputError
from crawld.show.report import Status
from crawld.store.address import parse_address
from crawld.store.engine import writing_engine

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
            ledger = SqlLedger(url, settle_seconds=0.0, lease_seconds=3600.0, command_seconds=60.0)
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
    behind(postgres_url, "UPDATE fleet_workers SET expires = expires - 3660, seen_at = seen_at - 60 WHERE name = 'w2'")
    found = json.loads(fleet("fleet", "status", "--json").output)
    assert [one["kind"] for one in found["trouble"]] == ["free_shards", "worker_lost"]
    assert [row["state"] for row in found["workers"]] == ["live", "lost"]
    shown = " ".join(fleet("fleet", "status").output.split())
    assert "4 of 8 shards are held by no worker, and their pages are not crawled" in shown
    assert "worker w2 is lost: its last beat was 60" in shown


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


def worker_status(pid: int, requests: int = 10) -> Status:
    """What the control of a worker says of itself, small."""
    hosts = {kind: {"count": 0, "pages": 0, "worst": []} for kind in ("blocked", "asked_to_wait", "backoff")}
    return Status.of({
        "requests": requests, "slots_served": 9, "idle_slots": 1, "skipped_slots": 0, "bytes": 1000, "faults": 0,
        "evaluations": 5, "picks": 9, "requests_by_purpose": {"page": 10}, "requests_by_outcome": {"new": 10},
        "verdicts": {"new": 10}, "troubles": {}, "idle_because": {"not_worth_it": 1}, "pid": pid,
        "slots_by_use": {"page": {"new": 10}, "idle": {"not_worth_it": 1}}, "in_flight": 1, "waiting": 0,
        "active_pages": 4, "uptime_seconds": 60.0, "reload_refused": None, "hooks": [], "hosts": hosts,
        "store": {"healthy": True, "trouble": None, "since": None, "backlog": 2, "lost": 0},
        "robots_unavailable": {"count": 0, "worst": []},
        "slots": {"seconds": 60.0, "slots": 10, "skipped": 0, "idle": 1, "idle_because": {"not_worth_it": 1},
                  "bottleneck": None},
    })  # fmt: skip


URLS = [f"https://{name}.example/{number}" for name in "abcd" for number in range(3)]


def test_the_rate_and_a_pause_are_the_fleets(fleet: Command, postgres_url: str) -> None:
    """What is set from any machine holds for every worker with its next beat."""
    assert fleet("bandwidth").output == "20/s\n"
    assert fleet("bandwidth", "5/s").output == "5/s\n"
    assert fleet("pause").exit_code == 0
    assert json.loads(fleet("bandwidth", "--json").output) == {"bandwidth": 5.0, "paused": True}

    async def bandwidth() -> float:
        ledger = SqlLedger(postgres_url)
        beat = await ledger.beat(await ledger.join("w"), Report())
        await ledger.close()
        return beat.bandwidth

    assert asyncio.run(bandwidth()) == 0
    assert fleet("resume").exit_code == 0
    assert asyncio.run(bandwidth()) == 5.0
    assert "5/s; 0/s granted" in fleet("fleet", "status").output


def test_pages_are_added_and_removed(fleet: Command) -> None:
    """Without a daemon on this machine, and each is told whether it was known."""
    assert fleet("urls", "add", *URLS).output.startswith("12 added, 0 known already")
    assert fleet("urls", "add", URLS[0], "https://e.example/").output.startswith("1 added, 1 known already")
    assert fleet("urls", "remove", URLS[0], "https://unknown.example/").exit_code == 1
    listed = fleet("urls", "list").output.split()
    assert sorted(listed) == sorted([*URLS[1:], "https://e.example/"])


def test_hosts_are_steered(fleet: Command) -> None:
    """Block, delay and back; a host without pages is refused."""
    fleet("urls", "add", *URLS)
    assert fleet("host", "a.example", "block").output == "a.example: blocked\n"
    assert fleet("host", "a.example", "delay", "7s").output == "a.example: blocked, 7 s between requests\n"
    assert "blocked" in fleet("host", "a.example").output
    assert fleet("host", "a.example", "unblock").output.startswith("a.example: not blocked")
    assert fleet("host", "nobody.example", "block").exit_code != 0


def test_a_page_is_explained_from_the_database(fleet: Command, postgres_url: str) -> None:
    """Who holds its shard, whether anything may be sent, and what its host says; else its crawl value."""
    fleet("urls", "add", *URLS)

    def reasons() -> list[str]:
        shown = fleet("explain", URLS[0], "--json")
        assert shown.exit_code == 0, shown.output
        return [one["reason"] for one in json.loads(shown.output)["reasons"]]

    assert reasons() == ["not_running"]
    workers(postgres_url, w1=Report())
    assert reasons() == ["next"]
    behind(postgres_url, "UPDATE fleet_shards SET worker = NULL")
    assert reasons() == ["not_loaded"]
    fleet("pause")
    fleet("host", "a.example", "block")
    assert reasons() == ["not_loaded", "paused", "host_blocked"]
    fleet("urls", "remove", URLS[0])
    assert "retired" in reasons()


def test_stats_top_and_changes_show_the_whole(fleet: Command, postgres_url: str) -> None:
    """Workers together, one that ended and came back counted once; trouble of the fleet comes first."""
    fleet("urls", "add", *URLS)
    reports = {name: Report(pages=6, status=worker_status(pid)) for name, pid in (("w1", 1), ("w2", 2))}
    workers(postgres_url, **reports)
    behind(postgres_url, "UPDATE fleet_workers SET expires = expires - 3660 WHERE name = 'w2'")
    workers(postgres_url, w2=reports["w2"], w3=Report(pages=6, status=worker_status(1, requests=0)))
    shown = json.loads(fleet("stats", "--json").output)
    assert shown["daemon_state"]["state"] == "running"
    assert (shown["daemon"]["workers"], shown["daemon"]["requests"], shown["daemon"]["in_flight"]) == (3, 20, 3)
    assert shown["trouble"] == []
    behind(postgres_url, "UPDATE fleet_shards SET worker = NULL WHERE id = 1")
    assert json.loads(fleet("stats", "--json").output)["trouble"][0]["kind"] == "free_shards"
    assert "running at 20/s (3 workers), 20 requests in" in fleet("stats").output
    document = json.loads(fleet("top", "--json").output)
    assert document["status"]["pages"] == 18
    assert "3 workers" in fleet("top", "--once").output
    assert fleet("changes", "--json").output == ""


def test_a_forecast_of_the_fleet(fleet: Command) -> None:
    """By what is stored of the pages, at the rate set."""
    fleet("urls", "add", *URLS)
    found = json.loads(fleet("forecast", "--json").output)
    assert found["pages"] == 12
    assert found["expected"]["bandwidth"] == 20.0


def test_reload_is_each_workers_own(fleet: Command) -> None:
    """There is no one process to ask."""
    refused = fleet("reload")
    assert refused.exit_code == 1
    assert "each worker of a fleet reads its own settings again" in refused.output


def test_a_fleet_out_of_reach_is_told_as_such() -> None:
    """Not as a daemon that does not run."""
    refused = CliRunner().invoke(main, ["bandwidth", "--database", "postgresql://crawld@127.0.0.1:9/crawld"])
    assert refused.exit_code == 2
    assert "no PostgreSQL answers at" in refused.output


def test_changes_are_followed_by_looking_at_the_database(fleet: Command, postgres_url: str) -> None:
    """Whoever waits gets what came after its number, as from a daemon; `now` is the number of the latest."""
    fleet("urls", "add", *URLS)
    for number in (1, 2):
        change = f"INSERT INTO changes (id, page_id, at, verdict) SELECT {number}, id, 5, 'new' FROM pages"
        behind(postgres_url, f"{change} ORDER BY id LIMIT 1")
    assert [json.loads(line)["id"] for line in fleet("changes", "--after", "0", "--json").output.splitlines()] == [1, 2]
    found = CommandTarget(None, postgres_url).ask("GET", "/v1/changes?after=1&wait=60&limit=10")
    assert ([one["id"] for one in found["changes"]], found["cursor"]) == ([2], 2)
    assert CommandTarget(None, postgres_url).ask("GET", "/v1/changes?after=now")["cursor"] == 2
    with pytest.raises(InputError, match="a fleet cannot be asked for GET /nothing"):
        CommandTarget(None, postgres_url).ask("GET", "/nothing")
