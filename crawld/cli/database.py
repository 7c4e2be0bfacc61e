"""What the reading commands share: opening the database of the settings."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from crawld.main.settings import load

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel
    from crawld.store.report import Reader

T = TypeVar("T")


def read(config_file: Path | None, database: str | None, question: "Callable[[Reader], Awaitable[T]]") -> T:
    """Ask the database of these settings, whether its daemon runs or not."""
    return asyncio.run(_read(load(config_file, {"database": database}).database, question))


async def _read(database: str, question: "Callable[[Reader], Awaitable[T]]") -> T:
    from crawld.store.report import Reader  # takes as long to import as all else: the daemon is asked meanwhile

    async with Reader(database) as reader:
        return await question(reader)


def query(config_file: Path | None, database: str | None, question: "Callable[[SqlReadModel], Awaitable[T]]") -> T:
    """The same of the read model: lists by cursor, changes and versions."""
    return asyncio.run(_query(load(config_file, {"database": database}).database, question))


async def _query(database: str, question: "Callable[[SqlReadModel], Awaitable[T]]") -> T:
    from crawld.model.clock import SystemClock
    from crawld.store.read_model import SqlReadModel

    async with SqlReadModel(database, SystemClock()) as model:
        return await question(model)
