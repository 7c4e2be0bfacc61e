"""What the reading commands share: opening the database, and showing rows as tables."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from crawld.config import load
from crawld.model.slot import format_duration
from crawld.store.reports import Reader

T = TypeVar("T")


def read(config_file: Path | None, database: str | None, question: Callable[[Reader], Awaitable[T]]) -> T:
    """Ask the database of these settings, whether its daemon runs or not."""
    return asyncio.run(_read(load(config_file, {"database": database}).database, question))


async def _read(database: str, question: Callable[[Reader], Awaitable[T]]) -> T:
    async with Reader(database) as reader:
        return await question(reader)


def show(value: Any, name: str = "") -> str:
    """A value as a person reads it: moments as ages, rates as intervals, numbers short."""
    if value is None:
        return "–"
    if name.endswith("_at") or name in {"at", "last_success"}:
        age = time.time() - value
        return f"{format_duration(age)} ago" if age >= 0 else f"in {format_duration(-age)}"
    if name in {"change_rate", "alpha", "gamma"}:
        return f"every {format_duration(1 / value)}" if value > 0 else "never"
    if name.endswith("_seconds"):
        return format_duration(value)
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return str(value)


def print_rows(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], left_out: int = 0) -> None:
    """Rows as a table; says so where there are none, or more than shown."""
    console = Console()
    if not rows:
        console.print(f"{title}: nothing yet")
        return
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        text = isinstance(rows[0].get(name), str)
        heading = name.removesuffix("_at").replace("_", " ")
        table.add_column(heading, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for row in rows:
        table.add_row(*(show(row.get(name), name) for name in columns))
    console.print(table)
    if left_out:
        console.print(f"… and {left_out} more: --limit 0 shows all")
