"""The real process against a real server: rate, clean stop, refusals."""

import asyncio
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.support.process import ENVIRONMENT, HANG_SECONDS, Running, command, daemon, settings
from tests.support.site import Site


async def test_each_request_in_the_servers_log_had_its_slot_and_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    """Every request has a slot of its own and a row in the database; status 0, nothing half-written."""
    async with Site() as site:
        pages_there = [site.url(f"/ok/{i}") for i in range(30)]  # one found changed may be asked twice
        file = settings(tmp_path, pages_there)
        async with daemon("--config", str(file), "--bandwidth", "20/s", cwd=tmp_path) as running:
            await running.until_logged("ready")
            async with asyncio.timeout(HANG_SECONDS):
                while len(site.visits()) <= 50:
                    await asyncio.sleep(0.05)
            assert await asyncio.wait_for(running.end(), HANG_SECONDS) == 0
        asked = len(site.visits())
        pages = [seen for seen in site.visits() if seen.path.startswith("/ok/")]
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (recorded,) = db.execute("SELECT count(*) FROM crawls").fetchone()
        (spent,) = db.execute("SELECT sum(slots) FROM slot_history WHERE use NOT IN ('idle', 'skipped')").fetchone()
    assert (recorded, spent) == (len(pages), asked)


async def test_ctrl_c_ends_it_cleanly_too(tmp_path: Path) -> None:
    """SIGINT is as good as SIGTERM."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")])
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("crawl")
            assert await running.end(signal.SIGINT) == 0


async def test_without_pages_it_says_what_to_give(tmp_path: Path) -> None:
    """`crawld run` alone names the options and an example, and makes no file."""
    ended = await command("run", cwd=tmp_path)
    assert ended.status == 2
    assert "crawld run urls.txt" in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


async def test_a_list_without_a_usable_line_is_an_error_that_names_the_lines(tmp_path: Path) -> None:
    """Each bad line is named with its number, and the status says that nothing was usable."""
    (tmp_path / "urls.txt").write_bytes(b"ftp://x/\n\xff\n")
    ended = await command("run", "--urls", "urls.txt", cwd=tmp_path)
    assert ended.status == 2
    assert "line 1" in ended.err
    assert "line 2" in ended.err
    assert "no usable line" in ended.err


async def test_a_database_in_use_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """A second daemon on the same database does not start."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")])
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("ready")
            second = await command("run", "--config", str(file), cwd=tmp_path)
    assert second.status == 2
    assert "in use" in second.err
    assert "Traceback" not in second.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--config", "absent.yaml"], "absent.yaml"),
        (["run", "--urls", "absent.txt"], "absent.txt"),
        (["run", "--urls", "x", "--bandwidth", "fast"], "2/s"),
        (["run", "--urls", "x", "--database", "mysql://x"], "sqlite:///FILE"),
        (["bandwidth", "fast"], "2/s"),
        (["pause"], "no daemon answers"),
        (["demo", "--bandwidth", "x"], "2/s"),
        (["demo", "--seconds", "0"], "--seconds"),
        (["nonsense"], "No such command"),
    ],
)
async def test_bad_arguments_get_a_sentence_and_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    """What was wrong is named; no traceback."""
    ended = await command(*arguments, cwd=tmp_path)
    assert ended.status == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.glob("*.db")) == []


async def test_a_list_from_standard_input_is_read_once(tmp_path: Path) -> None:
    """A reload takes over the settings and leaves the pages: there is nothing more to read."""
    async with Site() as site:
        file = settings(tmp_path, [], bandwidth="5/s")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crawld", "run", "--config", str(file), "--urls", "-", cwd=tmp_path, env=ENVIRONMENT,
            stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        running = Running(process)
        assert process.stdin is not None
        process.stdin.write(f"{site.url('/ok/1')}\n{site.url('/ok/2')}\n".encode())
        process.stdin.close()
        assert "pages=2" in await running.until_logged("ready")
        process.send_signal(signal.SIGHUP)
        assert "took over" in await running.until_logged("reload")
        assert await running.end() == 0
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("SELECT count(*) FROM pages WHERE state != 'retired'").fetchone() == (2,)


async def test_sigterm_while_a_long_list_is_read_ends_the_start(tmp_path: Path) -> None:
    """Nobody waits until it is taken over; what was, is whole, and the next start goes on with it."""
    file = settings(tmp_path, [f"http://127.0.0.1:9/{i}" for i in range(60_000)], bandwidth="1/s")
    async with daemon("--config", str(file), cwd=tmp_path) as running:
        await running.until_logged("restored")
        assert await asyncio.wait_for(running.end(), HANG_SECONDS) == 0
        assert "stopped before the first request" in running.log[-1]
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM settings WHERE name = 'list taken over'").fetchone() == (0,)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stat"], "Did you mean 'stats'?"),
        (["urls", "ad", "https://example.org/"], "Did you mean 'add'?"),
        (["run", "--bandwith", "2/s"], "--bandwidth"),
        (["run", "config.yaml"], "crawld run --config config.yaml"),
        (["run", "a.txt", "--urls", "b.txt"], "not both"),
    ],
)
async def test_misspelt_commands_are_answered_with_what_may_be_meant(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    """A command, an option or a file in the wrong place is answered with what to write, and status 2."""
    ended = await command(*arguments, cwd=tmp_path)
    assert (ended.status, said in ended.err) == (2, True), ended.err


async def test_a_list_needs_no_option_and_ready_says_where_to_look(tmp_path: Path) -> None:
    """`crawld run urls.csv` takes a CSV without a header; `ready` names the dashboard and `crawld stats`."""
    async with Site() as site:
        (tmp_path / "urls.csv").write_text(f"{site.url('/ok/1')},2\n{site.url('/ok/2')},1\n")
        (tmp_path / "c.yaml").write_text("allow_private: [127.0.0.0/8]\napi: {listen: '127.0.0.1:0'}\n")
        async with daemon("urls.csv", "--config", "c.yaml", cwd=tmp_path) as running:
            line = await running.until_logged("ready")
            assert "pages=2" in line
            assert "dashboard=http://127.0.0.1:" in line
            assert "crawld stats" in line
            assert await running.end() == 0
