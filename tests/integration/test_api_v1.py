"""Version 1 of the HTTP API against a real daemon, on the listener and on the control socket."""

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crawld.cli.dashboard import own_listener
from crawld.main.assembly import Assembly
from crawld.main.settings import load
from crawld.model.errors import CrawldError
from crawld.show.api.access import LIMITS as ACCESS_LIMITS
from crawld.show.api.access import login_code, make_token
from crawld.show.api.app import ControlServer
from tests.support.behaviours import answer, page
from tests.support.daemon import get, running, serving, until
from tests.support.process import command
from tests.support.site import Site


async def address_of(session: aiohttp.ClientSession) -> str:
    """Where the daemon of a session listens."""
    async with session.get("/v1/status") as answered:
        return str(answered.url.origin())


async def test_reading(tmp_path: Path) -> None:
    """Status, pages, a page, its versions and their difference, hosts, signals and figures over time."""
    async with Site() as site, serving(tmp_path, site, "/cue/1", "/ok/2", "/ok/3") as (daemon, session):
        url = site.url("/cue/1")
        assert (await get(session, "/v1/status"))["pages"] == 3
        first = await get(session, "/v1/pages", limit=2, sort="importance")
        rest = await get(session, "/v1/pages", limit=2, sort="importance", after=first["next"])
        assert len({one["url"] for one in first["pages"] + rest["pages"]}) == 3
        assert rest["next"] is None
        assert 0 <= first["pages"][0]["freshness"] <= 1
        stalest = await get(session, "/v1/pages", sort="freshness", search="ok")
        assert len(stalest["pages"]) == 2
        assert len((await get(session, "/v1/pages", sort="next_crawl"))["pages"]) == 3
        site.change("/cue/1")
        await until(lambda: daemon.crawler.status.verdicts["changed"] >= 1)
        await daemon.store.flush()
        found = await get(session, "/v1/page", url=url)
        assert (found["view"]["page"]["url"], found["now"]["url"]) == (url, url)
        assert [one["verdict"] for one in found["view"]["changes"]] == ["changed", "new"]
        newest, oldest = (await get(session, "/v1/versions", url=url))["versions"]
        difference = await get(session, "/v1/diff", url=url)
        assert (difference["before"]["id"], difference["after"]["id"]) == (oldest["id"], newest["id"])
        assert {word["edit"] for block in difference["blocks"] for word in block["words"]} >= {"added", "removed"}
        query = {"url": url, "from": str(newest["id"]), "to": str(oldest["id"]), "format": "unified"}
        async with session.get("/v1/diff", params=query) as answered:
            assert (await answered.text()).startswith(f"--- {url} version {newest['id']}\n")
        await get(session, "/v1/diff", 404, url=site.url("/ok/2"))
        await get(session, "/v1/page", 404, url="https://unknown.example/")
        assert [one["pages"] for one in await get(session, "/v1/hosts")] == [3]
        for path in ("/v1/signals", "/v1/freshness", "/v1/calibration", "/v1/slots"):
            assert isinstance(await get(session, path), list)
        assert "now" in json.dumps(await get(session, "/v1/forecast", bandwidth="1/s, 5/s"))
        for path, query in (("/v1/pages", {"limit": "0"}), ("/v1/pages", {"x": "1"}), ("/v1/page", {})):
            assert "error" in await get(session, path, 400, **query)


async def test_a_copy_with_its_age_and_conditions(tmp_path: Path) -> None:
    """Bytes or visible text, as is asked; a copy that the asker has already is not sent again."""
    async with Site() as site:
        site.pages["/ok/1"] = answer(page("Hello", "Nice to see <b>you</b>."), content_type="text/html; charset=utf-8")
        async with serving(tmp_path, site, "/ok/1") as (_, session):
            asking = {"url": site.url("/ok/1")}
            async with session.get("/v1/copy", params=asking) as answered:
                assert "<b>you</b>" in await answered.text()
                assert answered.content_type == "text/html"
                headers = answered.headers
            assert int(headers["Age"]) >= 0
            assert 0 <= float(headers["X-Freshness"]) <= 1
            accept = {"Accept": "text/plain"}
            async with session.get("/v1/copy", params=asking, headers=accept) as answered:
                assert "Nice to see you." in (await answered.text()).splitlines()
                assert answered.headers["ETag"] != headers["ETag"]
            for condition in (
                {"If-None-Match": f'"other", W/{headers["ETag"]}'},
                {"If-Modified-Since": headers["Last-Modified"]},
            ):
                async with session.get("/v1/copy", params=asking, headers=condition) as answered:
                    assert (answered.status, await answered.read()) == (304, b"")
            condition = {"If-None-Match": '"other"', "If-Modified-Since": headers["Last-Modified"]}
            async with session.get("/v1/copy", params=asking, headers=condition) as answered:
                assert answered.status == 200
            async with session.head("/v1/copy", params=asking) as answered:
                assert (answered.status, answered.headers["ETag"]) == (200, headers["ETag"])
            async with session.get("/v1/copy", params=asking, headers={"Accept": "image/png"}) as answered:
                assert answered.status == 406
            numbered = asking | {"version": headers["X-Version"]}
            async with session.get("/v1/copy", params=numbered) as answered:
                assert answered.status == 200
            async with session.get("/v1/copy", params=asking | {"version": "99"}) as answered:
                assert answered.status == 404


async def test_changes_are_told_as_they_are_committed(tmp_path: Path) -> None:
    """A request that waits is answered by the next change; a stream goes on from the last event that was seen."""
    async with Site() as site, serving(tmp_path, site, "/cue/1") as (_, session):
        first = await get(session, "/v1/changes")
        assert [one["verdict"] for one in first["changes"]] == ["new"]
        assert (await get(session, "/v1/changes", after="now"))["changes"] == []
        waiting = asyncio.create_task(get(session, "/v1/changes", after=first["cursor"], wait=30))
        await asyncio.sleep(0)
        site.change("/cue/1")
        second = await waiting
        assert [(one["verdict"], one["url"]) for one in second["changes"]] == [("changed", site.url("/cue/1"))]
        assert not second["missed"]
        async with session.get("/v1/events", headers={"Last-Event-ID": str(first["cursor"])}) as stream:
            assert stream.content_type == "text/event-stream"
            site.change("/cue/1")
            seen: list[Any] = []
            async for line in stream.content:
                if line.startswith(b"data:"):
                    seen.append(json.loads(line[5:]))
                if len(seen) == 2:
                    break
        assert seen[0] == second["changes"][0]
        assert seen[1]["id"] == seen[0]["id"] + 1
        async with session.get("/v1/events", headers={"Last-Event-ID": "x"}) as answered:
            assert answered.status == 400


async def test_steering_on_both_doors(tmp_path: Path) -> None:
    """The listener with its token and the control socket without one steer alike."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, session):
        connector = aiohttp.UnixConnector(str(tmp_path / "x.db.sock"))
        async with aiohttp.ClientSession("http://crawld", connector=connector) as local:
            for door, rate in ((session, 7.0), (local, 9.0)):
                for path, body, key, value in (
                    ("bandwidth", {"rate": rate}, "bandwidth", rate),
                    ("pause", {}, "paused", True),
                    ("resume", {}, "paused", False),
                    ("host", {"host": site.host(), "delay": "2s"}, "delay", 2.0),
                    ("host", {"host": site.host(), "delay": None, "blocked": True}, "blocked", True),
                    ("host", {"host": site.host(), "blocked": False}, "blocked", False),
                    ("urls", {"add": [{"url": site.url("/ok/9")}]}, "added", 1),
                    ("urls", {"remove": [site.url("/ok/9")]}, "removed", [site.url("/ok/9")]),
                ):
                    async with door.post(f"/v1/{path}", json=body) as answered:
                        assert answered.status == 200, await answered.text()
                        assert (await answered.json())[key] == value
                async with door.post("/v1/bandwidth", json={"rate": "nonsense"}) as answered:
                    assert answered.status == 400
                assert (await get(door, "/v1/openapi.json"))["openapi"] == "3.1.0"
                assert (await get(door, "/v1/status"))["bandwidth"] == rate
                await get(door, "/v1/nothing", 404)


async def test_a_browser_gets_a_cookie_for_a_code(tmp_path: Path) -> None:
    """The link sets a cookie once and leads away; the cookie reads, and steers only from our own pages."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, program):
        address = await address_of(program)
        async with aiohttp.ClientSession(address, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            async with browser.get("/v1/status") as answered:
                assert answered.status == 401
            token = make_token(tmp_path / "x.db.token")
            now = time.time()
            code, old, early = (login_code(token, at) for at in (now, now - 2 * ACCESS_LIMITS.code_seconds, now - 60.0))
            forged = f"{code[:-1]}{'0' if code[-1] != '0' else '1'}"
            for query in (
                {"token": token},
                {"code": "guess"},
                {"code": ".x."},
                *({"code": one} for one in (forged, old)),
            ):
                async with browser.get("/login", params=query) as answered:
                    assert answered.status == 401
            async with browser.get("/login", params={"code": early}) as answered:
                assert answered.status == 401  # made before this daemon began: it may have been used
            async with browser.get("/login", params={"code": code}, allow_redirects=False) as answered:
                assert (answered.status, answered.headers["Location"]) == (303, "/")
                given = answered.headers["Set-Cookie"]
            async with browser.get("/login", params={"code": code}, allow_redirects=False) as answered:
                assert answered.status == 401
            assert "Secure" not in given
            proxied, another = {"X-Forwarded-Proto": "https"}, login_code(token, time.time())
            async with program.get(
                "/login", params={"code": another}, headers=proxied, allow_redirects=False
            ) as answered:
                assert "; Secure" in answered.headers["Set-Cookie"]
            assert "HttpOnly" in given
            assert "SameSite=Strict" in given
            assert token not in given
            await get(browser, "/v1/status")
            for headers, status in (
                ({}, 403),
                ({"Origin": "http://evil.example"}, 403),
                ({"Origin": "http://127.0.0.1:1"}, 403),
                ({"Sec-Fetch-Site": "same-site", "Origin": address}, 403),
                ({"Sec-Fetch-Site": "same-origin"}, 200),
                ({"Origin": address}, 200),
            ):
                async with browser.post("/v1/pause", json={}, headers=headers) as answered:
                    assert answered.status == status, headers


@pytest.mark.parametrize("path", ["/v1/status", "/v1/pages", "/v1/changes", "/status"])
async def test_open_reading_never_steers(tmp_path: Path, path: str) -> None:
    """With `api.open_reading` a program on this machine reads without the token, and cannot steer."""
    async with (
        Site() as site,
        serving(tmp_path, site, "/ok/1", api={"open_reading": True}) as (_, program),
        aiohttp.ClientSession(await address_of(program)) as stranger,
    ):
        await get(stranger, path)
        async with stranger.post("/v1/pause", json={}) as answered:
            assert answered.status == 401
        async with stranger.get(path, headers={"Host": "evil.example"}) as answered:
            assert answered.status == 421


async def test_a_taken_port_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The daemon crawls without its listener and says what to do."""
    async with Site() as site:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            async with running(tmp_path, [site.url("/ok/1")], api={"listen": listen}) as daemon:
                await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
    assert "set api.listen to another one, or to null" in caplog.text


async def test_a_program_that_has_taken_the_port_gets_no_token(tmp_path: Path) -> None:
    """`crawld dashboard` says that there is no listener and why, with status 2, and so does `crawld stats`."""
    heard: list[bytes] = []

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10_000))
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"proof": "ok"}')
        writer.close()

    async with Site() as site, await asyncio.start_server(impostor, "127.0.0.1", 0) as taken:
        listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
        file = tmp_path / "config.yaml"
        file.write_text(f"database: sqlite:///{tmp_path}/x.db\napi: {{listen: '{listen}'}}\n")
        async with running(tmp_path, [site.url("/ok/1")], api={"listen": listen}), asyncio.timeout(300.0):
            ended = await command("dashboard", "--config", str(file), cwd=tmp_path)
            while "no daemon runs" in ended.err:  # its control socket opens a moment after its pages are there
                ended = await command("dashboard", "--config", str(file), cwd=tmp_path)
            stats = await command("stats", "--json", "--config", str(file), cwd=tmp_path)
            token = (tmp_path / "x.db.token").read_text().strip()
    assert ended.status == 2
    assert "another program has this port" in ended.err
    assert token not in ended.out + ended.err
    assert heard == []
    assert "no_listener" in [one["kind"] for one in json.loads(stats.out)["trouble"]]


async def test_a_listener_that_cannot_prove_itself_gets_no_token(tmp_path: Path) -> None:
    """Where the daemon listens but something else answers at its address, only the nonce has travelled."""
    heard: list[bytes] = []

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"proof": "ok"}')
        writer.close()

    async with await asyncio.start_server(impostor, "127.0.0.1", 0) as taken, Site() as site:
        listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
        settings = load(None, {"database": f"sqlite:///{tmp_path}/y.db", "urls": str(tmp_path / "urls.txt")})
        (tmp_path / "urls.txt").write_text(site.url("/ok/1"))
        assembly = Assembly(settings)
        assembly.listener.opened(listen)
        control = ControlServer(assembly.api_parts(), settings.control_socket(), assembly.listener)
        serving_socket = asyncio.create_task(control.run())
        await until(control.path.exists)
        with pytest.raises(CrawldError, match="is not this daemon"):
            await asyncio.to_thread(own_listener, settings)
        serving_socket.cancel()
        await asyncio.gather(serving_socket, return_exceptions=True)
    assert [line.split(b"?")[0] for line in heard] == [b"GET /listener"]
    assert b"uthorization" not in heard[0]


async def test_the_command_prints_the_link(tmp_path: Path) -> None:
    """`crawld dashboard` prints a link that lets a browser in; without a daemon it says so."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, program):
        file = tmp_path / "config.yaml"
        listen = (await address_of(program)).removeprefix("http://")
        file.write_text(f"database: sqlite:///{tmp_path}/x.db\napi: {{listen: '{listen}'}}\n")
        ended = await command("dashboard", "--no-open", "--config", str(file), cwd=tmp_path)
        async with aiohttp.ClientSession() as browser, browser.get(ended.out.strip(), allow_redirects=False) as found:
            assert found.status == 303
    ended = await command("dashboard", "--config", str(file), cwd=tmp_path)
    assert (ended.status, "start it with `crawld run`" in ended.err) == (2, True)
