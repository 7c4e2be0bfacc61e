"""The migrations and the tables agree, up and down, on both databases."""

import shutil
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text

from crawld.fleet.store import tables as fleet
from crawld.model.crawl import Verdict
from crawld.model.errors import StoreError
from crawld.model.page import Alias, PageState, Wanted
from crawld.model.signal import SITEMAPS, SOURCES, Source
from crawld.model.url import normalise
from crawld.store import schema
from crawld.store.address import parse_address
from crawld.store.engine import writing_engine
from crawld.store.schema import alembic_config, latest_revision, migrate, migrations_directory
from crawld.store.store import SqlStore
from crawld.store.tables import metadata
from tests.support.store_builders import NOW, by_source, record, rows, signal, wanted


def _names(connection: Connection) -> set[str]:
    inspector = inspect(connection)
    return {*inspector.get_table_names(), *inspector.get_view_names()} - {"alembic_version"}


def _check(connection: Connection) -> None:
    command.check(alembic_config(connection))


def _downgrade(connection: Connection) -> None:
    command.downgrade(alembic_config(connection), "base")


async def test_up_check_down_and_up_again(empty_store_url: str) -> None:
    """A fresh database has the model's tables and the views; going down leaves nothing; going up again works."""
    engine = writing_engine(parse_address(empty_store_url))
    wanted_tables = metadata.sorted_tables + (fleet.metadata.sorted_tables if "postgres" in empty_store_url else [])
    tables = {table.name for table in wanted_tables}
    views = {"page_stats", "host_stats", "signal_stats", "calibration"}
    for _ in range(2):
        async with engine.begin() as connection:
            await connection.run_sync(migrate, "it")
            assert await connection.run_sync(_names) == tables | views
        async with engine.begin() as connection:
            await connection.run_sync(_check)
        async with engine.begin() as connection:
            await connection.run_sync(_downgrade)
            assert await connection.run_sync(_names) == set()
    await engine.dispose()


async def test_a_second_start_migrates_nothing(empty_store_url: str) -> None:
    """Starting on a database of this version leaves it as it is."""
    for _ in range(2):
        store = SqlStore(empty_store_url)
        await store.start()
        await store.adopt(wanted("a"), origin="list", now=NOW)
        assert len((await store.restore()).ids) == 1
        await store.close()


async def _run(url: str, statement: str) -> None:
    engine = writing_engine(parse_address(url))
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


def _to_0003(connection: Connection) -> None:
    command.upgrade(alembic_config(connection), "0003")


OLD_PAGES = [  # as release 0.1.0 stored them, and what becomes of each: URL, identity, state
    ("https://a.example/plain?x=1", "https://a.example/plain?x=1", "live"),
    ("https://a.example/it?q='x'", "https://a.example/it?q=%27x%27", "live"),
    ("http://127.1/x", "http://127.0.0.1/x", "live"),
    ("http://0x7f.1/x", "http://0x7f.1/x", "retired"),
    ("http://192.168.0.257/", "http://192.168.0.257/", "retired"),
    ("https://a.example/%C3%A9/~u,b", "https://a.example/%C3%A9/~u,b", "live"),
]


async def test_pages_of_the_first_release_are_brought_up(empty_store_url: str) -> None:
    """Every page keeps its past under what is sent now; what is no URL, or the same page twice, retires."""
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        await connection.run_sync(_to_0003)
        await connection.execute(text("INSERT INTO hosts (id, name) VALUES (1, 'a.example'), (2, '127.1')"))
        for number, (url, _, _) in enumerate(OLD_PAGES, 1):
            host = 1 if "a.example" in url else 2
            await connection.execute(
                text(
                    "INSERT INTO pages (id, url, host_id, importance, state, origin, added_at, last_success, crawls) "
                    f"VALUES ({number}, :url, {host}, 1, 'live', 'operator', 5, 7, 3)"
                ),
                {"url": url},
            )
        await connection.execute(text("INSERT INTO settings VALUES ('list taken over', 'x 1 0', 5)"))
    await engine.dispose()
    store = SqlStore(empty_store_url)
    await store.start()
    kept = await rows(empty_store_url, "SELECT url, state, crawls FROM pages ORDER BY id")
    assert kept == [(url, state, 3) for _, url, state in OLD_PAGES]
    assert await rows(
        empty_store_url, "SELECT h.name FROM pages p JOIN hosts h ON h.id = p.host_id WHERE p.id = 3"
    ) == [("127.0.0.1",)]
    assert await store.setting("list taken over") is None
    listed = [Wanted(normalise(url)) for url, _, state in OLD_PAGES if state == "live"]
    assert not (await store.adopt(listed, origin="operator", now=NOW, complete=False)).added
    await store.close()


async def test_a_newer_database_is_refused(empty_store_url: str) -> None:
    """A revision this version does not know is from a newer one; nothing is touched, and the lock is let go."""
    store = SqlStore(empty_store_url)
    await store.start()
    await store.close()
    await _run(empty_store_url, "UPDATE alembic_version SET version_num = '9999'")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"newer crawld \(revision 9999\): install that version"):
            await SqlStore(empty_store_url).start()


async def test_a_failed_migration_leaves_nothing_behind(
    empty_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one step breaks, all steps are taken back, tables included."""
    copy = tmp_path / "migrations"
    shutil.copytree(migrations_directory(), copy)
    (copy / "versions" / "9999_broken.py").write_text(
        f'from alembic import op\n\nrevision = "9999"\ndown_revision = "{latest_revision()}"\n\n\n'
        'def upgrade() -> None:\n    op.execute("INSERT INTO nowhere VALUES (1)")\n'
    )
    monkeypatch.setattr(schema, "migrations_directory", lambda: copy)
    with pytest.raises(StoreError, match="nowhere"):
        await SqlStore(empty_store_url).start()
    monkeypatch.undo()
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        assert await connection.run_sync(_names) == set()
    await engine.dispose()


async def test_pages_found_gone_before_keep_the_time(empty_store_url: str) -> None:
    """A database of the first release: a page remembered as gone is gone since its last change; others are not."""
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        await connection.run_sync(lambda sync: command.upgrade(alembic_config(sync), "0003"))
        await connection.execute(text("INSERT INTO hosts (id, name) VALUES (1, 'example.org')"))
        for page, raw in ((1, "676f6e65"), (2, "00")):
            await connection.execute(
                text(
                    "INSERT INTO pages (id, url, host_id, importance, state, origin, added_at, last_success,"
                    f" last_change_at) VALUES ({page}, 'https://example.org/{page}', 1, 1, 'failing', 'list', 1, 9, 5)"
                )
            )
            blob = f"X'{raw}'" if empty_store_url.startswith("sqlite") else f"decode('{raw}', 'hex')"
            empty = blob.replace(raw, "")
            await connection.execute(
                text(
                    "INSERT INTO versions (page_id, fetched_at, raw, blocks, volatile, seen)"
                    f" VALUES ({page}, 1, {blob}, {empty}, {empty}, {empty})"
                )
            )
    async with engine.begin() as connection:
        await connection.run_sync(migrate, "it")
        found = await connection.execute(text("SELECT gone_since, freshness FROM page_stats ORDER BY url"))
        (first, current), (second, old) = [tuple(row) for row in found]
    await engine.dispose()
    assert (first, current, second) == (5.0, 1.0, None)
    assert old < 0.01


async def test_signals_by_size_are_counted_together_again_going_down(empty_store_url: str) -> None:
    """Going down, signals that came alone, with a few and in bulk are one source again, with all that was counted."""
    store = SqlStore(empty_store_url)
    await store.start()
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW))
    store.record_signals([signal(1, at=NOW + 1, source=source) for source in SITEMAPS])
    store.record(record(1, Verdict.UNCHANGED, at=NOW + 2, tau=2.0, signals=(1,) * len(SOURCES)))
    store.record_signals([signal(1, at=NOW + 3, source=Source.SITEMAP_BULK)])
    await store.close()
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0009"))
    await engine.dispose()
    assert await rows(empty_store_url, "SELECT pending_sitemap, counted_sitemap FROM pages") == [(1, 4)]
    assert await rows(empty_store_url, "SELECT signals_sitemap FROM crawls ORDER BY id") == [(0,), (3,)]
    assert await rows(empty_store_url, "SELECT DISTINCT source FROM signals") == [("sitemap",)]
    assert await rows(empty_store_url, "SELECT source, signals FROM signal_counts") == [("sitemap", 4)]
    assert await rows(empty_store_url, "SELECT source, signals FROM signal_stats") == [("sitemap", 4)]
    store = SqlStore(empty_store_url)
    await store.start()
    assert (await store.restore()).signals.tolist() == [list(by_source(sitemap=1))]
    await store.close()


def test_the_latest_revision_is_the_last_file() -> None:
    """Files are numbered, and the chain ends with the last of them."""
    files = sorted(file.name for file in (migrations_directory() / "versions").glob("0*.py"))
    assert files[-1].startswith(latest_revision())


async def test_aliases_are_pages_again_where_they_are_not_known(empty_store_url: str) -> None:
    """Going down makes aliases what their last crawl found, and tells a move as the end of the document that it is."""
    store = SqlStore(empty_store_url)
    await store.start()
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    moved = Alias(2, "https://example.org/b", "it redirects there permanently")
    store.record(record(1, Verdict.NEW, state=PageState.ALIAS, alias=moved))
    await store.close()
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0016"))
    await engine.dispose()
    assert await rows(empty_store_url, "SELECT state FROM pages ORDER BY id") == [("live",), ("waiting",)]
    assert await rows(empty_store_url, "SELECT verdict FROM changes ORDER BY id") == [("new",), ("gone",)]
    again = SqlStore(empty_store_url)
    await again.start()
    assert list((await again.restore()).alias_of) == [None, None]
    await again.close()
