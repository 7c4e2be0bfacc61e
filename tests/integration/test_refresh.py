"""Pages that are asked for now: before all others, once however many ask, never beyond the rate."""

import asyncio
from pathlib import Path

import aiohttp

from tests.support.daemon import CALM, bearer, rows, running, until
from tests.support.process import HANG_SECONDS, command, daemon, free_port, settings
from tests.support.site import Site


async def test_those_who_ask_for_a_page_share_one_request(tmp_path: Path) -> None:
    """Fifty ask at once for a page whose time has not come: one request leaves, and all are told what it found."""
    async with Site() as site, running(tmp_path, [site.url("/cue/1"), site.url("/ok/1")], **CALM) as running_daemon:
        await until(lambda: running_daemon.crawler.status.verdicts["new"] == 2)
        site.change("/cue/1")
        control = running_daemon.crawler
        page = next(iter(page for page in running_daemon.page_set.pages() if page.url.endswith("/cue/1")))
        now = running_daemon.clock.now()
        asked = [control.asked.ask(page, now, under_way=False) for _ in range(50)]
        control.wake()
        answers = await asyncio.gather(*asked)
        assert len(site.visits("/cue/1")) == 2
        assert {getattr(answer, "verdict", answer) for answer in answers} == {"changed"}
        assert len(control.asked) == 0


async def test_asked_pages_go_first_within_the_rate_and_by_turns_of_hosts(tmp_path: Path) -> None:
    """Twenty pages of two hosts, asked for at once at 10/s: one slot each, both hosts by turns, none too early."""
    async with Site(hosts=2) as site:
        urls = [site.url(f"/ok/{n}", host=host) for n in range(10) for host in (1, 2)]
        others = [site.url(f"/cue/{n}") for n in range(20)]
        async with running(tmp_path, [*urls, *others], bandwidth="10/s", **CALM) as running_daemon:
            await until(lambda: running_daemon.crawler.status.verdicts["new"] == 40)
            before, now = len(site.visits()), running_daemon.clock.now()
            pages = {page.url: page for page in running_daemon.page_set.pages()}
            asked = [running_daemon.crawler.asked.ask(pages[url], now, under_way=False) for url in urls]
            await asyncio.wait(asked, timeout=HANG_SECONDS)
            seen = site.visits()[before : before + 20]
        assert sorted(visit.path for visit in seen) == sorted(f"/ok/{n}" for n in range(10) for _ in (1, 2))
        hosts = [visit.host for visit in seen]
        assert all(one != other for one, other in zip(hosts[::2], hosts[1::2], strict=True))


async def test_the_api_refreshes_and_tells_why_it_cannot(tmp_path: Path) -> None:
    """Crawled, forbidden by robots.txt, unknown; what came is in the database when the answer comes."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with (
        Site(robots={"127.0.0.1": "User-agent: *\nDisallow: /ok/secret\n"}) as site,
        aiohttp.ClientSession(headers=bearer(tmp_path)) as session,
        running(
            tmp_path,
            [site.url("/ok/1"), site.url("/ok/secret")],
            api={"listen": f"127.0.0.1:{port}"},
            **CALM,
        ) as running_daemon,
    ):
        await until(lambda: running_daemon.crawler.status.verdicts["new"] == 1)
        wanted = [site.url("/ok/1"), site.url("/ok/secret"), site.url("/elsewhere")]
        async with session.post(f"{api}/v1/refresh", json={"urls": wanted, "wait": 60}) as answered:
            assert answered.status == 200, await answered.text()
            found = (await answered.json())["pages"]
        assert [(one["url"], one["state"]) for one in found] == list(
            zip(wanted, ("crawled", "refused", "unknown"), strict=True)
        )
        assert found[0]["verdict"] == "unchanged"
        assert "crawld urls add" in found[2]["sentence"]
        assert rows(tmp_path, "SELECT crawls FROM pages WHERE url LIKE '%/ok/1'") == [(2,)]
        async with session.get(f"{api}/v1/actions") as answered:
            (action,) = await answered.json()
        assert (action["verb"], action["who"], action["undoable"]) == ("refresh", "token at 127.0.0.1", False)


async def test_the_command_line_refreshes_a_page(tmp_path: Path) -> None:
    """A line for each page, and status 1 where one could not be asked."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/cue/1")], min_interval=3600)
        async with daemon("--config", str(file), "--bandwidth", "20/s", cwd=tmp_path) as process:
            await process.until_logged("verdict=new")
            site.change("/cue/1")
            done = await command("refresh", site.url("/cue/1"), "--wait", "20s", "--config", str(file), cwd=tmp_path)
            assert (done.status, done.out) == (0, f"crawled: {site.url('/cue/1')}: changed\n"), done.err
            done = await command("refresh", "http://127.0.0.1:9/", "--config", str(file), cwd=tmp_path)
            assert done.status == 1
            assert done.out.startswith("unknown: http://127.0.0.1:9/: it is not on the list")
