"""`crawld run`: the daemon."""

import asyncio
import ctypes
import importlib
import logging
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from crawld.config import Settings, load
from crawld.errors import InputError

log = logging.getLogger("crawld")
OPEN_FILES = 65536
M_ARENA_MAX = -8  # as in malloc.h
HEAPS = 2
NOTHING_GIVEN = """nothing to crawl: give a URL list, for example

  crawld run --urls urls.txt --bandwidth 2/s

where urls.txt holds one URL a line, optionally followed by its importance; or `urls: urls.txt` in a file given with
--config. `crawld demo` shows crawld at work without any."""


@click.command()
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), envvar="CRAWLD_CONFIG", help="Settings (YAML)."
)
@click.option(
    "--urls",
    metavar="FILE",
    envvar="CRAWLD_URLS",
    help="The pages to keep fresh, one URL a line; - reads standard input.",
)
@click.option("--bandwidth", metavar="RATE", envvar="CRAWLD_BANDWIDTH", help="Requests in all: 2/s, 90/min, 5000/day.")
@click.option(
    "--database", metavar="URL", envvar="CRAWLD_DATABASE", help="sqlite:///FILE or postgresql://USER@HOST/NAME."
)
@click.option(
    "--allow-private",
    metavar="NETWORK",
    multiple=True,
    help="A private network that may be asked; repeatable.",
)
@click.pass_context
def command(
    ctx: click.Context,
    config_file: Path | None,
    urls: str | None,
    bandwidth: str | None,
    database: str | None,
    allow_private: tuple[str, ...],
) -> None:
    """Crawl for ever: keep the pages of a URL list fresh within the bandwidth.

    The command line wins over the environment (CRAWLD_CONFIG, CRAWLD_URLS, CRAWLD_BANDWIDTH, CRAWLD_DATABASE), and
    that over the file given with --config. SIGTERM and ctrl-C end it cleanly.
    """
    networks = list(allow_private) or None
    given = {"urls": urls, "bandwidth": bandwidth, "database": database, "allow_private": networks}
    settings = load(config_file, given)
    if settings.urls is None and not _holds_pages(settings):
        raise InputError(NOTHING_GIVEN)
    if settings.urls not in {None, "-"} and not Path(str(settings.urls)).is_file():
        raise InputError(f"URL list {settings.urls}: there is no such file")  # before a database is made for nothing
    from crawld import wiring

    wiring.set_up_logging(settings)
    _allow_open_files()
    _share_heaps()
    read_again = partial(load, config_file, given)
    # A rate in a service's environment is there at every start: it must not undo each time what was steered since.
    insist = ctx.get_parameter_source("bandwidth") is ParameterSource.COMMANDLINE
    daemon = wiring.build(settings, insist_on_bandwidth=insist, read_settings=read_again)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(daemon.run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it is installed (the extra `uvloop`), asyncio's own loop otherwise."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _allow_open_files() -> None:
    """A connection is a file, and the usual 1,024 are few where servers keep us waiting."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if most > soft != resource.RLIM_INFINITY:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except OSError as error:
            log.warning("open files stay limited", extra={"limit": soft, "reason": error.strerror})


def _share_heaps() -> None:
    """Have threads share two heaps: glibc would make one for each, and each keeps what it once held."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's alone
    if mallopt is not None and not mallopt(M_ARENA_MAX, HEAPS):
        log.warning("threads keep heaps of their own")


def _holds_pages(settings: Settings) -> bool:
    """Whether a database from an earlier run is there to go on with."""
    if not settings.database.startswith("sqlite:///"):
        return True
    return Path(settings.database.removeprefix("sqlite:///")).exists()
