"""The listener among strangers: whom it answers, what it takes from them, and what it lets them hold."""

import asyncio
import dataclasses
import gc
import gzip
import io
import socket
import sqlite3
import stat
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import event
from sqlalchemy.pool import Pool

from crawld.main.assembly import Assembly
from crawld.main.settings import load
from crawld.main.supervisor import Daemon
from crawld.model.host import HostState
from crawld.show.api import access, copies
from crawld.show.api.app import ControlServer
from crawld.show.api.listener import Listener
from crawld.show.api.public import PublicServer
from tests.support.behaviours import answer
from tests.support.daemon import bearer, running, until
from tests.support.process import HANG_SECONDS, command, free_port, settings
from tests.support.site import Site

SELDOM = {"min_interval": 2, "max_interval": 4}


@asynccontextmanager
async def listening(
    folder: Path, site: Site, **api: object
) -> AsyncIterator[tuple[Daemon, int, aiohttp.ClientSession]]:
    """A daemon with one page that was crawled, its port, and a client without the token."""
    given = {"listen": f"127.0.0.1:{(port := free_port())}"} | api
    async with running(folder, [site.url("/ok/1")], api=given, **SELDOM) as daemon:
        await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        await daemon.store.flush()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield daemon, port, session


async def test_only_our_own_names_are_answered_for(tmp_path: Path) -> None:
    """A name that somebody lets point to us is refused; localhost, the address, and names of the settings are not."""
    more = {"hosts": ["crawld.example.org"], "public_url": "https://hooks.example.org/crawld"}
    async with Site() as site, listening(tmp_path, site, **more) as (_, port, session):
        ours = ["localhost", f"LocalHost.:{port}", f"127.0.0.1:{port}", "crawld.example.org:443", "hooks.example.org"]
        for host in [*ours, "evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "a b"]:
            async with session.get("/healthz", headers={"Host": host}) as answered:
                assert (answered.status, host) == (200 if host in ours else 421, host)
        assert b" 421 " in await raw(port, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " not in await raw(
            port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
        )


async def test_the_token_opens_everything_that_does_not_prove_itself(tmp_path: Path) -> None:
    """Without it 401 names the command that prints it, which prints the one that opens."""
    async with Site() as site, listening(tmp_path, site) as (_, port, session):
        file = tmp_path / "x.db.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        api = {"listen": f"127.0.0.1:{port}"}
        printed = await command("token", "--config", str(settings(tmp_path, [], api=api)), cwd=tmp_path)
        right = {"Authorization": f"bearer {printed.out.strip()}"}
        wrong = {"Authorization": "Bearer " + "é" * 43}
        url = site.url("/ok/1")
        for headers, status in ((None, 401), (wrong, 401), (right, 200)):
            for method, path in (("GET", "/status"), ("GET", f"/copy?url={url}"), ("POST", "/signals")):
                async with session.request(method, path, json=[url], headers=headers) as answered:
                    assert answered.status == status
                    assert ("crawld token" in await answered.text()) == (status == 401)
        async with session.get("/nowhere") as answered:
            assert answered.status == 401
        async with session.get("/", headers={"Accept": "text/html,*/*;q=0.8"}) as answered:  # as a browser asks
            assert (answered.status, answered.content_type) == (401, "text/html")
            assert "<code>crawld dashboard</code> prints the link" in await answered.text()
        async with session.get("/indexnow") as answered:
            assert answered.status == 404  # there is no public address


async def test_there_is_no_token_before_the_first_start(tmp_path: Path) -> None:
    """The command says what makes one."""
    ended = await command("token", cwd=tmp_path)
    assert ended.status == 2
    assert "crawld.db.token: start the daemon, which makes it" in ended.err


async def test_open_reading_opens_reading_on_loopback_alone(tmp_path: Path) -> None:
    """Not what steers, not what a proxy hands on, and not under a public name."""
    more = {"open_reading": True, "hosts": ["crawld.example.org"]}
    async with Site() as site, listening(tmp_path, site, **more) as (_, _port, session):
        for path in ("/status", f"/copy?url={site.url('/ok/1')}"):
            async with session.get(path) as answered:
                assert answered.status == 200
            for headers in ({"X-Forwarded-For": "203.0.113.1"}, {"Host": "crawld.example.org"}):
                async with session.get(path, headers=headers) as answered:
                    assert answered.status == 401
        async with session.post("/signals", json=[]) as answered:
            assert answered.status == 401


async def test_a_page_of_another_site_steers_nothing(tmp_path: Path) -> None:
    """A browser names the page that asks; only our own names may."""
    async with Site() as site, listening(tmp_path, site) as (_, port, session):
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Origin": f"http://localhost:{port + 1}"}, 403),
            ({"Origin": f"http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
        ):
            async with session.post("/signals", json=[], headers=bearer(tmp_path) | headers) as answered:
                assert answered.status == status


async def test_the_doors_for_strangers_are_shut_to_pages(tmp_path: Path) -> None:
    """With a public address sites and hubs are answered, but no page in a browser can ask for them."""
    async with Site() as site, listening(tmp_path, site, public_url="https://crawld.example.org") as (_, _, session):
        for method, path in (("GET", "/indexnow"), ("POST", "/indexnow"), ("GET", "/websub/x"), ("POST", "/websub/x")):
            for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
                async with session.request(method, path, headers=headers, data=b"{}") as answered:
                    assert answered.status == 403
            async with session.request(method, path, data=b"{}") as answered:
                assert answered.status == (400 if path == "/indexnow" else 404 if method == "GET" else 410)


async def test_the_doors_for_strangers_tell_nothing_of_the_list(tmp_path: Path) -> None:
    """An IndexNow submission is answered alike whether its page is listed, its key denied, or neither."""
    async with Site() as site, listening(tmp_path, site, public_url="https://crawld.example.org") as (_, _, session):
        said = set()
        for url in (site.url("/ok/1"), site.url("/nothing"), "https://elsewhere.example/"):
            for number in range(6):
                query = {"url": url, "key": f"a-key-of-nobody-{number}"}
                async with session.get("/indexnow", params=query) as answered:
                    said.add((answered.status, await answered.text()))
        assert said == {(202, '{"accepted": 1}')}


async def test_health_is_one_word(tmp_path: Path) -> None:
    """It needs no token and tells no details; a store in trouble makes it 503."""
    async with Site() as site, listening(tmp_path, site) as (daemon, _, session):
        async with session.get("/healthz") as answered:
            assert (answered.status, await answered.text()) == (200, "ok")
        other = sqlite3.connect(tmp_path / "x.db", timeout=60.0, isolation_level=None, check_same_thread=False)
        # in a thread: the writer may hold the lock, and needs the loop to let it go
        await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
        daemon.store.record_host(HostState("example.org"))
        await until(lambda: not daemon.store.healthy)
        async with session.get("/healthz") as answered:
            assert (answered.status, await answered.text()) == (503, "not ok")
        other.close()


async def test_a_copy_cannot_act(tmp_path: Path) -> None:
    """It is shown in a sandbox, by a type that is one, and read without opening the database each time."""
    async with Site() as site:
        site.pages["/ok/1"] = answer("<script>alert(1)</script>")
        opened: list[object] = []
        async with listening(tmp_path, site) as (_, _port, session):
            with sqlite3.connect(tmp_path / "x.db") as db:
                db.execute("UPDATE bodies SET content_type = 'text/html<script>'")
            event.listen(Pool, "connect", lambda *given: opened.append(given))
            for _ in range(5):
                path = f"/copy?url={site.url('/ok/1')}"
                async with session.get(path, headers=bearer(tmp_path)) as answered:
                    assert await answered.text() == "<script>alert(1)</script>"
                    assert answered.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
                    assert answered.headers["X-Content-Type-Options"] == "nosniff"
                    assert answered.headers["Content-Type"] == "application/octet-stream"
            async with session.head(path, headers=bearer(tmp_path)) as answered:
                assert (answered.status, answered.headers["Content-Length"]) == (200, "25")
        assert 1 <= len(opened) <= 2


async def test_bodies_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """By their length, while they come, and where they are packed."""
    public = {"public_url": "https://crawld.example.org"}
    async with Site() as site, listening(tmp_path, site, **public) as (_, port, session):
        said = await raw(port, b"POST /indexnow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
        assert b" 413 " in said
        assert b"2,097,152 bytes" in said

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(90):
                yield b" " * 65_536

        said = await raw(port, b"POST /indexnow HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 411 " in said
        try:
            async with session.post("/signals", data=pieces(), headers=bearer(tmp_path)) as answered:
                assert answered.status == 413
        except aiohttp.ClientConnectionError:
            pass  # closed before we had sent it all
        packed = gzip.compress(b"[]")
        headers = bearer(tmp_path) | {"Content-Encoding": "gzip"}
        async with session.post("/signals", data=packed, headers=headers) as answered:
            assert answered.status == 415


async def raw(port: int, request: bytes) -> bytes:
    """What is answered to these bytes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(HANG_SECONDS):
        said = await reader.read()
    writer.close()
    return said


async def test_idle_connections_give_way(tmp_path: Path) -> None:
    """Three hundred that say nothing hold no more than one address may, and a request is answered all the same."""
    async with Site() as site, listening(tmp_path, site) as (_, port, session):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        async with session.get("/healthz") as answered:
            assert answered.status == 200
        closed = [reader for reader, _ in idle if reader.at_eof() or reader.exception()]
        await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader, _ in idle) >= 236)
        assert len(closed) <= 300 - access.LIMITS.max_per_address + 2
        for _, writer in idle:
            writer.close()


async def test_headers_that_never_end_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps no connection open."""
    monkeypatch.setattr(access, "LIMITS", dataclasses.replace(access.LIMITS, head_seconds=0.3))
    monkeypatch.setattr(access, "LIMITS", dataclasses.replace(access.LIMITS, sweep_seconds=0.05))
    async with Site() as site, listening(tmp_path, site) as (_, port, _session):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            writer.write(b"G")
            await asyncio.sleep(0.02)
        assert await asyncio.gather(reading, return_exceptions=True)
        writer.close()


async def test_strangers_are_slowed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes too fast without the token is refused; with it, it is answered."""
    limits = dataclasses.replace(access.LIMITS, refused_seconds=0.0, strangers_rate=0.0)
    monkeypatch.setattr(access, "LIMITS", limits)
    async with Site() as site, listening(tmp_path, site) as (_, _port, session):
        seen = []
        for _ in range(int(access.LIMITS.strangers_burst) + 5):
            async with session.get("/indexnow") as answered:
                seen.append(answered.status)
        assert seen == [404] * int(access.LIMITS.strangers_burst) + [429] * 5
        async with session.get("/status", headers=bearer(tmp_path)) as answered:
            assert answered.status == 200


async def test_the_control_socket_takes_no_more_than_it_can_read_at_once(tmp_path: Path) -> None:
    """A body too large, a list too long and JSON too deep are refused in a sentence."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1")], **SELDOM) as daemon:
        await until(lambda: (tmp_path / "x.db.sock").exists() and daemon.crawler.status.starting is None)
        connector = aiohttp.UnixConnector(str(tmp_path / "x.db.sock"))
        async with aiohttp.ClientSession("http://crawld", connector=connector) as session:
            for body, status, said in (
                (b'{"urls": [' + b'"http://e.example/",' * 5_000 + b'"http://e.example/"]}', 400, "5000 at a time"),
                (b"[" * 100_000, 400, "not JSON"),
                (b" " * 2**20 + b"{}", 413, "send it in parts"),
            ):
                async with session.post("/urls", data=io.BytesIO(body)) as answered:
                    assert (answered.status, said in (await answered.json())["error"]) == (status, True)


async def test_a_few_copies_are_served_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that take nothing hold a bounded number of copies; the next one is told to come again."""
    monkeypatch.setattr(copies, "LIMITS", dataclasses.replace(copies.LIMITS, wait_seconds=0.2))
    async with Site() as site:
        site.pages["/ok/1"] = answer("x" * 9_000_000)
        async with listening(tmp_path, site) as (_, port, session):
            token = bearer(tmp_path)["Authorization"]
            path = f"/copy?url={site.url('/ok/1')}"
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n".encode()
            held = [
                await asyncio.open_connection("127.0.0.1", port, limit=1024) for _ in range(copies.LIMITS.max_copies)
            ]
            for reader, writer in held:
                writer.write(head)
                await reader.readexactly(100)
            async with session.get(path, headers=bearer(tmp_path)) as answered:
                assert (answered.status, answered.headers["Retry-After"]) == (503, "10")
            for _, writer in held:
                writer.transport.abort()
            async with session.get(path, headers=bearer(tmp_path)) as answered:
                assert len(await answered.read()) == 9_000_000


async def _cancelled_after(steps: int, serving: Coroutine[Any, Any, None]) -> None:
    """Let a server run for so many turns of the loop, and cancel it."""
    task = asyncio.create_task(serving)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_stop_leaves_no_socket_open_however_early_it_comes(tmp_path: Path) -> None:
    """A daemon that is stopped while it begins to listen gives up the port and the control socket."""
    assembly = Assembly(load(None, {"database": f"sqlite:///{tmp_path}/x.db", "urls": str(tmp_path / "urls.txt")}))
    opened = 0
    for steps in range(12):
        listener, port = Listener(), free_port()
        public = PublicServer(lambda first: web.Application(middlewares=[first]), f"127.0.0.1:{port}", listener)
        control = ControlServer(assembly.api_parts(), tmp_path / f"{steps}.sock", assembly.listener)
        await _cancelled_after(steps, public.run())
        with socket.create_server(("127.0.0.1", port)):
            opened += 1
        await _cancelled_after(steps, control.run())
        assert not control.path.exists()
    gc.collect()  # a socket that is left open is a warning, which fails the test
    assert opened == 12
