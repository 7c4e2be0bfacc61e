"""The worker processes of a real daemon: they share its end, whatever that is."""

import asyncio
import os
import signal
from pathlib import Path

from tests.support.behaviours import FILLER, page
from tests.support.process import AFRESH, HANG_SECONDS, daemon, runs, settings
from tests.support.site import Site, Visit


async def long_page(visit: Visit) -> None:
    """A page that is never the same twice and too long to be read on the event loop."""
    await visit.reply(page(f"Page {len(visit.site.log)}", *[FILLER] * 400))


def long_pages(site: Site, count: int) -> list[str]:
    """The URLs of so many such pages."""
    paths = [f"/long/{number}" for number in range(count)]
    site.pages |= dict.fromkeys(paths, long_page)
    return [site.url(path) for path in paths]


def children(pid: int) -> list[int]:
    """All processes below a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, listed) for each in (child, *children(child))]


async def gone(pids: list[int]) -> bool:
    """Whether these processes end within some seconds."""
    for _ in range(200):
        if not any(map(runs, pids)):
            return True
        await asyncio.sleep(0.05)
    return False


async def test_killed_daemons_leave_no_process(tmp_path: Path) -> None:
    """After kill -9 the processes that read for the daemon end by themselves."""
    async with Site() as site:
        file = settings(tmp_path, long_pages(site, 1), bandwidth="5/s")
        async with daemon("--config", str(file), cwd=tmp_path, env=AFRESH) as running:
            await running.until_logged("verdict=new")
            async with asyncio.timeout(HANG_SECONDS):
                while len(below := children(running.process.pid)) < 2:  # the template and a worker
                    await asyncio.sleep(0.05)
            await running.end(signal.SIGKILL)
            assert await gone(below)


async def test_a_signal_to_every_process_ends_the_daemon_cleanly(tmp_path: Path) -> None:
    """Service managers stop the whole group: the daemon ends with status 0, and its workers with it."""
    async with Site() as site:
        file = settings(tmp_path, long_pages(site, 20), bandwidth="50/s")
        async with daemon("--config", str(file), cwd=tmp_path, env=AFRESH) as running:
            await running.until_logged("verdict=new")
            below = children(running.process.pid)
            for pid in below:
                os.kill(pid, signal.SIGTERM)
            assert await running.end() == 0
            assert await gone(below)
        assert not [line for line in running.log if "internal error" in line or "Traceback" in line]


async def test_a_worker_that_is_killed_costs_one_crawl_at_most(tmp_path: Path) -> None:
    """Somebody kills every worker, and then what starts them: pages go on being read."""
    async with Site() as site:
        file = settings(tmp_path, long_pages(site, 40), bandwidth="20/s")
        async with daemon("--config", str(file), cwd=tmp_path, env=AFRESH) as running:
            await running.until_logged("verdict=new")
            template, *workers = children(running.process.pid)
            for pid in (*workers, template):
                os.kill(pid, signal.SIGKILL)
            seen = len(running.log)
            async with asyncio.timeout(HANG_SECONDS):
                while sum("verdict=new" in line for line in running.log[seen:]) < 5:
                    await asyncio.sleep(0.05)
            assert await running.end() == 0
        assert not [line for line in running.log if "internal error" in line]
