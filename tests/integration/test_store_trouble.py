"""A database that cannot be opened, or not be written for a while: said in a sentence, and nothing lost."""

import asyncio
import contextlib
import dataclasses
import itertools
import os
import resource
import signal as signals
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawld.model.crawl import Verdict
from crawld.model.errors import StoreError
from crawld.store import engine as retry
from crawld.store import writer
from crawld.store.lock import ADVISORY_KEY
from crawld.store.retention import LIMITS as RETENTION_LIMITS
from crawld.store.store import SqlStore
from tests.support.process import HANG_SECONDS
from tests.support.store_builders import NOW, estimate, memory, record, rows, wanted


async def refused(url: str) -> str:
    """The sentence with which a database is refused."""
    with pytest.raises(StoreError) as caught:
        await SqlStore(url).start()
    return str(caught.value)


class TestOpening:
    """Whatever is wrong is said before anything is written."""

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("mysql://localhost/x", "'mysql' is not supported"),
            ("nonsense", "is not a database: write sqlite:///FILE"),
            ("sqlite://", "names no file"),
            ("sqlite:///:memory:", "names no file"),
        ],
    )
    def test_other_databases(self, url: str, said: str) -> None:
        """A URL that names no SQLite file and no PostgreSQL is refused at once."""
        with pytest.raises(StoreError, match=said):
            SqlStore(url)

    async def test_missing_directory(self, tmp_path: Path) -> None:
        """The directory must be there already."""
        assert "does not exist: create it" in await refused(f"sqlite:///{tmp_path / 'missing' / 'crawld.db'}")

    async def test_directory_instead_of_a_file(self, tmp_path: Path) -> None:
        """A directory is no database."""
        assert "must name a file" in await refused(f"sqlite:///{tmp_path}")

    async def test_not_writable(self, tmp_path: Path) -> None:
        """A directory without the right to write is named."""
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        tmp_path.chmod(0o500)
        assert "is not writable" in await refused(f"sqlite:///{tmp_path / 'crawld.db'}")
        tmp_path.chmod(0o700)

    async def test_not_a_database(self, tmp_path: Path) -> None:
        """Another file is left alone."""
        file = tmp_path / "crawld.db"
        file.write_text("a letter to a friend\n" * 100)
        file.chmod(0o644)
        assert "is not a SQLite database" in await refused(f"sqlite:///{file}")
        assert file.read_text() == "a letter to a friend\n" * 100
        assert file.stat().st_mode & 0o777 == 0o644

    async def test_somebody_elses_tables(self, tmp_path: Path) -> None:
        """Another program's database is left alone."""
        connection = sqlite3.connect(tmp_path / "crawld.db")
        connection.execute("CREATE TABLE albums (id INTEGER)")
        connection.close()
        assert "somebody else's tables (albums…)" in await refused(f"sqlite:///{tmp_path / 'crawld.db'}")

    async def test_nobody_answers(self) -> None:
        """A PostgreSQL that is not there is named without its password."""
        said = await refused("postgresql://me:secret@127.0.0.1:1/crawld")
        assert "no PostgreSQL answers" in said
        assert "secret" not in said

    async def test_a_database_that_is_not_there(self, postgres_server: str) -> None:
        """A server without that database is told apart from no server."""
        missing = postgres_server.replace("/postgres?", "/missing?")
        assert 'database "missing" does not exist; create it' in await refused(missing)

    async def test_in_use(self, store_url: str) -> None:
        """A second daemon is refused while the first runs, and welcome afterwards."""
        first = SqlStore(store_url)
        await first.start()
        assert "is in use by another crawld" in await refused(store_url)
        await first.close()
        second = SqlStore(store_url)
        await second.start()
        await second.close()

    def test_without_the_driver(self) -> None:
        """PostgreSQL without asyncpg is told how to get it."""
        code = (
            "import asyncio, sys; sys.modules['asyncpg'] = None\n"
            "from crawld.store.store import SqlStore\n"
            "asyncio.run(SqlStore('postgresql://localhost/x').start())"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "pip install 'crawld[postgres]'" in done.stderr


@contextlib.contextmanager
def files_cannot_grow(beyond: int) -> Iterator[None]:
    """No file of this process may be longer, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signals.signal(signals.SIGXFSZ, signals.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signals.signal(signals.SIGXFSZ, before)


async def until_unhealthy(store: SqlStore) -> None:
    """Wait until the store says that it is in trouble."""
    while store.healthy:
        await asyncio.sleep(0.02)


async def cut_off(postgres_url: str) -> tuple[SqlStore, Any]:
    """A store with one page whose connections the server has just cut, and the connection that had it done."""
    import asyncpg

    store = SqlStore(postgres_url)
    await store.start()
    await store.adopt(wanted("a"), origin="list", now=NOW)
    other = await asyncpg.connect(postgres_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return store, other


class CancelledAt:
    """Awaits a coroutine and cancels it once, when the n-th thing that it waits for is done."""

    def __init__(self, work: Coroutine[Any, Any, object], n: int) -> None:
        self._work, self._n = work, n

    def __await__(self) -> Generator[Any, Any, None]:
        """Drive the coroutine as a task does."""
        waited = 0
        with contextlib.suppress(StopIteration):
            while True:
                cancel = waited == self._n
                future = self._work.throw(asyncio.CancelledError()) if cancel else self._work.send(None)
                waited += future is not None or cancel
                yield future


class TestWriting:
    """Passing trouble: rows wait in memory, the daemon is told, and everything is committed in the end."""

    async def test_locked_by_another_program(self, tmp_path: Path) -> None:
        """While somebody holds the write lock the store is unhealthy; afterwards nothing is missing."""
        url = f"sqlite:///{tmp_path / 'crawld.db'}"
        store = SqlStore(url)
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        other = sqlite3.connect(tmp_path / "crawld.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.record(record(1, Verdict.NEW, memory=memory(1)))
        await until_unhealthy(store)
        assert "locked" in (store.trouble or "")
        assert store.backlog == 1
        assert await store.recall(1) == memory(1)
        other.execute("ROLLBACK")
        other.close()
        await store.flush()
        assert store.healthy
        assert (await store.restore()).last_success.tolist() == [NOW]
        await store.close()

    @pytest.mark.parametrize("work", ["adopt", "prune", "save_estimates"])
    async def test_a_cancelled_write_leaves_no_lock(self, tmp_path: Path, work: str) -> None:
        """Whatever a task waited for when it was cancelled, as at a stop, the writer can write at once."""
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        kept = []  # as a task keeps its exception, with the frames and cursors that it went through
        for n in itertools.count(1):
            writes: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "adopt": lambda: store.adopt(wanted("a", "b"), origin="list", now=NOW),
                "prune": store.prune,
                "save_estimates": lambda: store.save_estimates([estimate(1, at=NOW)]),
            }
            try:
                await CancelledAt(writes[work](), n)
                break
            except asyncio.CancelledError as error:
                kept.append(error)
            store.record(record(1, Verdict.UNCHANGED, at=NOW + n))
            while store.backlog and store.trouble is None:
                await asyncio.sleep(0.01)
            assert store.trouble is None
        await store.close()
        assert len(kept) > 5

    async def test_freed_pages_go_back_to_the_file_system(self, tmp_path: Path) -> None:
        """Where much of the file is free, retention makes it shorter by as many pages as it takes at once."""
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        with sqlite3.connect(tmp_path / "crawld.db", isolation_level=None) as other:
            other.execute("CREATE TABLE filler AS SELECT randomblob(12000000) AS bytes")
            other.execute("DROP TABLE filler")
            (free,) = other.execute("PRAGMA freelist_count").fetchone()
            await store.prune()
            assert other.execute("PRAGMA freelist_count").fetchone() == (free - RETENTION_LIMITS.free_pages_at_once,)
        other.close()
        assert store.healthy
        await store.close()

    async def test_other_writes_are_tried_again(self, tmp_path: Path) -> None:
        """Adoption, estimates, settings and pruning wait for a lock that somebody else holds, and lose nothing."""
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        other = sqlite3.connect(tmp_path / "crawld.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        adopting = asyncio.create_task(store.adopt(wanted("b"), origin="list", now=NOW))
        tasks = [
            asyncio.create_task(store.save_estimates([estimate(1, at=NOW)])),
            asyncio.create_task(store.change_setting("bandwidth", "1/s", now=NOW)),
            asyncio.create_task(store.prune()),
        ]
        await asyncio.sleep(1.5)
        assert not any(task.done() for task in (adopting, *tasks))
        other.execute("ROLLBACK")
        other.close()
        await asyncio.gather(*tasks)
        adoption = await adopting
        assert [page.id for page in adoption.added] == [2]
        assert [page.id for page in adoption.retired] == [1]
        assert await store.setting("bandwidth") == "1/s"
        await store.close()

    async def test_what_does_not_pass_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Patience ends: a database that stays locked is a StoreError for whoever asked."""
        monkeypatch.setattr(retry, "LIMITS", dataclasses.replace(retry.LIMITS, max_retry_seconds=0.0))
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        other = sqlite3.connect(tmp_path / "crawld.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked by another program: close it"):
            await store.change_setting("bandwidth", "1/s", now=NOW)
        other.close()
        await store.close()

    async def test_disk_full(self, tmp_path: Path) -> None:
        """While files cannot grow the rows wait; once they can, all are there, and the database is whole."""
        url = f"sqlite:///{tmp_path / 'crawld.db'}"
        store = SqlStore(url)
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        with files_cannot_grow(beyond=200_000):
            for i in range(200):
                store.record(record(1, Verdict.CHANGED, at=NOW + i, body=os.urandom(4_000), memory=memory(1)))
                await asyncio.sleep(0)
            for i in range(2_000):
                store.record(record(1, Verdict.UNCHANGED, at=NOW + 200 + i, detail="x" * 100))
            await until_unhealthy(store)
            assert store.backlog > 0
        await store.close()
        assert store.lost == 0
        assert await rows(url, "SELECT crawls FROM pages") == [(2_200,)]
        assert await rows(url, "SELECT count(*) FROM crawls") == [(2_200,)]
        assert await rows(url, "PRAGMA integrity_check") == [("ok",)]

    async def test_commits_wait_for_nobody_elses_work(self, tmp_path: Path) -> None:
        """A default executor that is full, and a reader in the middle of a long query, delay no commit."""
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        reader = sqlite3.connect(tmp_path / "crawld.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM pages").fetchall()
        done = threading.Event()
        busy = [asyncio.ensure_future(asyncio.to_thread(done.wait)) for _ in range(64)]
        try:
            store.record(record(1, Verdict.NEW, memory=memory(1), body=b"x" * 100_000))
            async with asyncio.timeout(HANG_SECONDS):
                await store.flush()
        finally:
            done.set()
            await asyncio.gather(*busy)
            reader.close()
        await store.close()

    async def test_a_copy_that_cannot_be_read_is_said_and_left_out(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One damaged copy neither ends the daemon nor gives bytes that were never fetched."""
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record(record(1, Verdict.NEW, memory=memory(1), body=b"x" * 100_000))
        await store.flush()
        with sqlite3.connect(tmp_path / "crawld.db") as other:
            other.execute("UPDATE bodies SET zstd = x'00112233'")
        assert await store.copy(1) is None
        assert "a stored copy cannot be read" in caplog.text
        await store.close()

    async def test_a_lost_connection_is_made_again(self, postgres_url: str) -> None:
        """When the server cuts every connection, the store connects again and commits what waited."""
        store, other = await cut_off(postgres_url)
        await other.close()
        store.record(record(1, Verdict.NEW))
        await store.flush()
        assert (await store.restore()).last_success.tolist() == [NOW]
        assert "is in use by another crawld" in await refused(postgres_url)
        await store.close()

    async def test_a_lock_taken_by_another_keeps_the_rows(self, postgres_url: str) -> None:
        """Where another daemon took the database while the connection was lost, rows wait and none is dropped."""
        store, other = await cut_off(postgres_url)
        while not await other.fetchval("SELECT pg_try_advisory_lock($1)", ADVISORY_KEY):
            await asyncio.sleep(0.01)
        store.record(record(1, Verdict.NEW))
        await until_unhealthy(store)
        while "in use by another crawld" not in (store.trouble or ""):
            await asyncio.sleep(0.01)
        await other.close()
        await store.flush()
        assert store.lost == 0
        assert (await store.restore()).last_success.tolist() == [NOW]
        await store.close()

    async def test_a_queue_twice_full_counts_what_it_refuses(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Full, the store is unhealthy; twice full, it takes no more and counts what is lost."""
        monkeypatch.setattr(writer, "LIMITS", dataclasses.replace(writer.LIMITS, full_queue=10))
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        for i in range(25):
            assert store.healthy == (i < 10)
            store.record(record(1, Verdict.UNCHANGED, at=NOW + i))
        assert (store.backlog, store.lost) == (20, 5)
        await store.flush()
        assert store.healthy
        await store.close()

    async def test_closing_gives_up_in_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A database that stays locked cannot keep the daemon from stopping, and what was not written is said."""
        monkeypatch.setattr(writer, "LIMITS", dataclasses.replace(writer.LIMITS, last_try_seconds=0.1))
        store = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        other = sqlite3.connect(tmp_path / "crawld.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.record(record(1, Verdict.NEW))
        with pytest.raises(StoreError, match="1 queued rows could not be written: database is locked"):
            await store.close()
        other.close()

    async def test_questions_fail_in_a_sentence(self, postgres_url: str, postgres_server: str) -> None:
        """What is asked of a database that went away is answered by a StoreError, not by the driver's."""
        import asyncpg

        store = SqlStore(postgres_url)
        await store.start()
        name = postgres_url.partition("?")[0].rpartition("/")[2]
        other = await asyncpg.connect(postgres_server)
        await other.execute(f"DROP DATABASE {name} WITH (FORCE)")
        with pytest.raises(StoreError):
            await store.restore()
        with pytest.raises(StoreError):
            await store.change_setting("bandwidth", "1/s", now=NOW)
        await store.close()
        await other.execute(f"CREATE DATABASE {name}")
        await other.close()
