"""The lock that keeps a second daemon off a database."""

import errno
import fcntl
import os
import stat
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import StoreError

ADVISORY_KEY = 0x637261776C64  # "crawld"


class FileLock:
    """Exclusive locks on a database file and on FILE.lock beside it; the kernel ends them with the process.

    The file's own inode is locked, so that no symbolic or hard link makes a second way in. FILE.lock names the holder.
    Neither is written to, or followed where it is a link, before it is known to be a plain file.
    """

    def __init__(self, database: Path) -> None:
        self._database = database.resolve()
        self._path = self._database.with_name(self._database.name + ".lock")
        self._descriptors: list[int] = []

    def acquire(self) -> None:
        """Take the locks, or StoreError naming the process that holds them."""
        try:
            # In this order: a refused starter has not opened the database, whose locks a close would release.
            named = self._locked(self._path)
            self._locked(self._database)
            self._name_holder(named)
        except BaseException:
            self._close()
            raise

    def _name_holder(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise self._unusable(self._path, error) from error

    def _locked(self, file: Path) -> int:
        """Open a plain file and lock it."""
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise self._unusable(file, error) from error
        self._descriptors.append(descriptor)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise StoreError(f"{file} is not a regular file: remove it, or change `database`")
        if file == self._path and about.st_nlink != 1:
            raise StoreError(f"the lock file {file} has another name as well: remove it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use() from None
        except OSError as error:
            raise self._unusable(file, error) from error
        return descriptor

    def _in_use(self) -> StoreError:
        holder = os.pread(self._descriptors[0], 32, 0).decode("ascii", "replace").strip()
        by = f" (process {holder})" if holder.isdecimal() else ""
        return StoreError(f"the database {self._database} is in use by another crawld{by}: stop that one first")

    def _unusable(self, file: Path, error: OSError) -> StoreError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return StoreError(f"the disk of the database {self._database} is full: free some space")
        why = "it is a symbolic link: remove it" if error.errno == errno.ELOOP else error.strerror
        what = "lock file" if file == self._path else "database"
        return StoreError(f"the {what} {file} cannot be used: {why}")

    def release(self) -> None:
        """Release the lock; the empty file stays, so that two starters never lock two different files."""
        if self._descriptors:
            os.ftruncate(self._descriptors[0], 0)
            self._close()

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


async def lock_postgres(connection: AsyncConnection, redacted_url: str, *, shared: bool = False) -> None:
    """Take the session's advisory lock, or StoreError: it ends with the connection.

    A single daemon has it alone; the workers of a fleet and its steering share it.
    """
    function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
    taken = await connection.scalar(text(f"SELECT {function}(:key)"), {"key": ADVISORY_KEY})
    await connection.commit()
    if not taken:
        raise StoreError(f"the database {redacted_url} is in use by another crawld: stop that one first")
