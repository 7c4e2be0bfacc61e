"""A real PostgreSQL of one's own: the distribution's server in a temporary folder, and databases in it."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FORGETFUL = ("-c", "fsync=off")
"""For tests: nothing has to survive a power cut."""


def newest_binaries() -> Path | None:
    """Where the distribution's PostgreSQL server lies, None where it cannot be run."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    usable = os.geteuid() != 0 or shutil.which("runuser")
    return found[-1].parent if found and usable else None


def as_postgres(*command: str | Path) -> None:
    """Run as the user `postgres` where we are root, because the server refuses root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, cwd="/")


@contextmanager
def running_server(binaries: Path, *options: str) -> Iterator[str]:
    """The URL of a server that listens on a Unix socket alone, stopped and deleted at the end."""
    place = Path(tempfile.mkdtemp(prefix="crawld-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(place, "postgres")
        data = place / "data"
        as_postgres(binaries / "initdb", "--no-sync", "--auth=trust", "--username=postgres", "-D", data)
        own = ("-c", "listen_addresses=''", "-c", f"unix_socket_directories={place}", "-c", "max_connections=50")
        started = ("start", "-w", "-s", "-D", data, "-l", place / "log", "-o", " ".join((*own, *options)))
        as_postgres(binaries / "pg_ctl", *started)
        try:
            yield f"postgresql://postgres@/postgres?host={place}"
        finally:
            as_postgres(binaries / "pg_ctl", "stop", "-s", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(place)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database of the server, dropped at the end."""
    name = f"crawld_{uuid.uuid4().hex}"
    asyncio.run(_command(server, f"CREATE DATABASE {name}"))
    path, _, query = server.partition("?")
    try:
        yield f"{path.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    finally:
        asyncio.run(_command(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def _command(server: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
