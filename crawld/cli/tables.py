"""Tables that fit the terminal: what a row is about stays, figures go first.

A table is first tried in full, then with brief cells, then without its least important columns. What names a row, a
URL or a host, keeps its width as long as other columns can go, and is then shortened in the middle. Where nothing has
set a width, as in a pipe, nothing is left out.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawld.model.units import format_age, format_duration, format_moment, printable


@dataclass(frozen=True)
class TablesLimits:
    """Numbers that bound and tune this module."""

    name_share: float = 0.75
    """Of the width that other columns must leave to what names a row, before it is shortened."""
    min_name: int = 16
    gap: int = 2
    boxed_gap: int = 3
    widest: int = 10_000
    essential: int = 100
    """The importance of columns that never go."""


LIMITS = TablesLimits()


Row = Any
"""A dataclass, or a mapping by the names of columns."""
Show = Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: what it shows of a row, and how long it stays where room is short, if need be in brief."""

    heading: str
    full: Show
    stays: int
    brief: Show | None = None
    left: bool = False
    name: bool = False  # names the row: never goes, and is shortened last


def console(*, stderr: bool = False) -> Console:
    """Returns where tables go: as wide as the terminal or COLUMNS says, without any limit in a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    bounded = stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(stderr=stderr, width=None if bounded else LIMITS.widest, highlight=False)


def name(key: str) -> TableColumn:
    """Returns what the row is about."""
    return TableColumn(_heading(key), _text(key), LIMITS.essential, left=True, name=True)


def word(key: str, stays: int) -> TableColumn:
    """A word."""
    return TableColumn(_heading(key), _text(key), stays, left=True)


def number(key: str, stays: int, heading: str | None = None) -> TableColumn:
    """A count or a figure."""
    return TableColumn(heading or _heading(key), lambda row: figure(_value(row, key)), stays)


def moment(key: str, stays: int) -> TableColumn:
    """A moment: its date and age, in brief its age."""

    def full(row: Row) -> str:
        return format_moment(at, time.time()) if (at := _value(row, key)) else "–"

    def brief(row: Row) -> str:
        return format_age(at, time.time()) if (at := _value(row, key)) else "–"

    return TableColumn(_heading(key), full, stays, brief)


def duration(key: str, stays: int, heading: str | None = None) -> TableColumn:
    """A length of time."""

    def show(row: Row) -> str:
        return "–" if (seconds := _value(row, key)) is None else format_duration(seconds)

    return TableColumn(heading or _heading(key), show, stays)


def figure(value: Any) -> str:
    """A number short, nothing as a dash, all else as it is."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def weight(value: float) -> str:
    """An importance as a list has it: `1`, `2.5`, `1234567`."""
    short = f"{value:g}"
    return short if "e" not in short else f"{value:.0f}" if abs(value) >= 1 else "0"


def print_rows(title: str, rows: Sequence[Row], columns: Sequence[TableColumn], left_out: int = 0) -> None:
    """Rows as a table that fits; says so where there are none, or more than shown."""
    where = console()
    if not rows:
        where.print(f"{title}: nothing yet")
        return
    where.print(Text(title, style="italic"))
    where.print(fitted(rows, columns, where.width))
    if left_out:
        where.print(f"… and {left_out} more: --limit 0 shows all")


def fitted(rows: Sequence[Row], columns: Sequence[TableColumn], width: int, title: str | None = None) -> Table:
    """The rows as a table no wider than that, in a box where it has a title."""
    gap = LIMITS.gap if title is None else LIMITS.boxed_gap
    shown, cells = _choose(rows, columns, width + gap - (0 if title is None else 4), gap)
    table = Table(box=None, pad_edge=False, padding=(0, LIMITS.gap, 0, 0)) if title is None else Table(title=title)
    for column in shown:
        table.add_column(column.heading, justify="left" if column.left else "right", no_wrap=not column.left)
    for row in cells:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    return table


def _choose(
    rows: Sequence[Row], columns: Sequence[TableColumn], width: int, gap: int
) -> tuple[list[TableColumn], list[list[str]]]:
    shown, brief = list(columns), False
    while True:
        cells = [[printable(((brief and column.brief) or column.full)(row)) for column in shown] for row in rows]
        widths = [
            max(cell_len(column.heading), *(cell_len(row[at]) for row in cells)) for at, column in enumerate(shown)
        ]
        names = [at for at, column in enumerate(shown) if column.name]
        others = sum(widths) - sum(widths[at] for at in names) + gap * len(shown)
        room = width - others
        if sum(widths[at] for at in names) <= room:
            return shown, cells
        may_go = (column for column in shown if column.stays < LIMITS.essential)
        going = min(may_go, key=lambda column: column.stays, default=None)
        if not brief:
            brief = True
        elif going is not None and room < max(LIMITS.name_share * width, LIMITS.min_name):
            shown.remove(going)
        else:
            return shown, _shortened(cells, names, max(room, LIMITS.min_name))


def _shortened(cells: list[list[str]], names: Sequence[int], room: int) -> list[list[str]]:
    """Names cut in the middle so that they fit together, all to the same length."""
    each = max(room // max(len(names), 1), 8)
    return [[shorten(cell, each) if at in names else cell for at, cell in enumerate(row)] for row in cells]


def shorten(text: str, width: int) -> str:
    """A text without its middle: a URL keeps its host and the end of its path."""
    if cell_len(text) <= width:
        return text
    head = (width - 1) * 3 // 5
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def print_lines(pairs: Sequence[tuple[str, str]]) -> None:
    """Labels with what is to say of each, folded so that nothing is lost."""
    where = console()
    indent = max(cell_len(label) for label, _ in pairs) + LIMITS.gap
    for label, text in pairs:
        folded = Text(printable(text)).wrap(where, max(where.width - indent, LIMITS.min_name), overflow="fold")
        for at, line in enumerate(folded):
            line.rstrip()
            where.print(Text(label.ljust(indent) if at == 0 else " " * indent, style="bold").append(line))


def _heading(key: str) -> str:
    return key.removesuffix("_at").replace("_", " ")


def _value(row: Row, key: str) -> Any:
    return row.get(key) if isinstance(row, Mapping) else getattr(row, key)


def _text(key: str) -> Show:
    return lambda row: "–" if (value := _value(row, key)) is None else str(value)
