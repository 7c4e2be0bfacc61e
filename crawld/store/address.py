"""Where the database is: one URL, checked before anything is opened."""

import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from crawld.model.access import shared_with_group
from crawld.model.errors import StoreError
from crawld.model.url import without_password

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """A database's place: `file` for SQLite, None for PostgreSQL; `redacted_url` has no password in it."""

    url: URL
    file: Path | None
    redacted_url: str


def parse_address(text: str) -> Address:
    """Read `sqlite:///FILE` or `postgresql://…`; StoreError for anything else. The driver is our business."""
    given = without_password(text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreError(f"{given!r} is not a database: write sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.host:
            raise StoreError(f"{given!r} names no file: write sqlite:///FILE, or sqlite:////FILE from the root")
        file = Path(url.database).expanduser().absolute()
        return Address(URL.create("sqlite+aiosqlite", database=str(file)), file, str(file))
    if kind in {"postgresql", "postgres"}:
        redacted_url = without_password(url.set(drivername="postgresql").render_as_string(hide_password=True))
        return Address(url.set(drivername="postgresql+asyncpg"), None, redacted_url)
    raise StoreError(f"database {kind!r} is not supported: write sqlite:///FILE or postgresql://USER@HOST/NAME")


def check_place(file: Path) -> None:
    """StoreError where a SQLite file cannot be made or written."""
    directory = file.parent
    if not directory.is_dir():
        raise StoreError(f"the directory {directory} of the database does not exist: create it, or change `database`")
    if file.is_dir():
        raise StoreError(f"{file} is a directory: `database` must name a file")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreError(
            f"the directory {directory} of the database is not writable for the user that runs crawld: "
            "start it in a directory of its own, or change `database`"
        )
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        raise StoreError(f"the database {file} is not writable: give crawld's user the right to write it")


def keep_private(file: Path) -> None:
    """Make a SQLite file and what lies beside it private: copies of pages and what was learnt are the owner's.

    In a directory that is shared with a group (chmod g+s) its members may read. The one that locks it makes a file that
    is not there yet, so that SQLite makes its log with the same rights.
    """
    file = file.resolve()
    mode = 0o640 if shared_with_group(file.parent) else 0o600
    for name in ("", "-wal", "-shm", ".lock"):
        one = file.with_name(file.name + name)
        try:
            about = one.lstat()
            missing = mode & 0o040 & ~about.st_mode and name != ".lock"
            if stat.S_ISLNK(about.st_mode) or (not about.st_mode & 0o077 & ~mode and not missing):
                continue
            one.chmod(mode)
        except FileNotFoundError:
            continue
        except OSError:
            log.warning("others can read a file that belongs to another user: chmod 600 it", extra={"file": str(one)})
        else:
            why = "its group may read it" if missing else "others could read it"
            log.info(f"changed its mode to {mode:o}: {why}", extra={"file": str(one)})
