"""The real process on PostgreSQL: crawls, is steered, is read, ends, and goes on."""

import asyncio
import json
from pathlib import Path

from tests.support.process import command, daemon, settings
from tests.support.site import Site


async def test_the_whole_daemon_runs_on_postgresql_by_changing_one_url(tmp_path: Path, empty_postgres_url: str) -> None:
    """Pages are crawled and learnt; stats, explain, get and bandwidth answer; a restart knows everything."""
    async with Site() as site:
        file = settings(tmp_path, [site.url(f"/ok/{i}") for i in range(5)], database=empty_postgres_url)
        given = ["--config", str(file)]
        async with daemon(*given, "--bandwidth", "20/s", cwd=tmp_path) as running:
            await running.until_logged("verdict=unchanged")
            changed = await command("bandwidth", "9/s", *given, cwd=tmp_path)
            assert (changed.status, changed.out.strip()) == (0, "9/s"), changed.err
            explained = await command("explain", site.url("/ok/1"), *given, "--json", cwd=tmp_path)
            assert json.loads(explained.out)["now"]["host"] == site.host()
            await asyncio.sleep(1.0)
            assert await running.end() == 0
        asked = len([seen for seen in site.visits() if seen.path.startswith("/ok/")])
        stats = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
        assert (stats["pages"], stats["crawls"], stats["daemon"]) == (5, asked, None)
        copy = await command("get", site.url("/ok/1"), *given, cwd=tmp_path)
        assert copy.status == 0
        assert "/ok/1" in copy.out
        async with daemon(*given, cwd=tmp_path) as running:
            assert "pages=5" in await running.until_logged("ready")
            shown = await command("bandwidth", *given, cwd=tmp_path)
            assert shown.out.strip() == "9/s"
