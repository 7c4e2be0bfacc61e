"""Sites that turn the daemon away: named, no change, no copy lost, and told wherever trouble is told."""

import asyncio
import sqlite3
from pathlib import Path

import aiohttp
from click.testing import CliRunner

from crawld.cli import main
from crawld.main.assembly import Assembly
from crawld.main.settings import Settings
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.pages.pages import TURNED_AWAY_WAITS
from crawld.research.lab import WorldOptions
from crawld.research.site import LabSite
from crawld.show.report import TURNED_AWAY_SENTENCES
from tests.support.behaviours import answer, html
from tests.support.daemon import bearer, listening, rows, running, scrape, until
from tests.support.process import free_port
from tests.support.site import Site, Visit
from tests.support.walls import ARTICLE, WALLS

STATUSES = {401: "login_required", 402: "payment_required", 403: "forbidden", 451: "geo_blocked"}
BACKED_OFF = "SELECT count(*) FROM hosts WHERE failures > 0"


async def login(visit: Visit) -> None:
    """A page that sends visitors to a login, which answers 200."""
    if visit.seen.path.endswith("/login"):
        await visit.reply("<h1>Log in</h1>")
    else:
        await visit.reply(status=302, headers={"Location": f"/login?next={visit.seen.path}"})


def wall_paths() -> dict[str, tuple[int, str, int]]:
    """A path for each network and status: its host, network and status."""
    numbered = list(enumerate(WALLS, 1))
    return {f"/wall/{host}/{status}": (host, name, status) for host, name in numbered for status in (403, 503, 200)}


async def test_a_site_that_turns_us_away_is_named_and_keeps_its_copy(tmp_path: Path) -> None:
    """Walls of six networks as 403, 503 and 200, logins and refusals each have a name; no copy is touched."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    walls, plain_host = wall_paths(), len(WALLS) + 1
    others = [f"/status/{status}" for status in STATUSES] + ["/private", "/article"]
    async with Site(hosts=plain_host) as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        urls = {path: site.url(path, host) for path, (host, _, _) in walls.items()}
        urls |= {path: site.url(path, plain_host) for path in others}
        site.pages |= {path: html(f"<p>The page {path} as it was.</p>") for path in urls}
        async with running(tmp_path, list(urls.values()), api={"listen": f"127.0.0.1:{port}"}) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == len(urls) and listening(port))
            for path, (_, name, status) in walls.items():
                body, headers = WALLS[name]
                site.pages[path] = answer(
                    body, status, **{key.replace("-", "_"): text for key, text in headers.items()}
                )
            site.pages |= {f"/status/{status}": answer("no", status) for status in STATUSES}
            site.pages |= {"/private": login, "/login": login, "/article": html(ARTICLE)}
            await until(lambda: sum(daemon.crawler.pages.turned_away().values()) == len(urls) - 1)
            await until(lambda: daemon.crawler.status.verdicts["changed"] == 1)
            await daemon.store.flush()
            metrics = await scrape(tmp_path)
            stats = await asyncio.to_thread(_said, tmp_path, "stats")
            hosts = await asyncio.to_thread(_said, tmp_path, "host", "list")
            explained = await asyncio.to_thread(_said, tmp_path, "explain", urls["/private"])
            async with session.get(f"{api}/") as front, session.get(f"{api}/hosts") as listed:
                overview, host_view = await front.text(), await listed.text()
            async with session.get(f"{api}/pages?trouble=bot_wall") as found:
                pages_view = await found.text()
    stopped = await asyncio.to_thread(_said, tmp_path, "stats")

    latest = "SELECT url, trouble, detail FROM pages JOIN crawls ON page_id = pages.id WHERE verdict = 'failed'"
    troubles = {url: (trouble, detail) for url, trouble, detail in rows(tmp_path, latest)}
    for path, (_, name, status) in walls.items():
        assert troubles[urls[path]] == ("bot_wall", f"challenge of {name} (status {status})")
    for status, name in STATUSES.items():
        assert troubles[urls[f"/status/{status}"]][0] == name
    assert troubles[urls["/private"]] == ("login_required", f"redirect to {site.url('/login', plain_host)}")
    assert urls["/article"] not in troubles
    assert rows(tmp_path, "SELECT count(*) FROM crawls WHERE verdict IN ('changed', 'gone')") == [(1,)]
    assert rows(tmp_path, "SELECT count(*) FROM bodies") == [(len(urls) + 1,)]
    assert rows(tmp_path, "SELECT count(DISTINCT page_id) FROM crawls WHERE verdict = 'failed'") == [(len(urls) - 1,)]
    assert rows(tmp_path, BACKED_OFF) == [(0,)]

    assert 'crawld_pages_turned_away{trouble="bot_wall"} 18.0' in metrics
    for said in (stats, stopped, overview):
        assert said.count("asks for a login (2 pages)") == 1  # once for the origin, of a 401 and a redirect
        assert "docs/credentials.md" in said
        assert said.count("keeps bots out with a challenge (3 pages)") == 5
        assert "1 more site does the same (bot_wall)" in said
        assert "asks to be paid" in said
        assert "forbids its pages (403)" in said
        assert "legal reasons (451)" in said
    assert "bot wall (3 pages)" in hosts
    assert "login required" in explained.replace("_", " ")
    assert "turns us away: bot wall, 3 pages" in host_view
    assert all(path in pages_view for path in walls)
    assert "/article" not in pages_view


async def test_a_page_of_the_lab_that_turns_bots_away_is_seen_in_the_dashboard(tmp_path: Path) -> None:
    """Each way in which the lab lets no crawler in is told on the overview, with what to do about it."""
    api, names = f"http://127.0.0.1:{(port := free_port())}", [trouble.value for trouble in TURNED_AWAY]
    drawn = WorldOptions("weblike", 5, 1, None, 1.0, 0.0, 1).scenario(600.0)
    async with LabSite(drawn, turn_away=1.0) as lab, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        urls = [lab.url(page) for page in range(5)]
        async with running(tmp_path, urls, api={"listen": f"127.0.0.1:{port}"}) as daemon:
            await until(lambda: len(daemon.crawler.pages.turned_away()) == len(names) and listening(port))
            async with session.get(f"{api}/") as front:
                overview = await front.text()
    for name in names:
        says, advice = TURNED_AWAY_SENTENCES[name]
        assert f"{lab.origin(0)} {says} (1 page)" in overview
        assert advice.partition("`")[0] in overview


def _said(folder: Path, *arguments: str) -> str:
    """What a command prints, with room for long lines."""
    given = [*arguments, "--database", f"sqlite:///{folder}/x.db"]
    done = CliRunner().invoke(main, given, env={"COLUMNS": "400"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


async def test_a_chain_that_passes_a_login_by_itself_is_followed(tmp_path: Path) -> None:
    """A silent login that leads back with a cookie, a listed login page and a moved article are no login walls."""

    async def silent(visit: Visit) -> None:
        if visit.seen.path == "/login":
            await visit.reply(status=302, headers={"Location": "/journal", "Set-Cookie": "seen=1; Path=/"})
        elif "seen=1" in visit.seen.headers.get("cookie", ""):
            await visit.reply("<p>The journal.</p>")
        else:
            await visit.reply(status=302, headers={"Location": "/login"})

    async with Site() as site:
        site.pages |= {"/journal": silent, "/login": silent, "/users/sign_in": html("<p>Log in here.</p>")}
        site.pages |= {"/manual": answer("", 301, Location="/docs/login"), "/docs/login": html("<p>On logins.</p>")}
        urls = [site.url(path) for path in ("/journal", "/users/sign_in", "/manual")]
        async with running(tmp_path, urls) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] >= 3)
    assert rows(tmp_path, "SELECT count(*) FROM crawls WHERE verdict = 'failed'") == [(0,)]


async def test_a_walled_host_is_left_alone_and_the_wait_survives_a_restart(tmp_path: Path) -> None:
    """After ten pages that turn us away a host backs off; pages keep the wait of their trouble over a restart."""
    async with Site() as site:
        body, _ = WALLS["Cloudflare"]
        site.pages |= {f"/wall/{number}": answer(body, 403) for number in range(40)}
        urls = [site.url(f"/wall/{number}") for number in range(40)]
        async with running(tmp_path, urls, politeness={"delay": 0, "per_host": 1}) as daemon:
            gate = daemon.crawler.gate
            await until(lambda: gate.backs_off(gate.host(site.host())))
        asked = len(site.visits()) - len(site.visits("/robots.txt"))
        assert asked == 10
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("SELECT count(*) FROM pages WHERE turned_away = 'bot_wall'").fetchall() == [(10,)]
        db.execute("UPDATE hosts SET failures = 0, blocked_until = 0")
    again = Assembly(Settings.model_validate({"database": f"sqlite:///{tmp_path}/x.db", "api": {"listen": None}}))
    await again.store.start()
    try:
        await again.page_set.restore(again.clock.now())
        walled = again.pages.turned_away_by(Trouble.BOT_WALL)
        assert len(walled) == 10
        first, _ = TURNED_AWAY_WAITS[Trouble.BOT_WALL]
        assert all(again.scheduler.waits_until(page) > again.clock.now() + first / 2 for page in walled)
    finally:
        await again.store.close()


def test_every_refusal_has_its_own_wait() -> None:
    """Each trouble of being turned away has a back-off of its own."""
    assert set(TURNED_AWAY_WAITS) == set(TURNED_AWAY)
