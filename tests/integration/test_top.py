"""`crawld top` beside a real daemon: one frame, as JSON, live on a terminal, and without a daemon."""

import asyncio
import json
import os
import pty
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.support.daemon import running, until
from tests.support.process import ENVIRONMENT, HANG_SECONDS, ROOT, command
from tests.support.site import Site


async def top(folder: Path, *more: str, columns: int = 80) -> tuple[int, str]:
    """`crawld top` at that width: its status and what it printed."""
    database = f"sqlite:///{folder}/x.db"
    done = await command("top", *more, "--database", database, cwd=folder, env={"COLUMNS": str(columns)})
    assert done.err == ""
    return done.status, done.out


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
async def test_one_frame_fits_the_width(tmp_path: Path, columns: int) -> None:
    """Freshness, rate, slots by use, and the change that was found."""
    async with Site() as site:
        urls = [site.url(f"/cue/{'long-' * 12}{number}") for number in range(3)]
        async with running(tmp_path, urls) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["unchanged"] >= 3)
            status, out = await top(tmp_path, "--once", columns=columns)
    assert status == 0
    assert "running · 3 pages" in out
    for word in ("fresh", "rate", "page", "robots", "idle", "skipped", "new", "127.0.0.1"):
        assert word in out, word
    assert max(cell_len(line) for line in out.splitlines()) <= columns


async def test_one_document_for_programs_also_while_paused(tmp_path: Path) -> None:
    """With everything that the screen shows."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1")]) as daemon:
        await until(lambda: daemon.crawler.status.requests >= 3)
        (await command("pause", "--database", f"sqlite:///{tmp_path}/x.db", cwd=tmp_path))
        status, out = await top(tmp_path, "--json")
        _, shown = await top(tmp_path, "--once")
    document = json.loads(out)
    assert (status, document["state"], document["status"]["paused"]) == (0, "running", True)
    assert {row["spent_on"] for row in document["slots"]} >= {"page", "robots", "idle", "skipped"}
    assert [change["verdict"] for change in document["changes"]] == ["new"]
    assert "paused" in shown
    assert "`crawld resume` resumes crawling" in shown


async def test_without_a_daemon_it_says_so(tmp_path: Path) -> None:
    """With status 1, and a document for programs all the same."""
    status, out = await top(tmp_path, "--once")
    assert (status, "is not running, or is still starting" in out) == (1, True)
    status, out = await top(tmp_path, "--json")
    assert (status, json.loads(out)["state"]) == (1, "not_running")


@pytest.mark.parametrize("key", [b"q", b"\x03"])
async def test_the_live_screen_ends_with_q_and_ctrl_c(tmp_path: Path, key: bytes) -> None:
    """On a real terminal, which it leaves as it was."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1")]) as daemon:
        await until(lambda: daemon.crawler.status.requests >= 3)
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "crawld", "top", "--every", "0.2s", "--database", f"sqlite:///{tmp_path}/x.db"]
        size = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STARTER, *words, stdin=theirs, stdout=theirs, stderr=theirs,
            env=ENVIRONMENT | size, cwd=ROOT,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        loop = asyncio.get_running_loop()
        try:
            while b"running" not in seen:
                seen += await loop.run_in_executor(None, os.read, ours, 65_536)
            os.write(ours, key)
            rest = loop.run_in_executor(None, _drain, ours)
            assert await asyncio.wait_for(process.wait(), HANG_SECONDS) == 0
            seen += await rest
        finally:
            if process.returncode is None:  # the thread that reads the terminal ends with it
                process.kill()
            os.close(ours)
    assert re.search(rb"\x1b\[\?1049l", seen), "the screen before is shown again"


STARTER = (
    "import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal the program's own, so that ctrl-C reaches it: also where the tests run in the background, as the
shell starts what follows it there with SIGINT ignored."""


def _drain(place: int) -> bytes:
    found = b""
    try:
        while piece := os.read(place, 65_536):
            found += piece
    except OSError:  # the other end is closed
        return found
    return found
