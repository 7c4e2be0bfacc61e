"""The newcomer's first minute."""

import asyncio
import json
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from crawld.cli.trials.demo_report import QUERY
from tests.process import ENVIRONMENT, command


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
    assert 24 <= report["requests"] <= 12.0 * (report["seconds"] + 4.0) + 1
    assert len(report["freshest"]) == len(report["stalest"]) == 5
    with sqlite3.connect(report["database"]) as db:
        assert len(db.execute(QUERY).fetchall()) == 5
        (crawls,) = db.execute("SELECT count(*) FROM crawls").fetchone()
    assert 0 < crawls <= report["requests"]


async def test_the_demo_shows_tables_and_where_to_look_further(tmp_path: Path) -> None:
    """Without --json a person reads who held more, the freshest and stalest pages, and a query to try."""
    ended = await command("demo", "--seconds", "5", "--pages", "10", "--bandwidth", "10/s", cwd=tmp_path)
    assert ended.status == 0, ended.err
    for text in ("true freshness", "round robin", "freshest", "sqlite3 -box"):
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
    if late:
        assert process.returncode == 0, err
        assert 5.0 <= json.loads(out)["seconds"] < 600.0
    else:
        assert process.returncode not in {0, None}
        assert b"too early" in err
