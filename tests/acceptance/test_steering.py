"""Steering the running process: rate, pause, hosts, pages, settings and list."""

import asyncio
import json
import signal
from pathlib import Path

from tests.support.behaviours import answer
from tests.support.process import HANG_SECONDS, command, daemon, settings
from tests.support.site import Site


async def visited(site: Site, times: int) -> None:
    """Wait until the site was asked so many more times."""
    wanted = len(site.visits()) + times
    async with asyncio.timeout(HANG_SECONDS):
        while len(site.visits()) < wanted:
            await asyncio.sleep(0.05)


async def test_the_bandwidth_is_changed_live(tmp_path: Path) -> None:
    """5/s, 50/s, 0, 5/s: requests go on at each rate, and none leaves at 0."""
    async with Site() as site:
        pages = [site.url(f"/ok/{i}") for i in range(200)]
        file = settings(tmp_path, pages, min_interval=0.2, signals={"sitemaps": "off", "feeds": "off"})
        given = ["--database", "sqlite:///x.db"]
        async with daemon("--config", str(file), "--bandwidth", "5/s", cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            for rate, times in (("50/s", 70), ("0", 0), ("5/s", 5)):
                done = await command("bandwidth", rate, *given, cwd=tmp_path)
                assert done.status == 0, done.err
                if rate == "0":
                    before = await nothing_in_flight(site, given, tmp_path)
                    await asyncio.sleep(1.0)
                    assert len(site.visits()) == before
                await visited(site, times)
            shown = await command("bandwidth", *given, "--json", cwd=tmp_path)
            assert json.loads(shown.out) == {"bandwidth": 5.0, "paused": False}


async def nothing_in_flight(site: Site, given: list[str], folder: Path) -> int:
    """Wait until the daemon has no request under way; how many the site has had by then."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            status = json.loads((await command("stats", *given, "--json", cwd=folder)).out)["daemon"]
            if status["in_flight"] == status["waiting"] == 0:
                return len(site.visits())


async def test_what_was_steered_is_kept_over_a_restart(tmp_path: Path) -> None:
    """A paused daemon stays paused, a changed rate stays changed, a blocked host stays blocked."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="3/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            for words in (["bandwidth", "7/s"], ["pause"], ["host", site.host(), "block"]):
                done = await command(*words, *given, cwd=tmp_path)
                assert done.status == 0, done.err
            assert await running.end() == 0
        before = len(site.visits())
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("ready")
            await asyncio.sleep(1.0)
            assert len(site.visits()) == before
            resumed = await command("resume", *given, cwd=tmp_path)
            assert "7/s" in resumed.out
            await asyncio.sleep(1.0)
            assert len(site.visits()) == before
            explained = await command("explain", site.url("/ok/1"), *given, "--json", cwd=tmp_path)
            assert "blocked by the operator" in json.loads(explained.out)["now"]["why_not_now"]
            assert (await command("host", site.host(), "unblock", *given, cwd=tmp_path)).status == 0
            await visited(site, 1)


async def test_pages_come_and_go_by_list_and_by_hand(tmp_path: Path) -> None:
    """A changed list is taken over on SIGHUP, once; `urls add` and `remove` work on the running daemon."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1"), site.url("/ok/2")], bandwidth="20/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            (tmp_path / "urls.txt").write_text(f"{site.url('/ok/2')}\n{site.url('/ok/3')} 5\n")
            running.process.send_signal(signal.SIGHUP)
            assert "retired=1" in await running.until_logged("added=1")
            assert (await command("urls", "add", site.url("/ok/4"), *given, cwd=tmp_path)).status == 0
            await running.until_logged("/ok/4 verdict=new")
            removed = await command("urls", "remove", site.url("/ok/2"), site.url("/no"), *given, cwd=tmp_path)
            assert removed.status == 1
            assert "not here" in removed.err
            await asyncio.sleep(5.0)  # the watch has looked twice: what SIGHUP loaded is not loaded again
            listed = await command("urls", "list", *given, cwd=tmp_path)
            assert listed.out.split() == [site.url("/ok/3"), "5", site.url("/ok/4")]


async def test_a_removed_page_is_told_and_comes_back_unless_it_is_kept_out(tmp_path: Path) -> None:
    """`urls remove` says that the list brings a page back, --keep-out makes it stay, and the change feed tells both."""
    async with Site() as site:
        one, two = site.url("/ok/1"), site.url("/ok/2")
        file = settings(tmp_path, [one, two], bandwidth="20/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            for path in ("/ok/1", "/ok/2"):
                await running.until_logged(f"{path} verdict=new")
            removed = await command("urls", "remove", one, *given, cwd=tmp_path)
            assert (removed.status, removed.out) == (0, f"removed {one}\n")
            assert "it will come back: the URL list still names it" in removed.err
            assert f"crawld urls remove --keep-out {one}" in removed.err
            assert (await command("reload", *given, cwd=tmp_path)).out.endswith("list: 1 added, 0 removed\n")
            kept_out = await command("urls", "remove", "--keep-out", one, *given, cwd=tmp_path)
            assert (kept_out.out, kept_out.err) == (f"removed {one}, and kept out\n", "")
            (tmp_path / "urls.txt").write_text("".join(f"{site.url(f'/ok/{i}')}\n" for i in (1, 3, 4, 5)))
            assert (await command("reload", *given, cwd=tmp_path)).out.endswith("list: 3 added, 1 removed\n")
            assert (await command("urls", "list", "--excluded", *given, cwd=tmp_path)).out == f"{one}\n"
            told = await command("changes", "--after", "0", "--json", *given, cwd=tmp_path)
            verdicts = [json.loads(line) for line in told.out.splitlines()]
            assert [row["verdict"] for row in verdicts if row["url"] == one] == ["new", "removed", "back", "removed"]
            assert [row["verdict"] for row in verdicts if row["url"] == two] == ["new", "removed"]
            assert (await command("urls", "readmit", one, *given, cwd=tmp_path)).out == f"readmitted {one}\n"
            reloaded = await command("reload", "--json", *given, cwd=tmp_path)
            assert json.loads(reloaded.out)["list"] == {"added": 1, "removed": 0, "held_back": None}


async def test_a_file_cut_short_empties_nothing_until_told(tmp_path: Path) -> None:
    """Most of a list going is a trouble by name, and `reload --yes` lets it go."""
    async with Site() as site:
        urls = [site.url(f"/ok/{i}") for i in range(30)]
        given = ["--config", str(settings(tmp_path, urls, bandwidth="20/s"))]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("ready")
            (tmp_path / "urls.txt").write_text(f"{urls[0]}\n")
            assert "29 pages" in await running.until_logged("no longer names")
            stats = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
            assert "list_held_back" in [one["kind"] for one in stats["trouble"]]
            assert sum(stats["states"].values()) == 30
            done = await command("reload", "--yes", *given, cwd=tmp_path)
            assert done.out.endswith("29 removed\n")
            assert (await command("urls", "list", *given, cwd=tmp_path)).out == f"{urls[0]}\n"


async def test_the_list_named_by_a_reload_is_the_one_watched(tmp_path: Path) -> None:
    """After SIGHUP with another `urls` the new file is watched: a line added to it becomes a page by itself."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="20/s")
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            other = tmp_path / "other.txt"
            other.write_text(f"{site.url('/ok/2')}\n")
            file.write_text(file.read_text().replace("urls.txt", "other.txt"))
            running.process.send_signal(signal.SIGHUP)
            await running.until_logged("/ok/2 verdict=new")
            other.write_text(f"{site.url('/ok/2')}\n{site.url('/ok/3')}\n")
            await running.until_logged("/ok/3 verdict=new")


async def test_a_bad_reload_keeps_the_old_settings_and_says_why(tmp_path: Path) -> None:
    """A mistake in the file changes nothing; a good file takes effect at once."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("ready")
            good = file.read_text()
            file.write_text(good + "nonsense: 1\n")
            running.process.send_signal(signal.SIGHUP)
            assert "nonsense" in await running.until_logged("kept the old settings")
            file.write_text(good.replace("bandwidth: 5/s", "bandwidth: 9/s"))
            running.process.send_signal(signal.SIGHUP)
            await running.until_logged("took over the settings")
            shown = await command("bandwidth", *given, cwd=tmp_path)
            assert shown.out.strip() == "9/s"


async def test_stats_explain_and_get_work_with_and_without_the_daemon(tmp_path: Path) -> None:
    """The reading commands answer while it runs and after it stopped."""
    async with Site() as site:
        url = site.url("/ok/1")
        file = settings(tmp_path, [url, site.url("/absent")], bandwidth="10/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=unchanged")
            while_running = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
            assert while_running["daemon"]["pages"] == 2
            assert await running.end() == 0
        stopped = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
        assert stopped["daemon"] is None
        assert stopped["pages"] == 2
        for view in ("--hosts", "--pages", "--signals", "--calibration"):
            done = await command("stats", view, "--json", *given, cwd=tmp_path)
            assert done.status == 0, done.err
            assert isinstance(json.loads(done.out), list)
        assert "freshness" in (await command("stats", "--pages", *given, cwd=tmp_path)).out
        explained = await command("explain", url, *given, cwd=tmp_path)
        assert "crawld is not running" in explained.out
        copy = await command("get", url, *given, cwd=tmp_path)
        assert "Page /ok/1" in copy.out
        assert "fetched" in copy.err
        assert (await command("get", site.url("/absent"), *given, cwd=tmp_path)).status == 2
        assert (await command("explain", site.url("/unknown"), *given, cwd=tmp_path)).status == 2


async def test_get_says_that_a_page_is_gone(tmp_path: Path) -> None:
    """It says since when and prints nothing; with --gone the last copy comes with a note, where there is one."""
    async with Site() as site:
        url, absent = site.url("/cue/1"), site.url("/absent")
        file = settings(tmp_path, [url, absent], bandwidth="10/s", min_interval=0.2, max_interval=0.4)
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            site.pages["/cue/1"] = answer("not here", 410)
            await running.until_logged("/cue/1 verdict=gone")
            assert await running.end() == 0
        said = await command("get", url, *given, cwd=tmp_path)
        assert (said.status, said.out) == (2, "")
        assert "is gone since 20" in said.err
        assert "status 410" in said.err
        assert "--gone" in said.err
        last = await command("get", url, "--gone", *given, cwd=tmp_path)
        assert (last.status, "Page /cue/1" in last.out) == (0, True)
        assert "this is the last copy, fetched" in last.err
        never = await command("get", absent, "--gone", *given, cwd=tmp_path)
        assert (never.status, never.out) == (2, "")
        assert "no copy is held" in never.err
        assert "gone since" in (await command("explain", url, *given, cwd=tmp_path)).out


async def test_explain_says_when_a_page_is_expected(tmp_path: Path) -> None:
    """A page just crawled waits for its least interval; none is expected while crawld is paused."""
    async with Site() as site:
        url = site.url("/ok/1")
        file = settings(tmp_path, [url], bandwidth="5/s", min_interval="1h")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            explained = json.loads((await command("explain", url, "--json", *given, cwd=tmp_path)).out)
            assert 3000 < explained["now"]["expected_in_seconds"] <= 3600
            assert "expected in" in (await command("explain", url, *given, cwd=tmp_path)).out
            assert (await command("pause", *given, cwd=tmp_path)).status == 0
            explained = json.loads((await command("explain", url, "--json", *given, cwd=tmp_path)).out)
            assert explained["now"]["expected_in_seconds"] is None
            assert explained["now"]["why_not_now"] == "crawld is paused"
