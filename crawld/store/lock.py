"""One daemon per database: whoever comes second is told so."""

import errno
import fcntl
import os
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.errors import StoreError

ADVISORY_KEY = 0x637261776C64  # "crawld"


class FileLock:
    """An exclusive lock on FILE.lock, let go by the kernel when the process ends, however it ends."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or StoreError naming the process that holds it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            by = f" (process {holder})" if holder.isdecimal() else ""
            raise StoreError(
                f"the database {self._path.with_suffix('')} is in use by another crawld{by}: stop that one first"
            ) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise self._unusable(error) from error
        self._descriptor = descriptor

    def _unusable(self, error: OSError) -> StoreError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return StoreError(f"the disk of the database {self._path.with_suffix('')} is full: free some space")
        return StoreError(f"the lock file {self._path} cannot be used: {error.strerror}")

    def release(self) -> None:
        """Let go; the empty file stays, so that two starters never lock two different files."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


async def lock_postgres(connection: AsyncConnection, shown: str, *, shared: bool = False) -> None:
    """Take the session's advisory lock, or StoreError: it ends with the connection.

    A single daemon has it alone; the workers of a fleet, and whoever steers it, share it.
    """
    function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
    taken = await connection.scalar(text(f"SELECT {function}(:key)"), {"key": ADVISORY_KEY})
    await connection.commit()
    if not taken:
        raise StoreError(f"the database {shown} is in use by another crawld: stop that one first")
