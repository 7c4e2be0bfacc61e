"""`crawld get`: the copy of a page."""

import sys
import time
from typing import TYPE_CHECKING

import click

from crawld.choose.freshness import SKEW
from crawld.cli.compared import compared_blocks, document_of, rules_of
from crawld.cli.explain import last_trouble, unknown_page
from crawld.cli.remote import LIMITS, CommandTarget, targeted, wait_seconds
from crawld.model.errors import CrawldError
from crawld.model.page import PageState
from crawld.model.units import format_date, format_moment
from crawld.model.url import normalise_given
from crawld.store.views import Copy, Gone, PageFacts

if TYPE_CHECKING:
    from crawld.model.crawl import Memory
    from crawld.read.change.frame import HostFrame


NEVER_FETCHED = {
    PageState.FAILING: "every attempt to fetch it has failed",
    PageState.DISALLOWED: "robots.txt forbids it",
    PageState.RETIRED: "it was taken off the list before it was fetched",
}


@click.command()
@click.argument("url")
@click.option("--quiet", is_flag=True, help="Print the copy alone, without age and freshness (standard error).")
@click.option("--text", "form", flag_value="text", help="The page's text as a reader has it, in place of the copy.")
@click.option("--markdown", "form", flag_value="markdown", help="The same as Markdown, with links, tables and code.")
@click.option(
    "--compared",
    "form",
    flag_value="compared",
    help="The text that is compared for changes, block by block; … stands for what varies by itself.",
)
@click.option("--gone", "even_gone", is_flag=True, help="Print the last copy even of a page that is gone (404 or 410).")
@click.option(
    "--min-freshness", type=click.FloatRange(0, 1), help="Fetch the page now where its copy is fresh with less chance."
)
@click.option("--wait", help="How long to wait for that, up to 60s; 10s with --min-freshness.")
@targeted
def command(
    url: str,
    quiet: bool,
    form: str | None,
    even_gone: bool,
    min_freshness: float | None,
    wait: str | None,
    target: CommandTarget,
) -> None:
    """Print the latest copy of a page to standard output, and its age and freshness to standard error.

    With --min-freshness or --wait the running daemon fetches the page first, within its rate, where that is needed: the
    old copy is printed where it cannot be fetched in time, and standard error says why.
    A page that is gone (404 or 410) has no copy that is up to date: that is said instead, with since when.
    """
    wanted = normalise_given(url)
    if min_freshness is not None or wait is not None:
        _freshen(wanted, min_freshness, wait, target, quiet=quiet)
    found = target.read(lambda reader: reader.copy(wanted))
    copy, gone = (found, found.gone) if isinstance(found, Copy) else (None, found)
    if gone is not None and (copy is None or not even_gone):
        rest = "no copy is held" if copy is None else "--gone prints the last copy"
        raise CrawldError(f"{wanted} is {_since(gone)}; {rest}")
    if copy is None:
        page = target.read(lambda reader: reader.page(wanted))
        if page is None:
            raise unknown_page(wanted)
        kept = target.load().keep_bodies != "none"
        raise CrawldError(f"there is no copy of {wanted}: {_why_none(page, kept=kept)}")
    if not quiet:
        click.echo(f"{copy.url}: {_age(copy) if gone is None else _last_copy(gone, copy)}", err=True)
    if form is None:
        if sys.stdout.isatty() and b"\0" in copy.body:
            raise CrawldError(f"the copy is not text: write it to a file, as `crawld get {copy.url} > FILE`")
        sys.stdout.buffer.write(copy.body)
        return
    if form == "compared":
        learnt = target.read(lambda reader: reader.learnt_of(wanted))
        sys.stdout.buffer.write(_compared(copy, learnt, target))
        return
    rule = rules_of(target)(copy.url)
    document = target.query(lambda model: document_of(model, copy, rule))
    if document is None:
        raise CrawldError(f"the copy of {copy.url} has no text: without --{form} it is printed as it is")
    written = document.markdown if form == "markdown" else document.text
    sys.stdout.buffer.write(written.encode("utf-8", "replace"))


def _freshen(
    url: str,
    min_freshness: float | None,
    wait: str | None,
    target: CommandTarget,
    *,
    quiet: bool,
) -> None:
    """Have the running daemon fetch the page where its copy is not fresh enough; say why where it could not."""
    seconds = wait_seconds("10s" if wait is None else wait, "reader")
    body: dict[str, object] = {"url": url, "min_freshness": min_freshness, "wait": seconds}
    found = target.ask("POST", "/freshen", body, seconds=seconds + LIMITS.margin_seconds)
    if found["reason"] is not None and not quiet:
        click.echo(f"{url}: not fetched for this: {found['reason']}", err=True)


def _compared(
    copy: Copy,
    learnt: "tuple[Memory, HostFrame | None] | None",
    target: CommandTarget,
) -> bytes:
    """The text that is compared: one block a line, but where the page itself breaks lines."""
    blocks = compared_blocks(copy, learnt, target)
    if blocks is None:
        raise CrawldError(f"{copy.url} is compared by its bytes: without --compared they are printed")
    return "".join(f"{block}\n" for block in blocks).encode("utf-8", "replace")


def _why_none(page: PageFacts, *, kept: bool) -> str:
    """Returns why a page that is known has no copy: it was never fetched, or its copy was not kept."""
    state, trouble = PageState(page.state), last_trouble(page.last_crawls, time.time())
    if page.last_crawl_at is not None:
        why = "it was crawled, but its copy is not kept" + ("" if kept else ": keep_bodies is none")
    else:
        why = NEVER_FETCHED.get(state, "it has not been fetched yet")
    return f"{why} (last trouble: {trouble})" if trouble is not None else why


def _age(copy: Copy) -> str:
    checked = copy.fetched_at if copy.checked_at is None else copy.checked_at
    fresh = "" if copy.freshness is None else f", fresh with probability {copy.freshness:.3f}"
    return f"fetched {_when(copy.fetched_at)}, last seen unchanged {_when(checked)}{fresh}"


def _last_copy(gone: Gone, copy: Copy) -> str:
    return f"{_since(gone)}; this is the last copy, fetched {_when(copy.fetched_at)}"


def _since(gone: Gone) -> str:
    status = f", status {gone.status}" if gone.status else ""
    return f"gone since {_when(gone.since)}{status}"


def _when(at: float) -> str:
    now = time.time()
    if at > now + SKEW:
        return f"{format_date(at)} UTC, in the future (was the clock set back?)"
    return format_moment(min(at, now), now)
