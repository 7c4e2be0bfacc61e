"""Bringing a database to this version's tables with Alembic, and refusing what is not ours or newer."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

import crawld
from crawld.errors import StoreError
from crawld.store.revisions import current_revision, known_revisions

if TYPE_CHECKING:
    from alembic.config import Config


def migrations_directory() -> Path:
    """Inside the package where it was installed, beside it in a checkout."""
    package = Path(crawld.__file__).parent
    for place in (package / "migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise StoreError(f"the migrations are missing beside {package}: install crawld again")


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


def check_revision(connection: Connection, shown: str) -> str | None:
    """The database's revision, None where it is empty; StoreError where it is newer than this program or not ours."""
    current = current_revision(connection)
    if current is None:
        tables = inspect(connection).get_table_names()
        if tables and tables != ["alembic_version"]:
            raise StoreError(f"{shown} holds somebody else's tables ({', '.join(tables[:3])}…): give crawld its own")
        return None
    if current not in known_revisions(migrations_directory()):
        raise StoreError(
            f"the database {shown} was written by a newer crawld (revision {current}): install that version again"
        )
    return current


def migrate(connection: Connection, shown: str) -> None:
    """Bring the database up to this version, all or nothing."""
    from alembic import command

    if check_revision(connection, shown) != latest_revision():
        command.upgrade(alembic_config(connection), "head")


def check_readable(connection: Connection, shown: str) -> None:
    """StoreError where the tables are not those of this version: reading migrates nothing."""
    current = check_revision(connection, shown)
    if current is None:
        raise StoreError(f"the database {shown} is empty: start the daemon once")
    if current != latest_revision():
        raise StoreError(f"the database {shown} was written by an older crawld: start the daemon once to migrate it")
