"""Where the database is: one URL, checked before anything is opened."""

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from crawld.errors import StoreError


@dataclass(frozen=True, slots=True)
class Address:
    """A database's place: `file` for SQLite, None for PostgreSQL; `shown` has no password in it."""

    url: URL
    file: Path | None
    shown: str


def parse_address(text: str) -> Address:
    """Read `sqlite:///FILE` or `postgresql://…`; StoreError for anything else. The driver is our business."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise StoreError(f"{text!r} is not a database: write sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.host:
            raise StoreError(f"{text!r} names no file: write sqlite:///FILE, or sqlite:////FILE from the root")
        file = Path(url.database).expanduser().absolute()
        return Address(URL.create("sqlite+aiosqlite", database=str(file)), file, str(file))
    if kind in {"postgresql", "postgres"}:
        shown = url.set(drivername="postgresql").render_as_string(hide_password=True)
        return Address(url.set(drivername="postgresql+asyncpg"), None, shown)
    raise StoreError(f"database {kind!r} is not supported: write sqlite:///FILE or postgresql://USER@HOST/NAME")


def check_place(file: Path) -> None:
    """StoreError where a SQLite file cannot be made or written."""
    directory = file.parent
    if not directory.is_dir():
        raise StoreError(f"the directory {directory} of the database does not exist: create it, or change `database`")
    if file.is_dir():
        raise StoreError(f"{file} is a directory: `database` must name a file")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreError(f"the directory {directory} of the database is not writable: give crawld's user the right to")
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        raise StoreError(f"the database {file} is not writable: give crawld's user the right to write it")
