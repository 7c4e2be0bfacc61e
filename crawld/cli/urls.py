"""`crawld urls`: add, remove, list and import pages, with or without a running daemon."""

import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial

import click

from crawld.cli.options import Commands
from crawld.cli.remote import AS_JSON, CommandTarget, NotRunningError, targeted
from crawld.model.errors import InputError
from crawld.model.page import BY_HAND, FROM_LIST, PageState, Wanted, check_importance
from crawld.model.url import identity, normalise_given
from crawld.pages.list_file import read_list
from crawld.read.url_list import BadLine, UrlList
from crawld.store.address import parse_address
from crawld.store.store import SqlStore


@click.group(name="urls", cls=Commands)
def command() -> None:
    """Add, remove, list and import pages. A running daemon applies them at once; otherwise the database is changed."""


@command.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--importance", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="Their weight."
)
@targeted
def add(urls: tuple[str, ...], importance: float, target: CommandTarget) -> None:
    """Keep these pages fresh as well. What is said of a page here wins over the list, which no longer retires it."""
    _add(_named(urls, check_importance(importance)), target)


@command.command(name="import")
@click.argument("file", metavar="FILE")
@targeted
def import_(file: str, target: CommandTarget) -> None:
    """Add the pages of a URL list (text or CSV; - reads standard input) to those there are; none is retired."""
    listed = read_list(file)
    for bad in listed.bad:
        click.echo(str(bad), err=True)
    _add(listed, target)


@command.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--keep-out", is_flag=True, help="Keep them out, whatever a URL list or a sitemap says.")
@targeted
def remove(urls: tuple[str, ...], keep_out: bool, target: CommandTarget) -> None:
    """Retire these pages; their history is kept. One that a list or a sitemap names comes back, unless it is kept out.

    `crawld urls list --excluded` shows those kept out, `crawld urls readmit URL` or `crawld urls add URL` ends it.
    """
    listed = _named(urls)
    _check_usable(listed)
    removed: list[str] = []
    origins: dict[str, str] = {}
    try:
        for some in _portions(listed.wanted):
            body: dict[str, object] = {"urls": [page.url for page in some], "keep_out": keep_out}
            said = target.ask("DELETE", "/urls", body)
            removed += said["removed"]
            origins |= said["origins"]
    except NotRunningError:
        wanted = [page.url for page in listed.wanted]
        removed, origins = target.change(partial(_retire_in_store, wanted, keep_out))
        _tell_resting(target)
    for url in removed:
        click.echo(f"removed {url}{', and kept out' if keep_out else ''}")
    _tell_returning([(url, origins[url]) for url in removed if origins.get(url, BY_HAND) != BY_HAND])
    unknown = _missing(listed, removed)
    for url in unknown:
        click.echo(f"not here{', and kept out from now on' if keep_out else ''}: {url}", err=True)
    if unknown and not keep_out:
        sys.exit(1)


@command.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@targeted
def readmit(urls: tuple[str, ...], target: CommandTarget) -> None:
    """Keep these pages out no longer: they come back when a list or a sitemap that names them is read, or by `add`."""
    listed = _named(urls)
    _check_usable(listed)
    readmitted: list[str] = []
    for some in _portions(listed.wanted):
        named = [page.url for page in some]
        try:
            readmitted += target.ask("POST", "/urls/readmit", {"urls": named})["readmitted"]
        except NotRunningError:
            readmitted += target.change(lambda store, named=named: store.readmit(named))  # type: ignore[misc]  # a default binds the loop's value
    for url in readmitted:
        click.echo(f"readmitted {url}")
    for url in (unknown := _missing(listed, readmitted)):
        click.echo(f"was not kept out: {url}", err=True)
    if unknown:
        sys.exit(1)


@command.command(name="list")
@click.option("--excluded", is_flag=True, help="The pages that are kept out instead.")
@targeted
@AS_JSON
def list_(excluded: bool, target: CommandTarget, as_json: bool) -> None:
    """Every page that is kept fresh, with its importance, as a URL list that `import` reads."""
    if excluded:
        for row in target.read(lambda reader: reader.exclusions()):
            click.echo(json.dumps(asdict(row)) if as_json else row.url)
        return
    pages = target.read(lambda reader: reader.page_stats())
    for page in sorted(pages, key=lambda page: page.url):
        if page.state == PageState.RETIRED.value:
            continue
        if as_json:
            click.echo(json.dumps({"url": page.url, "importance": page.importance}))
        else:
            click.echo(page.url if page.importance == 1 else f"{page.url} {page.importance:g}")


def _tell_returning(returning: Sequence[tuple[str, str]]) -> None:
    """Say which of the pages just removed come back, and what makes them stay away."""
    if not returning:
        return
    url, origin = returning[0]
    where = "the URL list" if origin == FROM_LIST else f"what it was {origin}"
    which = "it" if len(returning) == 1 else f"{len(returning)} of them, as {url},"
    click.echo(f"{which} will come back: {where} still names it, which counts at the next change or reload.", err=True)
    click.echo(f"To keep it out: crawld urls remove --keep-out {shlex.quote(url)}", err=True)


def _missing(listed: UrlList, found: Sequence[str]) -> list[str]:
    """The URLs of a list that are not among those found, in any spelling."""
    known = set(map(identity, found))
    return sorted(page.url for page in listed.wanted if identity(page.url) not in known)


def _named(urls: Sequence[str], importance: float = 1.0) -> UrlList:
    """The pages named as arguments; each that cannot be used is told with its reason."""
    wanted: dict[str, Wanted] = {}
    bad: list[BadLine] = []
    for number, url in enumerate(urls, start=1):
        try:
            target = _one_url(url)
        except InputError as error:
            click.echo(str(error), err=True)
            bad.append(BadLine(number, str(error), url))
        else:
            wanted.setdefault(identity(target), Wanted(target, importance))
    return UrlList(tuple(wanted.values()), tuple(bad), len(urls) - len(wanted) - len(bad))


def _one_url(text: str) -> str:
    if len(text.split()) > 1:
        raise InputError(f"{text!r}: this is more than a URL; --importance gives its weight")
    return normalise_given(text)


def _check_usable(listed: UrlList) -> None:
    if not listed.wanted:
        raise InputError("no usable URL")


def _add(listed: UrlList, target: CommandTarget) -> None:
    _check_usable(listed)
    added, resting = 0, False
    for some in _portions(listed.wanted):
        try:
            body: dict[str, object] = {"urls": [{"url": page.url, "importance": page.importance} for page in some]}
            added += target.ask("POST", "/urls", body)["added"]
        except NotRunningError:
            added += target.change(partial(_add_to_store, some))
            resting = True
    click.echo(f"{added} added, {len(listed.wanted) - added} known already, {len(listed.bad)} not usable")
    if resting:
        _tell_resting(target)
    if listed.bad:
        sys.exit(1)


def _tell_resting(target: CommandTarget) -> None:
    """Say where a change was made that no daemon was there to take over."""
    place = parse_address(target.load().database).redacted_url
    click.echo(f"no daemon runs: the change is in {place}; `crawld run` there takes it over", err=True)


def _portions(wanted: Sequence[Wanted]) -> Iterator[Sequence[Wanted]]:
    """A list in pieces that one request can hold: the daemon takes a megabyte, and the longest URLs are 8 KB."""
    some: list[Wanted] = []
    characters = 0
    for page in wanted:
        if len(some) >= 1_000 or (some and characters + len(page.url) > 500_000):
            yield some
            some, characters = [], 0
        some.append(page)
        characters += len(page.url)
    yield some


async def _add_to_store(wanted: Sequence[Wanted], store: SqlStore) -> int:
    adoption = await store.adopt(wanted, origin=BY_HAND, now=time.time(), complete=False)
    return len(adoption.added) + len(adoption.returned)


async def _retire_in_store(urls: Sequence[str], keep_out: bool, store: SqlStore) -> tuple[list[str], dict[str, str]]:
    removed = [page.url for page in await store.retire(urls, now=time.time(), keep_out=keep_out)]
    return removed, dict(await store.origins(removed))
