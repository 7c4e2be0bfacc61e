"""A bar on stderr while daemons compete: how fresh each is now."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from crawld.research.contest import Samples


@contextmanager
def contest_progress(
    seconds: float, names: Mapping[str, str] | None = None, *, quiet: bool = False
) -> "Iterator[Callable[[float, Samples], None]]":
    """Show the bar while the block runs; the block is given what moves it. `names` are those to show for entrants."""
    shown = names or {}
    columns = (TextColumn("fresh now:"), TextColumn("{task.fields[line]}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("", total=seconds, line="")

        def show(elapsed: float, samples: "Samples") -> None:
            line = ", ".join(f"{shown.get(name, name)} {values[-1]:.2f}" for name, values in samples.true.items())
            bar.update(task, completed=elapsed, line=line)

        yield show
