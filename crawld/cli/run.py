"""`crawld run`: the daemon."""

import asyncio
import importlib
import logging
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from crawld.cli import TRY_AGAIN
from crawld.cli.options import ALLOW_PRIVATE, settings_file
from crawld.main.settings import STANDARD_INPUT, Settings, load, load_written
from crawld.model.errors import CrawldError, DamagedError, InputError, StoreError

if TYPE_CHECKING:
    from crawld.main.supervisor import Daemon


log = logging.getLogger("crawld")
NOTHING_GIVEN = """nothing to crawl: give a URL list, for example

  crawld run urls.txt --bandwidth 2/s

where urls.txt holds one URL a line, optionally followed by its importance; or set `urls:` or `discover:` in a file
given with --config. `crawld demo` shows crawld at work without any."""
NOTHING_CONFIGURED = """nothing to crawl: {file} names no URL list and no site.
Set `urls:` (a file with one URL a line) or `discover:` in it, run `crawld check-config {file}`, and start again."""
NOTHING_TO_DISCOVER = """nothing to crawl: `discover:` finds pages in sitemaps and feeds, and `signals:` names none.
Set `signals.sitemaps: auto`, list sitemaps or feeds there, set `links: true` for a site, or give a URL list."""


@click.command()
@click.argument("list_file", metavar="[FILE]", required=False)
@settings_file("Settings (YAML).")
@click.option("--urls", metavar="FILE", envvar="CRAWLD_URLS", help="The same as FILE: the pages to keep fresh.")
@click.option("--bandwidth", metavar="RATE", envvar="CRAWLD_BANDWIDTH", help="Requests in all: 2/s, 90/min, 5000/day.")
@click.option(
    "--database", metavar="URL", envvar="CRAWLD_DATABASE", help="sqlite:///FILE or postgresql://USER@HOST/NAME."
)
@click.option("--processes", metavar="N", help="Crawl with so many processes, which share a PostgreSQL; auto: cores.")
@ALLOW_PRIVATE
@click.option("--yes", is_flag=True, help="Let go however many pages of the database the list no longer names.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    list_file: str | None,
    config_file: Path | None,
    urls: str | None,
    allow_private: tuple[str, ...],
    yes: bool,
    **more: str | None,
) -> None:
    """Run the daemon: keep the pages of a URL list, or of discovered sites, fresh within the bandwidth.

    FILE holds one URL a line; - reads standard input, and a pipe such as <(COMMAND) will do.

    The command line wins over the environment (CRAWLD_CONFIG, CRAWLD_URLS, CRAWLD_BANDWIDTH, CRAWLD_DATABASE), and
    that over the file given with --config. SIGTERM and ctrl-C end it cleanly.

    Several processes are a fleet on this machine, started again where they die. They use the PostgreSQL of --database;
    in place of SQLite one of crawld's own in FILE.postgres, which takes over what the SQLite file holds.

    The exit status is 2 where settings, list or database keep it from starting, or where the database is found damaged
    while it runs; under a service manager it is 75 where the database may be usable again later.
    """
    if list_file is not None:
        if ctx.get_parameter_source("urls") is ParameterSource.COMMANDLINE:
            raise InputError(f"two URL lists: write {list_file} or --urls {urls}, not both")
        if list_file.startswith(("http://", "https://")):
            raise InputError(f"{list_file} is a page, and a file with pages is wanted: echo {list_file} > urls.txt")
        if Path(list_file).suffix in {".yaml", ".yml"}:
            raise InputError(f"{list_file} looks like settings: write `crawld run --config {list_file}`")
        urls = list_file
    given = {"urls": urls, "allow_private": list(allow_private) or None, **more}
    # A rate in a service's environment is there at every start: it must not undo each time what was steered since.
    insist = ctx.get_parameter_source("bandwidth") is ParameterSource.COMMANDLINE
    try:
        _crawl(config_file, given, insist_on_bandwidth=insist, retire=yes)
    except CrawldError as error:
        if "NOTIFY_SOCKET" not in os.environ:
            raise
        fail_as_service(error)


def _crawl(config_file: Path | None, given: dict[str, Any], *, insist_on_bandwidth: bool, retire: bool) -> None:
    settings = load_written(config_file, given)
    if settings.processes != 1 or settings.in_use() is not settings:
        processes = importlib.import_module("crawld.fleet.processes")  # by name: nothing here depends on the fleet
        processes.run(settings, config_file, given, insist_on_bandwidth=insist_on_bandwidth, retire=retire)
        return
    check_pages(settings, config_file)  # before a database is made for nothing
    from crawld.main.assembly import build

    read_again = settings_reader(settings, config_file, given)
    built = partial(build, settings, insist_on_bandwidth=insist_on_bandwidth, retire=retire)
    crawl(settings, partial(built, read_settings=read_again))


def settings_reader(settings: Settings, config_file: Path | None, given: dict[str, Any]) -> Callable[[], Settings]:
    """Reads settings for a reload; those from a pipe, as in --config <(COMMAND), cannot be read again and are kept."""
    from_pipe = config_file is not None and not config_file.is_file()
    return (lambda: settings) if from_pipe else partial(load, config_file, given)


def crawl(settings: Settings, build: Callable[[], "Daemon"]) -> None:
    """Build a daemon and run it to its end."""
    from crawld.main.checks import set_up_logging
    from crawld.pages.page_set import bound_waste

    set_up_logging(settings)
    _allow_open_files()
    bound_waste()  # before there are threads, which would have heaps of their own
    daemon = build()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.get_loop().set_exception_handler(_on_loop_error)
        runner.run(daemon.run())


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nothing waits for; that memory ran out is one sentence, however many tasks it ends."""
    from crawld.model.logs import log_no_memory

    if isinstance(context.get("exception"), MemoryError):
        log_no_memory()
    else:
        loop.default_exception_handler(context)


def check_pages(settings: Settings, config_file: Path | None) -> None:
    """InputError where there is nothing to crawl, or where the URL list is missing."""
    if settings.urls is not None:
        list_file = Path(settings.urls)
        if settings.urls != STANDARD_INPUT and not list_file.exists():
            raise InputError(f"URL list {list_file}: there is no such file")
        if list_file.is_dir():
            raise InputError(f"URL list {list_file}: this is a directory")
    elif _holds_pages(settings):
        return
    elif settings.discover:
        links = any(site.links for site in settings.discover)
        if not links and settings.signals.sitemaps != "auto" and not _given_files(settings):
            raise InputError(NOTHING_TO_DISCOVER)
    elif config_file is None:
        raise InputError(NOTHING_GIVEN)
    else:
        raise InputError(NOTHING_CONFIGURED.format(file=config_file.absolute()))


def _given_files(settings: Settings) -> bool:
    """Tells whether the settings name a sitemap or feed themselves."""
    return any(isinstance(given, list) and given for given in (settings.signals.sitemaps, settings.signals.feeds))


def fail_as_service(error: CrawldError) -> None:
    """Show the reason in `systemctl status`, and say by the exit status whether another start may succeed.

    A person mends settings, lists and a damaged database; a full disk, or a database that is locked or away, may mend
    itself.
    """
    from crawld.main.supervisor import Notifier, one_line

    click.echo(f"crawld: {error}", err=True)
    Notifier().send(f"STATUS=failed: {one_line(str(error))}")
    may_pass = isinstance(error, StoreError) and not isinstance(error, DamagedError)
    sys.exit(TRY_AGAIN if may_pass else 2)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it is installed (a dependency of CPython on Linux and macOS), asyncio's own loop otherwise."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _allow_open_files() -> None:
    """A connection is a file, and the usual 1,024 are few where servers keep us waiting."""
    wanted = 65_536
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most > soft != resource.RLIM_INFINITY:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except OSError as error:
            log.warning("cannot raise the limit of open files", extra={"limit": soft, "reason": error.strerror})


def _holds_pages(settings: Settings) -> bool:
    """Tells whether a database from an earlier run is there to go on with."""
    if not settings.database.startswith("sqlite:///"):
        return True
    return Path(settings.database.removeprefix("sqlite:///")).exists()
