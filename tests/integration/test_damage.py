"""A damaged database: the daemon ends with a sentence, whoever meets the damage, and counts what it could not write."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crawld.model.crawl import Verdict
from crawld.model.errors import DamagedError
from crawld.store.report import Reader
from crawld.store.store import SqlStore
from tests.support.process import HANG_SECONDS, command, daemon, settings
from tests.support.service_manager import manager
from tests.support.site import Site
from tests.support.store_builders import NOW, estimate, memory, record, wanted

DAMAGED = "is damaged: restore it from a backup"


def damage(file: Path, table: str) -> None:
    """Overwrite the root of a table's b-tree, in the file itself and not in its log."""
    connection = sqlite3.connect(file, timeout=10)
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        pass
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((root - 1) * size)
        opened.write(b"\xff" * size)


async def filled(tmp_path: Path) -> tuple[SqlStore, Path]:
    """A store with one page that was crawled once."""
    file = tmp_path / "crawld.db"
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, memory=memory(1), body=b"a copy"))
    await store.flush()
    return store, file


async def test_damage_ends_a_running_daemon(tmp_path: Path) -> None:
    """Nothing is lost without a word: the end says that it is damage and how many rows were not written."""
    async with Site() as site:
        pages = [site.url(f"/poisson/{number}?rate=5") for number in range(40)]
        file = settings(tmp_path, pages, bandwidth="50/s", min_interval=0.2)
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("verdict=changed")
            damage(tmp_path / "x.db", "bodies")
            async with asyncio.timeout(HANG_SECONDS):
                status = await running.process.wait()
            await running.end()
    said = "\n".join(running.log)
    assert status == 2
    (line,) = [line for line in running.log if line.startswith("crawld: ")]
    assert DAMAGED in line
    assert int(re.findall(r"(\d+) queued rows were not written", line)[0]) > 0
    assert "is lost" not in said
    assert "Traceback" not in said


async def test_a_service_that_met_damage_is_not_started_again(tmp_path: Path) -> None:
    """A person has to mend it: the status is that of settings that cannot be used, also at a start."""
    store, file = await filled(tmp_path)
    await store.close()
    damage(file, "bodies")
    config = settings(tmp_path, ["http://127.0.0.1:9/"], database=f"sqlite:///{file}")
    async with manager(tmp_path) as told:
        ended = await command("run", "--config", str(config), cwd=tmp_path, env=told.environment)
    assert (ended.status, DAMAGED in ended.err) == (2, True)


@pytest.mark.parametrize("table", ["pages", "versions", "estimates", "crawls"])
async def test_whoever_meets_damage_tells_the_daemon(tmp_path: Path, table: str) -> None:
    """Readers, the learner and pruning raise it, and whoever watches the store is told; nothing is written after it."""
    store, file = await filled(tmp_path)
    watching = asyncio.create_task(store.watch())
    damage(file, table)
    work: dict[str, Callable[[], Awaitable[object]]] = {
        "pages": store.restore,
        "versions": lambda: store.recent_pages("example.org", 10),
        "estimates": lambda: store.save_estimates([estimate(1, at=NOW)]),
        "crawls": store.prune,
    }
    with pytest.raises(DamagedError, match=DAMAGED):
        await work[table]()
    with pytest.raises(DamagedError, match=DAMAGED):
        await watching
    assert not store.healthy
    with pytest.raises(DamagedError, match=DAMAGED):
        await store.change_setting("bandwidth", "1/s", now=NOW)
    store.record(record(1, Verdict.UNCHANGED, at=NOW + 1))
    with pytest.raises(DamagedError, match="1 queued rows were not written"):
        await store.close()
    assert store.lost == 0


async def test_a_missing_table_is_damage(tmp_path: Path) -> None:
    """A table dropped under a running store ends it; a start without the table is refused."""
    store, file = await filled(tmp_path)
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE bodies")
    connection.close()
    store.record(record(1, Verdict.CHANGED, at=NOW + 1, memory=memory(1), body=b"another"))
    with pytest.raises(DamagedError, match="is damaged"):
        await store.flush()
    with pytest.raises(DamagedError, match="no such table: bodies"):
        await store.close()
    with pytest.raises(DamagedError, match="no such table: bodies"):
        await SqlStore(f"sqlite:///{file}").start()


async def test_a_removed_file_is_damage(tmp_path: Path) -> None:
    """Rows written to a file that has no name any more would be gone with the process."""
    store, file = await filled(tmp_path)
    file.rename(tmp_path / "elsewhere.db")
    store.record(record(1, Verdict.UNCHANGED, at=NOW + 1))
    with pytest.raises(DamagedError, match="was removed or replaced"):
        await store.close()


async def test_reports_say_damage_in_a_sentence(tmp_path: Path) -> None:
    """What reads the database beside the daemon names the damage and what to do."""
    store, file = await filled(tmp_path)
    await store.close()
    damage(file, "versions")
    async with Reader(f"sqlite:///{file}") as reader:
        with pytest.raises(DamagedError, match=DAMAGED):
            await reader.learnt_of("https://example.org/a")
