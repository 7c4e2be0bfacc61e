"""A daemon that runs out of files survives, says so, and goes on when there are some again."""

import asyncio
import os
import resource
from pathlib import Path

from tests.support.behaviours import answer, page
from tests.support.process import HANG_SECONDS, command, daemon, settings
from tests.support.site import Site


def crawls(log: list[str], verdict: str) -> int:
    """Log lines of crawls with that verdict."""
    return sum(f"verdict={verdict}" in line for line in log)


async def test_a_daemon_without_files_goes_on_when_it_has_some(tmp_path: Path) -> None:
    """Connections fail one by one and are said to, no host is held to blame, nothing is lost."""
    async with Site(hosts=8) as site:
        paths = [f"/{number}" for number in range(320)]
        site.pages |= dict.fromkeys(paths, answer(page("A page"), Connection="close"))  # each needs a file of its own
        pages = [site.url(path, host=1 + number % 8) for number, path in enumerate(paths)]
        file = settings(tmp_path, pages, bandwidth="40/s", min_interval=0.5)
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            pid = running.process.pid
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
            await running.until_logged("Too many open files")
            before = len(running.log)
            await asyncio.sleep(3)
            assert running.process.returncode is None
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
            async with asyncio.timeout(HANG_SECONDS):
                while crawls(running.log[before:], "new") + crawls(running.log[before:], "unchanged") < 40:
                    await asyncio.sleep(0.1)
            asked = await command("stats", "--json", "--config", str(file), cwd=tmp_path)
            assert asked.status == 0, asked.err
            assert await running.end() == 0
    said = "\n".join(running.log)
    assert "Traceback" not in said
    assert "Internal error" not in said
    assert os.path.exists(tmp_path / "x.db")
