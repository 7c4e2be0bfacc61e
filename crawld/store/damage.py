"""Damage to the database, whoever meets it: nothing more is written, and whoever waits for it is told."""

import asyncio
from pathlib import Path
from typing import NoReturn

from sqlalchemy import ExceptionContext, event, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.errors import DamagedError
from crawld.store import tables
from crawld.store.engine import in_a_sentence, is_damage


class Damage:
    """Watches every statement of the engines it is given; the first sign of damage counts, and is never taken back."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._met = asyncio.Event()
        self._file: tuple[Path, int] | None = None
        self.found: DamagedError | None = None

    def watch(self, engine: AsyncEngine) -> None:
        """Look at each error that the engine raises from now on."""
        event.listen(engine.sync_engine, "handle_error", self._look)

    def watch_file(self, file: Path) -> None:
        """Remember which file the database is: one that is removed or replaced would be written to for nothing."""
        self._file = file, file.stat().st_ino

    def check(self) -> None:
        """DamagedError where damage was met, or where the file is no longer the one that was opened."""
        if self.found is None and self._file is not None:
            file, inode = self._file
            try:
                same = file.stat().st_ino == inode
            except FileNotFoundError:
                same = False
            except OSError:
                same = True  # what keeps us from looking is told by the statement that follows
            if not same:
                self.report(DamagedError(f"the database {self._shown} was removed or replaced while crawld used it"))
        if self.found is not None:
            raise self.found

    def report(self, error: DamagedError) -> None:
        """Damage was met."""
        if self.found is None:
            self.found = error
            self._met.set()

    async def wait(self) -> NoReturn:
        """Wait until damage is met, and raise it."""
        await self._met.wait()
        assert self.found is not None  # noqa: S101 - said before the event is set
        raise self.found

    def look_at(self, error: BaseException) -> None:
        """Report an error that is damage."""
        if is_damage(error):
            sentence = error if isinstance(error, DamagedError) else in_a_sentence(error, self._shown)
            assert isinstance(sentence, DamagedError)  # noqa: S101 - decided by the same function
            self.report(sentence)

    def _look(self, context: ExceptionContext) -> None:
        if context.sqlalchemy_exception is not None:
            self.look_at(context.sqlalchemy_exception)


async def touch_tables(connection: AsyncConnection) -> None:
    """Read the first and last row of every table: one that is missing, or has lost its root, is met at the start."""
    for table in tables.metadata.sorted_tables:
        keys = list(table.primary_key.columns) or list(table.columns)[:1]
        for order in (keys, [key.desc() for key in keys]):
            (await connection.execute(select(table).order_by(*order).limit(1))).all()
