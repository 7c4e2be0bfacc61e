"""Copies that are fresh when they are read: fetched at that moment, once however many read, never beyond the rate."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from crawld.client import Client, NotKeptError
from crawld.crawl.reads import Reads
from crawld.main.supervisor import Daemon
from crawld.model.signal import SOURCES, Source
from tests.support.behaviours import answer
from tests.support.daemon import rows, running, until
from tests.support.process import command
from tests.support.site import Behaviour, Site

CALM: dict[str, object] = {"min_interval": 3600.0, "max_interval": 86400.0}


async def test_a_reader_who_insists_gets_the_page_as_it_is_now(tmp_path: Path) -> None:
    """Twenty readers share one request; an old copy says why it is old; a page that is not kept says how to add it."""
    robots: dict[str, str | Behaviour] = {"127.0.0.1": "User-agent: *\nDisallow: /ok/secret\n"}
    async with Site(robots=robots) as site:
        url, broken, forbidden = site.url("/cue/1"), site.url("/cue/2"), site.url("/ok/secret")
        async with (
            running(tmp_path, [url, broken, forbidden], **CALM) as daemon,
            Client(f"unix:{tmp_path}/x.db.sock") as client,
        ):
            await until(lambda: daemon.crawler.status.verdicts["new"] == 2)
            await daemon.store.flush()
            site.change("/cue/1")
            old = await client.copy(url)
            assert (old.version, old.stale_reason) in {(1, None), (2, None)}
            assert (await client.copy(url, min_freshness=0.0)).content == old.content
            hasty = await client.copy(url, min_freshness=1.0, wait=0)
            assert (hasty.version, hasty.stale_reason) == (old.version, "the reader does not wait")
            new = await asyncio.gather(*(client.copy(url, min_freshness=1.0, wait=20) for _ in range(20)))
            assert {(copy.version, copy.stale_reason) for copy in new} == {(3, None)}
            assert new[0].content != old.content
            assert len(site.visits("/cue/1")) == 2
            site.pages["/cue/2"] = answer("not well", 500)
            failed = await client.copy(broken, min_freshness=1.0, wait=20)
            assert failed.stale_reason == "the page could not be fetched: status"
            again = await client.copy(broken, min_freshness=1.0, wait=20)
            assert again.stale_reason == "its last crawl failed, and it is not asked again yet"
            assert len(site.visits("/cue/2")) == 2
            with pytest.raises(NotKeptError, match="POST /v1/pages"):
                await client.copy(site.url("/ok/3"), min_freshness=0.5)
            with pytest.raises(NotKeptError, match=r"no copy of .* yet"):
                await client.copy(forbidden, wait=5)
            added = await client.add(site.url("/ok/3"), wait=20)
            assert (added["added"], added["pages"][0]["version"]) == (1, 4)
            assert "Page /ok/3" in (await client.copy(site.url("/ok/3"))).text
            daemon.crawler.change_shares(0.25, 0.0, 0.0)
            none = await client.copy(url, min_freshness=1.0, wait=20)
            assert none.stale_reason == "no slots are given to reads (read_through.share)"


async def test_the_command_line_reads_through(tmp_path: Path) -> None:
    """`crawld get --min-freshness` asks the running daemon for a copy that is fresh now, and says how fresh it is."""
    async with Site() as site:
        url = site.url("/cue/1")
        async with running(tmp_path, [url], **CALM) as daemon:
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM changes")) == 1)
            site.change("/cue/1")
            options = ("--min-freshness", "1", "--wait", "20s", "--database", f"sqlite:///{tmp_path}/x.db")
            done = await command("get", url, *options, cwd=tmp_path)
            assert (done.status, "Page /cue/1" in done.out) == (0, True), done.err
            assert "fresh with probability" in done.err
            assert daemon.crawler.status.verdicts["changed"] == 1


def make_stale(daemon: Daemon) -> None:
    """Let a trusted signal say of every page that it has changed."""
    ids = daemon.scheduler.ids().tolist()
    trusted = np.tile([5.0 if source is Source.PING else 0.0 for source in SOURCES], (len(ids), 1))
    calm, known = np.full(len(ids), 1e-9), np.full(len(ids), np.inf)
    daemon.scheduler.teach(ids, alpha=calm, shape=known, kappa=trusted, gamma=trusted / 1e9)
    for page_id in ids:
        daemon.scheduler.notice(page_id, SOURCES.index(Source.PING))


async def test_a_thousand_readers_at_once_cost_one_request_a_page_within_the_rate(tmp_path: Path) -> None:
    """Stale pages of ten hosts are asked once each, and each request has a slot of its own."""
    async with Site(hosts=10) as site:
        urls = [site.url(f"/cue/{number}", host=host) for number in range(10) for host in range(1, 11)]
        settings: dict[str, object] = {"bandwidth": "100/s", "read_through": {"share": 1.0}, **CALM}
        async with running(tmp_path, urls, **settings) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == len(urls))
            reads = Reads(daemon.crawler, by_requests=False, in_reads=True)
            make_stale(daemon)
            before, status = len(site.log), daemon.crawler.status
            served = status.slots - status.idle_slots
            found = await asyncio.gather(*(reads.freshen(urls[n % len(urls)], 0.9, 30.0) for n in range(1000)))
            asked = site.log[before:]
            assert status.slots - status.idle_slots - served == len(asked) == len(urls)
        assert {(one.state, one.reason) for one in found} == {("crawled", None)}
        assert sorted((visit.host, visit.path) for visit in asked) == sorted(
            (visit.host, visit.path) for visit in site.log[:before] if visit.path.startswith("/cue/")
        )
