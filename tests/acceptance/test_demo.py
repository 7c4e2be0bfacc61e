"""The newcomer's first minute."""

import asyncio
import json
import signal
import sqlite3
import sys
from pathlib import Path

import aiohttp
import pytest

from crawld.research.demo import QUERY
from tests.support.process import ENVIRONMENT, HANG_SECONDS, command


async def test_the_demo_ends_with_a_report_of_what_was_measured(tmp_path: Path) -> None:
    """JSON with the truth, the prediction and round robin beside it; its database answers the query that is shown."""
    folder = tmp_path / "kept"
    ended = await command(
        "demo",
        "--seconds",
        "8",
        "--pages",
        "24",
        "--bandwidth",
        "12/s",
        "--database",
        str(folder),
        "--json",
        cwd=tmp_path,
    )
    assert ended.status == 0, ended.err
    report = json.loads(ended.out)
    for name in ("freshness_true", "freshness_predicted", "freshness_uniform"):
        assert 0.0 < report[name] <= 1.0, name
    assert report["bandwidth"] == 12.0
    assert report["seconds"] >= 8.0
    assert 0 < report["requests"] <= 12.0 * (report["seconds"] + 4.0) + 1
    assert len(report["freshest"]) == len(report["stalest"]) == 5
    with sqlite3.connect(report["database"]) as db:
        assert len(db.execute(QUERY).fetchall()) == 5
        (crawls,) = db.execute("SELECT count(*) FROM crawls").fetchone()
    assert 0 < crawls <= report["requests"]


async def test_the_demo_shows_tables_and_where_to_look_further(tmp_path: Path) -> None:
    """Without --json a person reads who held more, the freshest and stalest pages, and a query to try."""
    ended = await command("demo", "--seconds", "5", "--pages", "10", "--bandwidth", "10/s", cwd=tmp_path)
    assert ended.status == 0, ended.err
    for text in ("true freshness", "round robin", "freshest", "sqlite3 -box", "crawld demo --open"):
        assert text in ended.out


@pytest.mark.parametrize("late", [True, False])
async def test_ctrl_c_ends_the_demo_with_what_was_seen_so_far(tmp_path: Path, late: bool) -> None:
    """After a few seconds there is a report of them; before, a sentence that says why there is none."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "crawld", "demo", "--seconds", "600", "--database", str(tmp_path), "--json",
        env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    while not (tmp_path / "crawld-demo.db").exists():
        await asyncio.sleep(0.05)
    await asyncio.sleep(7.0 if late else 0.0)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    if late or process.returncode == 0:  # a busy machine may take longer than that to start
        assert process.returncode == 0, err
        assert 5.0 <= json.loads(out)["seconds"] < 600.0
    else:
        assert b"too early" in err


async def test_the_demo_is_served_in_the_browser_until_ctrl_c(tmp_path: Path) -> None:
    """With --open the dashboard answers after the report, at the link that was printed; ctrl-C ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "crawld", "demo", "--seconds", "5", "--pages", "12", "--open", "--json",
        "--database", str(tmp_path), env=ENVIRONMENT | {"DISPLAY": "", "WAYLAND_DISPLAY": ""},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    async with asyncio.timeout(HANG_SECONDS):
        while b"/login?code=" not in (line := await process.stderr.readline()):
            assert line, "ended without a link"
    jar = aiohttp.CookieJar(unsafe=True)  # an address, not a name
    async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(line.decode().strip()) as answered:
        assert answered.status == 200
        shown = await answered.text()
    assert "of what you care about is current" in shown or "first round" in shown  # on a busy machine
    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["pages"] == 12
