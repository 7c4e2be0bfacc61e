"""A real PostgreSQL of one's own: the distribution's server in a temporary folder, and databases in it."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Server:
    """A server that can be crashed and started again; without a port it listens on a Unix socket alone."""

    binaries: Path
    place: Path
    options: Sequence[str] = ()
    port: int | None = None

    @property
    def url(self) -> str:
        """Where it is reached; its first database is that of the user `postgres`."""
        if self.port is not None:
            return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        return f"postgresql://postgres@/postgres?host={self.place}"

    def create(self) -> None:
        """Make the files of an empty server."""
        files = ("--auth=trust", "--username=postgres", "-D", self.place / "data")
        as_postgres(self.binaries / "initdb", "--no-sync", *files)

    def start(self) -> None:
        """Start it and wait until it answers."""
        listen = ("listen_addresses=''",) if self.port is None else ("listen_addresses=127.0.0.1", f"port={self.port}")
        own = (f"unix_socket_directories={self.place}", "max_connections=50", *listen)
        options = " ".join((*(f"-c {one}" for one in own), *self.options))
        files = ("-D", self.place / "data", "-l", self.place / "log")
        as_postgres(self.binaries / "pg_ctl", "start", "-w", "-s", *files, "-o", options)

    def crash(self) -> None:
        """End it at once, as a crash does: the next start recovers from its log."""
        as_postgres(self.binaries / "pg_ctl", "stop", "-s", "-m", "immediate", "-D", self.place / "data")


def _roomy_memory() -> list[str]:
    memory = "/dev/shm"
    writable = Path(memory).is_dir() and os.access(memory, os.W_OK)
    return [memory] if writable and shutil.disk_usage(memory).free > 4 * 2**30 else []


@contextmanager
def server_folder() -> Iterator[Path]:
    """An empty folder of the server's user, deleted at the end.

    Where we are root that is `postgres`, who cannot enter a temporary directory that is closed to other users. In
    memory where there is room: a new database for each test is some ten megabytes to write.
    """
    places = (*_roomy_memory(), tempfile.gettempdir(), "/tmp", "/var/tmp", "/run")
    for parent in dict.fromkeys(places):
        place = Path(tempfile.mkdtemp(prefix="crawld-pg-", dir=parent))
        try:
            if os.geteuid() == 0:
                shutil.chown(place, "postgres")
                try:
                    as_postgres("test", "-w", place)
                except subprocess.CalledProcessError:
                    continue
            yield place
            return
        finally:
            shutil.rmtree(place)
    raise FileNotFoundError("no temporary directory that the user postgres may enter")


@contextmanager
def started_server(binaries: Path, *options: str, port: int | None = None) -> Iterator[Server]:
    """A server, stopped and deleted at the end."""
    with server_folder() as place:
        server = Server(binaries, place, options, port)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.crash()


@contextmanager
def running_server(binaries: Path, *options: str) -> Iterator[str]:
    """The URL of a server that listens on a Unix socket alone, stopped and deleted at the end."""
    with started_server(binaries, *options) as server:
        yield server.url


@contextmanager
def fresh_database(server: str, template: str = "template1") -> Iterator[str]:
    """The URL of a new database of the server, a copy of the template, dropped at the end."""
    name = f"crawld_{uuid.uuid4().hex}"
    asyncio.run(_command(server, f"CREATE DATABASE {name} TEMPLATE {template}"))
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
