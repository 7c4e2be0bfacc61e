"""Bringing a database to this version's tables with Alembic, and refusing what is not ours or newer."""

import ast
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

import crawld
from crawld.model.clock import SystemClock
from crawld.model.errors import StoreError
from crawld.store import tables
from crawld.store.address import Address
from crawld.store.engine import reading_engine

if TYPE_CHECKING:
    from alembic.config import Config

log = logging.getLogger(__name__)
WRITTEN_BY = "crawld version"
"""Name of the row of `settings` that says which version last migrated the database."""
SPARE_BYTES = 64 * 2**20
"""Room that a copy before a migration leaves free, beside as much again for the migration itself."""


def migrations_directory() -> Path:
    """Inside the package where it was installed, beside it in a checkout."""
    package = Path(crawld.__file__).parent
    for place in (package / "migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise StoreError(f"the migrations are missing beside {package}: install crawld again")


# Which revision a database has and which this version knows, told without Alembic: readers start twice as fast.

_REVISION = re.compile(r"^(revision|down_revision)\b[^=\n]*=\s*(.+)$", re.MULTILINE)


@lru_cache
def known_revisions(directory: Path) -> tuple[str, ...]:
    """Every revision this version knows, the latest first: each file names its own and the one before."""
    before: dict[str | None, str] = {}
    for file in (directory / "versions").glob("*.py"):
        named = {name: ast.literal_eval(value) for name, value in _REVISION.findall(file.read_text(encoding="utf-8"))}
        if "revision" in named:
            before[named["down_revision"]] = named["revision"]
    found: list[str] = []
    following: str | None = None
    while (following := before.get(following)) is not None:
        found.insert(0, following)
    if not found or len(found) != len(before):
        raise StoreError(f"the migrations in {directory} are not one chain: install crawld again")
    return tuple(found)


def current_revision(connection: Connection) -> str | None:
    """The database's revision, None where it was never migrated."""
    if "alembic_version" not in inspect(connection).get_table_names():
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return found


def alembic_config(connection: Connection) -> "Config":
    """Alembic told where the migrations lie and which connection to use; there is no ini file."""
    from alembic.config import Config  # only who migrates waits for Alembic

    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def latest_revision() -> str:
    """The revision this version of crawld wants."""
    return known_revisions(migrations_directory())[0]


def check_revision(connection: Connection, redacted_url: str) -> str | None:
    """The database's revision, None where it is empty; StoreError where it is newer than this program or not ours."""
    current = current_revision(connection)
    if current is None:
        tables = inspect(connection).get_table_names()
        if tables and tables != ["alembic_version"]:
            raise StoreError(
                f"{redacted_url} holds somebody else's tables ({', '.join(tables[:3])}…): give crawld its own"
            )
        return None
    if current not in known_revisions(migrations_directory()):
        raise StoreError(_too_new(redacted_url, current, _written_by(connection)))
    return current


def _too_new(redacted_url: str, revision: str, version: str | None) -> str:
    if version is None or version == crawld.__version__:  # a build between two releases, which no name tells apart
        newer = f"the database {redacted_url} was written by a newer crawld (revision {revision})"
        sentence = f"{newer}: install that version again"
    else:
        newer = f"the database {redacted_url} was written by a newer crawld ({version}, revision {revision})"
        sentence = f"{newer}, and this is {crawld.__version__}: install crawld {version} again"
    copies = [
        copy for copy in map(_copy_of(Path(redacted_url)), known_revisions(migrations_directory())) if copy.is_file()
    ]
    return f"{sentence}, or go back to the copy {copies[0]}" if copies else sentence


def _written_by(connection: Connection) -> str | None:
    if not inspect(connection).has_table(tables.settings.name):
        return None
    row = tables.settings
    found: str | None = connection.execute(select(row.c.value).where(row.c.name == WRITTEN_BY)).scalar_one_or_none()
    return found


def migrate(connection: Connection, redacted_url: str) -> None:
    """Bring the database up to this version, all or nothing."""
    current, latest = check_revision(connection, redacted_url), latest_revision()
    if current != latest:
        from alembic import command  # a tenth of a second, for which nothing else would run

        if current is not None:
            log.info("migrating the database", extra={"database": redacted_url, "from": current, "to": latest})
        command.upgrade(alembic_config(connection), "head")
    if _written_by(connection) != crawld.__version__:
        now = SystemClock().now()
        connection.execute(delete(tables.settings).where(tables.settings.c.name == WRITTEN_BY))
        row = {"name": WRITTEN_BY, "value": crawld.__version__, "changed_at": now}
        connection.execute(insert(tables.settings).values(row))


def _copy_of(file: Path) -> Callable[[str], Path]:
    return lambda revision: file.with_name(f"{file.name}.revision-{revision}")


def copy_before_migration(file: Path) -> None:
    """Copy a SQLite file that the next start of this version migrates, as FILE.revision-NNNN; the log says where.

    Nothing is copied where nothing will be migrated, and where there is no room for it. StoreError where it fails.
    """
    with closing(sqlite3.connect(file)) as source:
        try:
            (revision,) = source.execute("SELECT version_num FROM alembic_version").fetchone() or (None,)
        except sqlite3.Error:
            return  # empty, or not crawld's: `migrate` says so
        if revision == latest_revision() or revision not in known_revisions(migrations_directory()):
            return
        size, free = file.stat().st_size, shutil.disk_usage(file.parent).free
        if free < 2 * size + SPARE_BYTES:
            log.warning("no room for a copy of the database before it is migrated", extra={"bytes": size, "free": free})
            return
        copy = _copy_of(file)(revision)
        part = copy.with_name(copy.name + ".part")
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            with closing(sqlite3.connect(part)) as target:
                source.backup(target)
            part.replace(copy)
        except (sqlite3.Error, OSError) as error:
            part.unlink(missing_ok=True)
            raise StoreError(
                f"the database {file} cannot be copied to {copy} before it is migrated: {error}"
            ) from error
    log.info("copied the database before it is migrated", extra={"copy": str(copy), "revision": revision})


async def open_for_reading(address: Address, *, beside_writer: bool = False) -> AsyncEngine:
    """An engine that cannot write, over tables that are of this version; StoreError where they are not."""
    engine = reading_engine(address, beside_writer=beside_writer)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(check_readable, address.redacted_url)
    except BaseException:
        await engine.dispose()
        raise
    return engine


def check_readable(connection: Connection, redacted_url: str) -> None:
    """StoreError where the tables are not those of this version: reading migrates nothing."""
    current = check_revision(connection, redacted_url)
    if current is None:
        raise StoreError(f"the database {redacted_url} is empty: start the daemon once")
    if current != latest_revision():
        raise StoreError(
            f"the database {redacted_url} was written by an older crawld: start the daemon once to migrate it"
        )
