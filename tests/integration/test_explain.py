"""`explain` names the right reason in every state: one table, one test for each line of it."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawld.main.assembly import Assembly, Tempo
from crawld.model.host import HostState
from crawld.model.metrics import RecentSlots
from crawld.model.why import IDLE, SENTENCES, Reason, Why, most_decisive_first
from crawld.show.report import Explanation
from tests.support.behaviours import answer, silent
from tests.support.daemon import CALM, settings_for, under_way, until
from tests.support.site import Site

Explain = Callable[[str], dict[str, Any]]


@asynccontextmanager
async def running(folder: Path, urls: list[str], **settings: object) -> AsyncIterator[Assembly]:
    """A daemon that keeps these pages fresh while the block runs."""
    patient = {"timeout": 60, "first_byte_timeout": 60, "connect_timeout": 5}
    given: dict[str, object] = CALM | {"fetch": patient} | settings
    assembly = Assembly(settings_for(folder, urls, **given), tempo=Tempo(learn=0.2))
    async with under_way(assembly.daemon(), len(urls)):
        yield assembly


def explained(assembly: Assembly, url: str) -> Explanation:
    """What the daemon says of a page."""
    (page_id,) = [page.id for page in assembly.pages if page.url == url]
    found = assembly.steering.explain_now(page_id)
    assert found is not None
    assert found.why_not_now == found.reasons[0].sentence
    return found


async def until_reason(assembly: Assembly, url: str, why: Why) -> Explanation:
    """Wait until the daemon names that reason."""
    await until(lambda: explained(assembly, url).reason == why.value)
    return explained(assembly, url)


def test_every_state_has_its_sentence() -> None:
    """The table is complete, and a reason that somebody decided comes before one that ends by itself."""
    assert set(SENTENCES) == set(Why)
    assert set(IDLE) <= set(Why)
    soon, late = Reason(Why.MIN_INTERVAL, until=10.0), Reason(Why.HOST_BUSY, until=20.0)
    assert most_decisive_first([soon, late, Reason(Why.PAUSED)])[0].why is Why.PAUSED
    assert most_decisive_first([soon, late])[0] is late


async def test_disallowed(tmp_path: Path) -> None:
    """A page that robots.txt forbids waits for robots.txt, and no crawl of it is expected."""
    async with Site() as site:
        site.robots["127.0.0.1"] = "User-agent: *\nDisallow: /ok/secret\n"
        url = site.url("/ok/secret")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: explained(daemon, url).state == "disallowed")
            found = await until_reason(daemon, url, Why.DISALLOWED)
            assert "robots.txt forbids it" in found.why_not_now
            assert found.expected_in_seconds is None


async def test_gone(tmp_path: Path) -> None:
    """A page that vanished says so, and when it is asked again."""
    async with Site() as site:
        url = site.url("/cue/1")
        async with running(tmp_path, [url], min_interval=0.2, max_interval=0.4) as daemon:
            await until(lambda: len(site.visits("/cue/1")) >= 1)
            site.pages["/cue/1"] = answer("gone", 410)
            found = await until_reason(daemon, url, Why.GONE)
            assert "is asked again" in found.why_not_now
            assert 3000 < (found.expected_in_seconds or 0) <= 3600


@pytest.mark.parametrize("status", [503, 429])
async def test_robots_unavailable(tmp_path: Path, status: int) -> None:
    """A site whose robots.txt fails is closed: the cause and the next try are named, not the host's back-off."""
    async with Site() as site:
        site.robots["127.0.0.1"] = answer("no", status)
        url = site.url("/ok/1")
        async with running(tmp_path, [url]) as daemon:
            found = await until_reason(daemon, url, Why.ROBOTS_UNAVAILABLE)
            assert str(status) in found.why_not_now
            assert "tried again" in found.why_not_now
            assert found.state == "waiting"
            assert (found.expected_in_seconds or 0) > 0
            daemon.gate.restore(HostState(site.host(), blocked_until=daemon.clock.now() + 9e6))
            failing = daemon.steering.status_now().robots_unavailable
            assert failing.count == 1
            assert failing.worst[0].until > daemon.clock.now() + 8e6  # not before its host may be asked


async def test_host_blocked_by_the_operator(tmp_path: Path) -> None:
    """The operator's block is the reason, whatever else keeps the page waiting."""
    async with Site() as site:
        url = site.url("/ok/1")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            await daemon.steering.steer_host(site.host(), blocked=True)
            found = await until_reason(daemon, url, Why.HOST_BLOCKED)
            assert "blocked by the operator" in found.why_not_now
            assert found.expected_in_seconds is None
            blocked = daemon.steering.status_now().hosts.blocked
            assert (blocked.count, blocked.pages, blocked.worst[0].host) == (1, 1, site.host())


async def test_host_asked_to_wait(tmp_path: Path) -> None:
    """A host that sent Retry-After is left alone because it asked for that."""
    async with Site() as site:
        url = site.url("/status/503?after=600")
        async with running(tmp_path, [url], min_interval=0.2) as daemon:
            found = await until_reason(daemon, url, Why.HOST_ASKED_TO_WAIT)
            assert "Retry-After" in found.why_not_now
            assert 500 < (found.expected_in_seconds or 0) <= 600
            hosts = daemon.steering.status_now().hosts
            assert (hosts.asked_to_wait.count, hosts.backoff.count) == (1, 0)


async def test_host_in_backoff(tmp_path: Path) -> None:
    """A host whose pages all fail is in back-off, also for its pages that were never asked."""
    async with Site() as site:
        urls = [site.url(f"/status/503/{i}") for i in range(30)]
        async with running(tmp_path, urls, politeness={"delay": 0, "per_host": 1}) as daemon:
            await until(lambda: any(explained(daemon, url).reason == "host_backoff" for url in urls))
            asked = {seen.path for seen in site.visits()}
            untried = next(url for url in urls if url.partition(site.host())[2] not in asked)
            found = explained(daemon, untried)
            assert found.reason == "host_backoff"
            assert "is in back-off" in found.why_not_now
            waiting = daemon.steering.status_now().hosts.backoff
            assert (waiting.count, waiting.pages) == (1, 30)


async def test_host_busy_by_spacing(tmp_path: Path) -> None:
    """Pages behind the first wait for the delay between requests, and are told which delay that is."""
    async with Site() as site:
        urls = [site.url(f"/ok/{i}") for i in range(5)]
        async with running(tmp_path, urls, politeness={"delay": 3600, "per_host": 1}) as daemon:
            await until(lambda: bool(site.visits("/robots.txt")))
            found = await until_reason(daemon, urls[3], Why.HOST_BUSY)
            assert "politeness.delay 60min" in found.why_not_now


async def test_host_busy_with_requests_in_flight(tmp_path: Path) -> None:
    """Pages of a host that has not answered yet wait for its answer; the one that is asked is being crawled."""
    async with Site() as site:
        urls = [site.url("/slow/1"), site.url("/slow/2")]
        site.pages["/slow/1"] = site.pages["/slow/2"] = silent
        async with running(tmp_path, urls, politeness={"delay": 0, "per_host": 1}) as daemon:
            await until(lambda: any(seen.path != "/robots.txt" for seen in site.visits()))
            reasons = {explained(daemon, url).reason: explained(daemon, url).why_not_now for url in urls}
            assert set(reasons) == {"crawling", "host_busy"}
            assert "in flight" in reasons[Why.HOST_BUSY]
            daemon.crawler.stop()
            await daemon.crawler.drain(0.0)


async def test_page_failing_on_its_own(tmp_path: Path) -> None:
    """A page that answers 500 waits for itself, not for its host."""
    async with Site() as site:
        url = site.url("/status/500")
        async with running(tmp_path, [site.url("/ok/1"), url], min_interval=0.2) as daemon:
            found = await until_reason(daemon, url, Why.FAILING)
            assert "failed once" in found.why_not_now
            assert 0 < (found.expected_in_seconds or 0) <= 60


async def test_min_interval(tmp_path: Path) -> None:
    """A page just crawled waits for min_interval, which is named with its value."""
    async with Site() as site:
        url = site.url("/ok/1")
        async with running(tmp_path, [url]) as daemon:
            found = await until_reason(daemon, url, Why.MIN_INTERVAL)
            assert "min_interval (60 min) is not over" in found.why_not_now


async def test_not_yet_worth_it(tmp_path: Path) -> None:
    """A page whose crawl value is below the level says so, and when it is expected."""
    async with Site() as site:
        lazy, busy = site.url("/ok/lazy"), [f"{site.url(f'/cue/{i}')} 1000000" for i in range(2)]
        async with running(tmp_path, [lazy, *busy], min_interval=0.05, bandwidth="20/s") as daemon:
            found = await until_reason(daemon, lazy, Why.NOT_WORTH_IT)
            assert "below the level" in found.why_not_now
            assert (found.expected_in_seconds or 0) >= 0
            assert "it is expected 20" in found.why_not_now


async def test_about_to_be_crawled_and_robots_unknown(tmp_path: Path) -> None:
    """A page nobody has looked at yet waits for robots.txt; with robots.txt known its turn comes next."""
    async with Site() as site:
        url = site.url("/ok/1")
        async with running(tmp_path, [url], bandwidth=1e-6) as daemon:
            await until(lambda: daemon.crawler.status.requests == 1)
            await until(lambda: daemon.crawler.status.in_flight == 0 or bool(site.visits("/robots.txt")))
            await until_reason(daemon, url, Why.NEXT)
    async with Site() as site:
        url = site.url("/ok/1")
        site.robots["127.0.0.1"] = silent
        (tmp_path / "x.db").unlink()
        async with running(tmp_path, [url], politeness={"delay": 0, "per_host": 1}) as daemon:
            await until(lambda: bool(site.visits("/robots.txt")))
            assert explained(daemon, url).reason == "robots_unknown"
            daemon.crawler.stop()
            await daemon.crawler.drain(0.0)


async def test_paused_and_bandwidth_zero(tmp_path: Path) -> None:
    """Both stand before any reason of the page; the page's own is still listed."""
    async with Site() as site:
        url = site.url("/ok/1")
        async with running(tmp_path, [url]) as daemon:
            await until_reason(daemon, url, Why.MIN_INTERVAL)
            await daemon.steering.pause(paused=True)
            found = explained(daemon, url)
            assert found.why_not_now == "crawld is paused"
            assert [one.reason for one in found.reasons] == ["paused", "min_interval"]
            assert found.expected_in_seconds is None
            await daemon.steering.pause(paused=False)
            await daemon.steering.change_bandwidth(0.0)
            assert explained(daemon, url).reason == "no_bandwidth"


async def test_store_unwell(tmp_path: Path) -> None:
    """While commits fail nothing is crawled, and the database's own words say why."""
    async with Site() as site:
        urls = [site.url(f"/ok/{i}") for i in range(3)]
        async with running(tmp_path, urls, min_interval=0.2, max_interval=0.4) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 3)
            given: dict[str, Any] = {"timeout": 60.0, "isolation_level": None, "check_same_thread": False}
            with sqlite3.connect(tmp_path / "x.db", **given) as other:
                # in a thread: the writer may hold the lock, and needs the loop to let it go
                await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
                await until(lambda: not daemon.store.healthy)
                found = await until_reason(daemon, urls[0], Why.STORE_UNWELL)
                assert "locked" in found.why_not_now
                await until(lambda: "store_unwell" in slots(daemon).idle_because)
                store = daemon.steering.status_now().store
                assert (store.healthy, "locked" in (store.trouble or "")) == (False, True)
                assert store.since is not None
                other.execute("ROLLBACK")
            other.close()
            await until(lambda: daemon.store.healthy)
            assert daemon.store.trouble_since is None


def slots(daemon: Assembly) -> RecentSlots:
    """What became of the slots of late."""
    return daemon.steering.status_now().slots


async def test_idle_slots_of_one_host_are_blamed_on_its_delay(tmp_path: Path) -> None:
    """One host at one request a second cannot use ten: the status says so in a sentence."""
    async with Site() as site:
        urls = [site.url(f"/ok/{i}") for i in range(20)]
        given = {"bandwidth": "10/s", "politeness": {"delay": 1, "per_host": 1}}
        async with running(tmp_path, urls, **given) as daemon:
            await until(lambda: slots(daemon).idle >= 12)
            found = slots(daemon)
            assert next(iter(found.idle_because)) in {"host_busy", "robots_unknown"}
            assert found.idle_because["host_busy"] > 0
            assert found.bottleneck == "one host, politeness.delay 1s allows 1/s of 10/s"
            assert found.idle <= found.slots


async def test_idle_slots_of_few_pages_are_blamed_on_min_interval(tmp_path: Path) -> None:
    """With every page crawled within min_interval there is nothing to do, and the status says so."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1"), site.url("/ok/2")]) as daemon:
        await until(lambda: slots(daemon).idle_because.get("min_interval", 0) > 0)
        assert slots(daemon).bottleneck == "2 pages, min_interval 60min allows 2/hour of 50/s"


def test_reasons_without_an_end_say_so() -> None:
    """A reason that nobody knows the end of has no date, and an endless one is no number in exponent form."""
    assert "expected later" in Reason(Why.NOT_WORTH_IT).sentence(0.0)
    assert "never" in Reason(Why.NOT_WORTH_IT, until=math.inf).sentence(0.0)
