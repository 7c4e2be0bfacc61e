"""Reloads and configuration: what is refused is seen by everyone, what is checked is what would run."""

import asyncio
import json
import re
import signal
import sqlite3
from pathlib import Path

from tests.support.process import command, daemon, daemon_by_shell, settings
from tests.support.service_manager import UNIT, manager
from tests.support.site import Site, Visit


async def test_a_refused_reload_is_seen_by_everyone(tmp_path: Path) -> None:
    """A warning in the log, a line in the status, status 1 of `crawld reload`, until a reload is taken over."""
    async with Site() as site, manager(tmp_path) as told:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path, env=told.environment) as running:
            await told.until_told("READY=1")
            good = file.read_text()
            file.write_text(good + "nonsense: 1\n")
            running.process.send_signal(signal.SIGHUP)
            line = await running.until_logged("kept the old settings")
            assert "warning reload refused" in line
            await told.until_told("READY=1", times=2)
            shown = [line for line in told.lines if line.startswith("STATUS=")][-1]
            assert re.search(r"pages at 5/s.*; reload refused at \S+ \d\d:\d\d UTC: .*nonsense: no such setting", shown)
            refused = await command("reload", *given, cwd=tmp_path)
            assert refused.status == 1
            assert "nonsense: no such setting" in refused.err
            status = json.loads((await command("stats", "--json", "--database", "sqlite:///x.db", cwd=tmp_path)).out)
            assert "nonsense" in status["daemon"]["reload_refused"]
            assert ".;" not in status["daemon"]["reload_refused"]
            assert "reload_refused" in [one["kind"] for one in status["trouble"]]
            assert status["daemon"]["faults"] == 0
            file.write_text("{broken")
            refused = await command("reload", "--json", "--database", "sqlite:///x.db", *given, cwd=tmp_path)
            assert (refused.status, "not YAML" in json.loads(refused.out)["refused"]) == (1, True)
            file.write_text(good)
            assert (await command("reload", *given, cwd=tmp_path)).status == 0
            await told.until_told("READY=1", times=5)
            shown = [line for line in told.lines if line.startswith("STATUS=")][-1]
            assert "refused" not in shown


async def test_a_reload_tells_what_it_applied_and_what_waits(tmp_path: Path) -> None:
    """Only what took effect is called taken over; what waits for a restart is named at every reload until then."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("ready")
            file.write_text(file.read_text() + "signals: {share: 0.1, sitemaps: off}\npolicy: uniform\n")
            for applied in (["signals.share"], []):
                done = await command("reload", "--json", *given, cwd=tmp_path)
                assert json.loads(done.out) == {"applied": applied, "waiting": ["policy", "signals.sitemaps"]}
            done = await command("reload", *given, cwd=tmp_path)
            assert "after a restart: policy, signals.sitemaps" in done.out
            file.write_text(file.read_text() + "user_agent: nobody\n")
            refused = await command("reload", *given, cwd=tmp_path)
            assert (refused.status, "names no contact" in refused.err) == (1, True)


async def test_without_a_daemon_a_reload_says_so(tmp_path: Path) -> None:
    """There is nothing to reload, and the status is not 0."""
    ended = await command("reload", cwd=tmp_path)
    assert ended.status == 2
    assert "no daemon answers" in ended.err


async def test_an_unconfigured_service_says_so_once(tmp_path: Path) -> None:
    """The status line names the file; the exit status is one after which systemd does not start it again."""
    await command("install-service", "--install", "--root", str(tmp_path), cwd=tmp_path)
    file = tmp_path / "etc/crawld/config.yaml"
    async with manager(tmp_path) as told:
        ended = await command("run", "--config", str(file), cwd=tmp_path, env=told.environment)
        shown = await told.until_told("STATUS=")
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(.*)$", UNIT, re.MULTILINE)
    assert str(ended.status) in prevented.split()
    assert f"nothing to crawl: {file}" in shown
    assert ended.err.count("nothing to crawl") == 1
    assert "check-config" in ended.err
    assert list(tmp_path.glob("*.db")) == []


async def test_a_service_without_its_database_is_started_again(tmp_path: Path) -> None:
    """What may pass by itself ends with another status than what a person has to mend."""
    file = settings(tmp_path, ["http://127.0.0.1:9/"], database="sqlite:///away/x.db")
    async with manager(tmp_path) as told:
        ended = await command("run", "--config", str(file), cwd=tmp_path, env=told.environment)
        assert "does not exist" in await told.until_told("STATUS=")
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(.*)$", UNIT, re.MULTILINE)
    assert ended.status == 75
    assert "75" not in prevented.split()


async def test_discover_without_a_list_is_enough(tmp_path: Path) -> None:
    """The site's robots.txt leads to its sitemap, and the pages listed there are crawled."""
    async with Site() as site:

        async def sitemap(visit: Visit) -> None:
            urls = [site.url("/ok/1"), site.url("/ok/2"), site.url("/other/3")]
            await visit.reply("<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>")

        site.pages["/map.xml"] = sitemap
        site.robots["127.0.0.1"] = f"Sitemap: {site.url('/map.xml')}\n"
        file = settings(tmp_path, [], urls=None, bandwidth="20/s", discover=[{"site": site.url("/ok/")}])
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            for path in ("/ok/1", "/ok/2"):
                await running.until_logged(f"{path} verdict=new")
            assert await running.end() == 0
        assert not site.visits("/other/3")
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("SELECT count(*) FROM pages").fetchone() == (2,)


async def test_discover_finds_the_usual_sitemap(tmp_path: Path) -> None:
    """Where robots.txt names none, /sitemap.xml is asked for; a second start goes on with it."""
    async with Site() as site:

        async def sitemap(visit: Visit) -> None:
            await visit.reply(f"<urlset><url><loc>{site.url('/ok/1')}</loc></url></urlset>")

        site.pages["/sitemap.xml"] = sitemap
        file = settings(tmp_path, [], urls=None, bandwidth="20/s", discover=[{"site": site.url("/")}])
        for _ in range(2):
            async with daemon("--config", str(file), cwd=tmp_path) as running:
                await running.until_logged("/ok/1 verdict=")
                assert await running.end() == 0


async def test_discover_with_nothing_to_read_does_not_start(tmp_path: Path) -> None:
    """Without sitemaps and feeds no page could ever be found: that is said at once."""
    off = {"sitemaps": "off", "feeds": "off"}
    file = settings(tmp_path, [], urls=None, signals=off, discover=[{"site": "http://127.0.0.1:9/"}])
    ended = await command("run", "--config", str(file), cwd=tmp_path)
    assert (ended.status, "sitemaps and feeds" in ended.err) == (2, True)


async def test_a_list_from_a_process_substitution(tmp_path: Path) -> None:
    """`--urls <(…)` is read once; a reload keeps its pages and nothing watches the pipe."""
    async with Site() as site:
        file = settings(tmp_path, [], bandwidth="5/s")
        (tmp_path / "source.txt").write_text(f"{site.url('/ok/1')}\n{site.url('/ok/2')}\n")
        script = f"exec {{}} -m crawld run --config {file} --urls <(sleep 0.2; cat source.txt)"
        async with daemon_by_shell(script, tmp_path) as running:
            assert "pages=2" in await running.until_logged("ready")
            assert (await command("reload", "--config", str(file), cwd=tmp_path)).status == 0
            await asyncio.sleep(5.0)  # the watch has looked twice
            assert "unchanged" not in "\n".join(line for line in running.log if " list " in line)
            assert await running.end() == 0
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("SELECT count(*) FROM pages WHERE state != 'retired'").fetchone() == (2,)


async def test_a_pipe_that_never_ends_does_not_keep_the_daemon_from_stopping(tmp_path: Path) -> None:
    """SIGTERM ends a start that waits for its list."""
    file = settings(tmp_path, [])
    urls = "<(exec sleep 60 2>/dev/null)"  # its end must not be waited for
    async with daemon_by_shell(f"exec {{}} -m crawld run --config {file} --urls {urls}", tmp_path) as running:
        await running.until_logged("restored")
        assert await running.end() == 0


async def test_the_list_named_in_a_file_lies_beside_that_file(tmp_path: Path) -> None:
    """The daemon finds it from any working directory; a missing one is named with its absolute path."""
    (tmp_path / "work").mkdir()
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        async with daemon("--config", str(file), cwd=tmp_path / "work") as running:
            await running.until_logged("verdict=new")
            (tmp_path / "urls.txt").unlink()
            refused = await command("reload", "--config", "../config.yaml", cwd=tmp_path / "work")
            assert (refused.status, f"URL list {tmp_path / 'urls.txt'}" in refused.err) == (1, True)
    ended = await command("run", "--config", "../config.yaml", cwd=tmp_path / "work")
    assert ended.status == 2
    assert re.search(rf"URL list {tmp_path}/\S*urls.txt: there is no such file", ended.err)
    ended = await command("run", "--urls", "absent.txt", cwd=tmp_path)
    assert f"URL list {tmp_path / 'absent.txt'}: there is no such file" in ended.err
