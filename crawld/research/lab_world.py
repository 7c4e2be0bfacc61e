"""The options by which `crawld lab` is told what to serve, and the scenario they ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawld.cli.options import RATE
from crawld.model.errors import InputError

if TYPE_CHECKING:
    from crawld.research.scenario import Scenario

NOISY, WEBLIKE = "noisy", "weblike"
KINDS = ("none", "honest", "build-time", "static", "date-only", "late")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The world that was asked for."""

    world: str
    pages: int
    hosts: int
    sitemap: str | None
    changes: float
    errors: float
    seed: int

    def scenario(self, seconds: float) -> "Scenario":
        """The world for a run of so many seconds."""
        from crawld.research import scenario
        from crawld.research.sitemaps import Sitemap

        if self.changes <= 0:
            raise InputError("--changes: nothing would ever change; give a rate such as 5/s")
        size = scenario.Size(self.pages, min(self.hosts, self.pages), seconds, self.changes, self.seed)
        if self.world == WEBLIKE:
            return scenario.weblike_scenario(size, Sitemap(self.sitemap) if self.sitemap else None)
        if self.sitemap:
            raise InputError("--sitemap: only weblike worlds have sitemaps of a chosen kind")
        if self.world == NOISY:
            return scenario.noisy_scenario(size)
        files = [Path(name) for name in self.world.split(",")]
        missing = [str(file) for file in files if not file.is_file()]
        if missing:
            raise InputError(f"--world: {missing[0]!r} is neither {NOISY} nor {WEBLIKE} nor a file")
        return scenario.recorded_scenario(files, size)


_OPTIONS = (
    click.option(
        "--world",
        default=WEBLIKE,
        show_default=True,
        help="What is served: weblike (drawn after real sites), noisy (that of Busa-Fekete et al. 2025), "
        "or recorded histories: "
        "one or more .npz files with commas between, a host each.",
    ),
    click.option("--pages", default=200, show_default=True, type=click.IntRange(1, 20_000), help="Pages in all."),
    click.option("--hosts", default=6, show_default=True, type=click.IntRange(1, 100), help="Hosts of a drawn world."),
    click.option("--sitemap", type=click.Choice(KINDS), help="The sitemaps of a weblike world [default: each kind]."),
    click.option(
        "--changes", default="5/s", show_default=True, type=RATE, help="Changes of all pages: sets the pace of time."
    ),
    click.option(
        "--errors", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Share of answers that are 503."
    ),
    click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="The same seed, the same world."),
)


def world_options(command: F) -> F:
    """Give a command the options of a world; it gets them as one `wanted`."""

    @wraps(command)
    def wrapped(**given: Any) -> Any:
        names = ("world", "pages", "hosts", "sitemap", "changes", "errors", "seed")
        wanted = Wanted(**{name: given.pop(name) for name in names})
        return command(wanted=wanted, **given)

    decorated: Any = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators keep what they decorate
