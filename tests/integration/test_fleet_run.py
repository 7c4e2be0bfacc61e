"""`crawld fleet run` says what keeps it from starting, and takes over what is told while it runs."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs

import aiohttp
import asyncpg

from crawld.client import Client
from tests.support.behaviours import answer
from tests.support.fleet import crawls, made, until, who, worker, worker_settings, worker_with_wrong_clock
from tests.support.process import HANG_SECONDS, ROOT, Running, command
from tests.support.receiver import Receiver, hook
from tests.support.site import Site


def test_a_single_daemon_imports_no_module_of_the_fleet() -> None:
    """`crawld run` loads neither workers nor their tables: who needs no fleet pays for none."""
    code = "import crawld.cli.run, sys; from crawld.main.assembly import Assembly; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if re.match(r"crawld\.(\w+\.)*fleet", name)] == []


async def test_what_keeps_a_worker_from_starting_is_said(tmp_path: Path, postgres_url: str) -> None:
    """No PostgreSQL, no fleet in it, a name that makes no path, and a way to weigh pages that is one machine's."""
    file = worker_settings(tmp_path / "w", ["http://127.0.0.1:1/"], "sqlite:///x.db", "w1")
    ended = await command("fleet", "run", "--config", str(file), cwd=tmp_path)
    assert (ended.status, "a fleet lives in PostgreSQL" in ended.err) == (2, True), ended.err
    given = ("fleet", "run", "--config", str(file), "--database", postgres_url)
    ended = await command(*given, cwd=tmp_path)
    assert (ended.status, "crawld fleet init" in ended.err) == (2, True), ended.err
    ended = await command(*given, "--name", "a/b", cwd=tmp_path)
    assert (ended.status, "letters, digits" in ended.err) == (2, True), ended.err
    file.write_text(file.read_text().replace("listen: null", "listen: 127.0.0.1:0") + "importance: requests\n")
    ended = await command(*given, cwd=tmp_path)
    assert (ended.status, "importance: requests" in ended.err) == (2, True), ended.err


async def test_a_running_worker_is_steered_from_outside(tmp_path: Path, postgres_url: str) -> None:
    """A page that is added is crawled, one that is removed is not, and a host that is blocked is left alone."""
    async with Site(hosts=3) as site:
        await made(postgres_url, 4, 30, tmp_path)
        file = worker_settings(tmp_path / "w1", [site.url("/ok/1"), site.url("/ok/2", host=2)], postgres_url, "w1")
        given = ("--config", str(file))
        async with worker("w1", file) as running:
            run = {"w1": running}
            await until(lambda: {seen.path for seen in crawls(site)} == {"/ok/1", "/ok/2"}, run, "both are crawled")
            assert (await command("urls", "add", site.url("/ok/3", host=3), *given, cwd=tmp_path)).status == 0
            await until(lambda: bool(site.visits("/ok/3")), run, "the new page is crawled")
            assert (await command("urls", "remove", site.url("/ok/1"), *given, cwd=tmp_path)).status == 0
            assert (await command("host", site.host(2), "block", *given, cwd=tmp_path)).status == 0
            seen = len(site.visits("/ok/3"))
            await until(lambda: len(site.visits("/ok/3")) > seen + 4, run, "the third goes on")
            gone = len(site.visits("/ok/1")), len(site.visits("/ok/2"))
            await until(lambda: len(site.visits("/ok/3")) > seen + 8, run, "the third goes on")
            assert gone == (len(site.visits("/ok/1")), len(site.visits("/ok/2")))
            stats = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
            assert stats["pages"] == 2
            assert await running.end() == 0


async def test_two_workers_share_the_spacing_of_a_host_that_redirects_lead_to(
    tmp_path: Path, postgres_url: str
) -> None:
    """On the wire, whether the host has no page at all or pages of one of the workers."""
    delay = 0.5
    async with Site(hosts=26) as site:
        await made(postgres_url, 16, 40, tmp_path)
        empty, paged = site.host(25), site.host(26)
        urls = [
            site.url(f"/redirect/{i}?to={site.url(f'/ok/{i}', host=target)}", host=i)
            for i in range(1, 25)  # so many hosts that both workers have some of them
            for target in (25, 26)
        ]
        urls += [site.url(f"/ok/own{i}", host=26) for i in range(3)]
        polite = {"politeness": {"delay": delay}, "min_interval": 0.5, "audit": {"share": 0}}
        files = [worker_settings(tmp_path / name, urls, postgres_url, name, **polite) for name in ("w1", "w2")]
        async with worker("w1", files[0]) as one, worker("w2", files[1]) as other:
            run = {"w1": one, "w2": other}

            def led(host: str) -> set[str]:
                return {who(seen) for seen in crawls(site) if seen.host == host}

            await until(lambda: led(empty) == led(paged) == {"w1", "w2"}, run, "both are led to both")
            begun = len(site.log)
            await until(
                lambda: all(sum(seen.host == host for seen in site.log[begun:]) > 12 for host in (empty, paged)),
                run,
                "both go on",
            )
            assert any("/ok/own" in seen.path for seen in site.log[begun:])
            assert [await running.end() for running in run.values()] == [0, 0]
    for host in (empty, paged):
        times = [seen.monotonic for seen in site.log[begun:] if seen.host == host]
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.8 * delay - 2 * site.lag, times


async def test_a_page_of_a_fleet_is_refreshed_from_outside(tmp_path: Path, postgres_url: str) -> None:
    """Where no page is due and nobody bids, the one that is asked for, or read, is granted a slot."""
    async with Site() as site:
        await made(postgres_url, 4, 30, tmp_path)
        api = {"listen": None, "socket": str(tmp_path / "x.sock")}
        calm = {"min_interval": 3600, "audit": {"share": 0}, "api": api}
        file = worker_settings(tmp_path / "w1", [site.url("/ok/1")], postgres_url, "w1", **calm)
        async with worker("w1", file) as running:
            run = {"w1": running}
            await until(lambda: bool(site.visits("/ok/1")), run, "the page is crawled")
            given = ("--wait", "30s", "--json", "--config", str(file))
            ended = await command("refresh", site.url("/ok/1"), *given, cwd=tmp_path)
            assert (ended.status, json.loads(ended.out)["pages"][0]["state"]) == (0, "crawled"), ended
            assert len(site.visits("/ok/1")) == 2
            ended = await command("refresh", site.url("/ok/2"), *given, cwd=tmp_path)
            assert (ended.status, json.loads(ended.out)["pages"][0]["state"]) == (1, "unknown"), ended
            async with Client(f"unix:{tmp_path}/x-w1.sock") as client:
                copy = await client.copy(site.url("/ok/1"), min_freshness=1.0, wait=30)
            assert (copy.stale_reason, len(site.visits("/ok/1"))) == (None, 3)


async def test_a_ping_reaches_whoever_holds_the_page(tmp_path: Path, postgres_url: str) -> None:
    """One worker is told of all pages; signals of the other's are there too, and the fleet knows of them."""
    names, pages = ("w1", "w2"), 24
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    async with Site(hosts=pages) as site, AsyncExitStack() as stack:
        urls = [site.url(f"/ok/{i}", host=i + 1) for i in range(pages)]
        await made(postgres_url, 8, 40, tmp_path)
        api = {"listen": listen, "token_file": str(tmp_path / "token")}
        first = worker_settings(tmp_path / "w1", urls, postgres_url, "w1", api=api)
        files = {"w1": first, "w2": worker_settings(tmp_path / "w2", urls, postgres_url, "w2")}
        run = {name: await stack.enter_async_context(worker(name, files[name])) for name in names}
        await until(lambda: {who(seen) for seen in crawls(site)} == set(names), run, "both crawl")
        await until(lambda: len({seen.path for seen in crawls(site)}) == pages, run, "every page is crawled")
        headers = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.post(f"http://{listen}/signals", json=urls) as answer:
                told = await answer.json()
            assert 0 < told["unknown"] < pages
            async with session.get(f"http://{listen}/v1/status") as answer:
                assert (await answer.json())["pages"] == pages  # the whole fleet's, whoever answers
        database = await asyncpg.connect(postgres_url)
        stack.push_async_callback(database.close)
        query = "SELECT count(DISTINCT page_id) FROM signals WHERE source = 'ping'"
        found: list[int] = []
        while not found or found[-1] < pages:
            assert len(found) < 600, found[-1]
            found.append(await database.fetchval(query))
            await asyncio.sleep(0.1)
        assert [await one.end() for one in run.values()] == [0, 0]


async def test_a_wrong_clock_delays_and_teaches_nothing(tmp_path: Path, postgres_url: str) -> None:
    """A worker an hour ahead stays out; one whose clock is set while it runs is told of, and crawls by the database."""
    ahead = tmp_path / "ahead"
    ahead.write_text("3600")
    async with Site() as site, AsyncExitStack() as stack:
        await made(postgres_url, 4, 30, tmp_path)
        urls = [site.url(f"/ok/{number}") for number in range(4)]
        file = worker_settings(tmp_path / "w1", urls, postgres_url, "w1")
        async with worker_with_wrong_clock("w1", file, ahead) as refused:
            assert await refused.process.wait() == 2
        assert any("60 min ahead of the database's" in line for line in refused.log), refused.log
        assert not crawls(site)
        ahead.write_text("-5")
        running = await stack.enter_async_context(worker_with_wrong_clock("w1", file, ahead))
        run = {"w1": running}
        await until(lambda: len({seen.path for seen in crawls(site)}) == 4, run, "every page is crawled")
        ahead.write_text("3600")
        seen = {path: len(site.visits(f"/ok/{path}")) for path in range(4)}
        await until(
            lambda: all(len(site.visits(f"/ok/{path}")) > count + 3 for path, count in seen.items()), run, "all go on"
        )
        status = json.loads((await command("fleet", "status", "--json", "--config", str(file), cwd=tmp_path)).out)
        assert [one["kind"] for one in status["trouble"]] == ["clock"]
        assert await running.end() == 0
        database = await asyncpg.connect(postgres_url)
        stack.push_async_callback(database.close)
        first, last, now = await database.fetchrow(
            "SELECT min(at), max(at), extract(epoch FROM clock_timestamp())::float8 FROM crawls"
        )
        assert now - 60 < first <= last <= now


async def test_feeds_and_hubs_reach_whoever_holds_page_and_feed(tmp_path: Path, postgres_url: str) -> None:
    """A hub may call either worker about a feed that one holds; its entries reach the pages of both."""
    pages, run, doors = 24, dict[str, Running](), list[str]()
    async with Site(hosts=pages) as site, AsyncExitStack() as stack:
        urls = [site.url(f"/ok/{i}", host=i + 1) for i in range(pages)]
        feed = f'<feed><link rel="hub" href="{site.url("/hub")}"/>%s</feed>'
        site.pages["/feed"] = answer(feed % "", content_type="application/atom+xml")
        await made(postgres_url, 8, 40, tmp_path)
        for name in ("w1", "w2"):
            with socket.create_server(("127.0.0.1", 0)) as free:
                listen = f"127.0.0.1:{free.getsockname()[1]}"
            api = {"listen": listen, "public_url": f"http://{listen}", "token_file": str(tmp_path / name)}
            signals = {"sitemaps": [], "feeds": [site.url("/feed")]}
            file = worker_settings(tmp_path / f"of-{name}", urls, postgres_url, name, api=api, signals=signals)
            run[name] = await stack.enter_async_context(worker(name, file))
            doors.append(f"http://{listen}/websub/")
        await until(lambda: {who(seen) for seen in crawls(site)} == set(run), run, "both crawl")
        await until(lambda: len({seen.path for seen in crawls(site)}) == pages, run, "every page is crawled")
        await until(lambda: bool(site.visits("/hub")), run, "the hub is asked")
        form = {name: values[0] for name, values in parse_qs(site.visits("/hub")[0].body.decode()).items()}
        token = form["hub.callback"].rpartition("/")[2]
        asked = {"hub.mode": "subscribe", "hub.topic": form["hub.topic"], "hub.challenge": "c"}
        entries = "".join(f'<entry><link href="{url}"/></entry>' for url in urls)
        site.pages["/feed"] = answer(feed % entries, content_type="application/atom+xml")
        database = await asyncpg.connect(postgres_url)
        stack.push_async_callback(database.close)
        async with aiohttp.ClientSession() as session, asyncio.timeout(HANG_SECONDS):
            for door in doors:
                while await _status(session.get(door + token, params=asked)) != 200:
                    await asyncio.sleep(0.1)  # the feed's row is written a moment after its hub is asked
                assert await _status(session.get(door + "x" + token[1:], params=asked)) == 404
            for door in doors:
                while await _status(session.post(door + token, data=feed % entries)) != 202:
                    await asyncio.sleep(0.1)
            query = "SELECT count(DISTINCT page_id) FROM signals WHERE source IN ('feed', 'websub')"
            while await database.fetchval(query) < pages or len(site.visits("/feed")) < 2:
                await asyncio.sleep(0.1)
        assert [await one.end() for one in run.values()] == [0, 0]


async def _status(asked: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> int:
    async with asked as answered:
        return answered.status


async def test_a_worker_that_is_stopped_has_no_webhook_sent_again(tmp_path: Path, postgres_url: str) -> None:
    """Two workers take turns: what the first has delivered is written before its duty is free for the second."""
    async with Site() as site, Receiver() as ear:
        await made(postgres_url, 4, 40, tmp_path)
        urls = [site.url(f"/cue/{number}") for number in range(8)]
        for name, told in (("w1", 8), ("w2", 16)):
            file = worker_settings(tmp_path / name, urls, postgres_url, name, hooks=[hook(ear, verdicts=["changed"])])
            async with worker(name, file) as running:
                run = {name: running}
                await until(lambda: all(site.visits(f"/cue/{number}") for number in range(8)), run, "all are crawled")
                await until(partial(_serves_hooks, running), run, "the hook is open")
                for number in range(8):
                    site.change(f"/cue/{number}")
                await until(partial(_has_taken, ear, told), run, "all changes are told")
                assert await running.end() == 0
            assert not any("Traceback" in line for line in running.log), running.log
        assert len({one["id"] for one in ear.taken}) == len(ear.taken) == 16


def _serves_hooks(running: Running) -> bool:
    return any("duty=hooks" in line for line in running.log)


def _has_taken(ear: Receiver, count: int) -> bool:
    return len(ear.taken) == count
