"""Which revision a database has and which this version knows, told without Alembic: readers start twice as fast."""

import ast
import re
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from crawld.model.errors import StoreError

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
