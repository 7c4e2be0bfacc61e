"""`crawld export`: pages and their copies for other programs."""

import csv
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from crawld.cli.compared import document_of, rules_of
from crawld.cli.remote import CommandTarget, targeted
from crawld.model.errors import CrawldError
from crawld.model.page import PageState
from crawld.model.usage import PageUse
from crawld.read.page.rules import DigestRules
from crawld.store.views import Copy, PageLine, PageQuery

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel

FIELDS = (
    "url", "host", "state", "importance", "crawls", "changes", "failures", "added_at", "last_crawl_at",
    "last_change_at", "gone_since",
)  # fmt: skip
Found = tuple[PageLine, Copy | None, dict[str, str | None] | None]


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "warc"]),
    help="What to write; without it as the name of --output ends, else jsonl.",
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file; standard output without it.")
@click.option(
    "--text",
    is_flag=False,
    flag_value="text",
    type=click.Choice(["text", "markdown"]),
    help="With jsonl: the text of each copy as a reader has it, too; `--text markdown`: as Markdown.",
)
@click.option("--host", help="Only pages of this host.")
@click.option("--state", type=click.Choice([state.value for state in PageState]), help="Only pages in this state.")
@click.option(
    "--use", type=click.Choice([use.value for use in PageUse]), help="Only pages whose site does not deny this use."
)
@targeted
def command(
    form: str | None,
    output: Path | None,
    text: str | None,
    host: str | None,
    state: str | None,
    use: str | None,
    target: CommandTarget,
) -> None:
    """Write every page with what is known of it: JSON lines, CSV, or its copies as WARC.

    A WARC file (`pip install 'crawld[warc]'`) holds the latest copy of each page as a resource record: the response's
    headers are not kept. Lines of JSON say what each page may be used for (`usage`). A WARC file is compressed unless
    --output ends in .warc. Times are UTC seconds, in WARC dates. It works with the daemon running or stopped.
    """
    form = form or _form_of(output)
    if text is not None and form != "jsonl":
        raise click.UsageError("--text goes with --format jsonl: CSV has no room for it, and WARC holds the whole copy")
    wanted = PageQuery(host=host, state=None if state is None else PageState(state), limit=500)
    with ExitStack() as stack:
        out = sys.stdout.buffer if output is None else stack.enter_context(output.open("wb"))
        plain = output is not None and output.suffix.lower() == ".warc"
        write = _warc(out, gzip=not plain) if form == "warc" else {"jsonl": _jsonl, "csv": _csv}[form](out)
        rules = None if text is None else rules_of(target)
        target.query(lambda model: _write(model, wanted, write, rules, text, use, copies=form == "warc"))


def _form_of(output: Path | None) -> str:
    """The form that the name of a file asks for."""
    name = "" if output is None else output.name.lower()
    return "csv" if name.endswith(".csv") else "warc" if name.endswith((".warc", ".warc.gz")) else "jsonl"


async def _write(
    model: "SqlReadModel",
    wanted: PageQuery,
    write: Callable[[Found], None],
    rules: DigestRules | None,
    text: str | None,
    use: str | None,
    *,
    copies: bool,
) -> None:
    async for page in _pages(model, wanted):
        if use is not None and page.usage is not None and page.usage[use] == "no":
            continue
        found = await model.copy(page.url, even_gone=True) if copies or rules is not None else None
        copy = found if isinstance(found, Copy) else None
        texts = None
        if rules is not None and text is not None and copy is not None:
            document = await document_of(model, copy, rules(page.url))
            texts = {text: None if document is None else getattr(document, text)}
        write((page, copy, texts))


async def _pages(model: "SqlReadModel", wanted: PageQuery) -> AsyncIterator[PageLine]:
    part = await model.pages(wanted)
    while True:
        for page in part.pages:
            yield page
        if part.next is None:
            return
        part = await model.pages(replace(wanted, after=part.next))


def _row(page: PageLine) -> dict[str, Any]:
    told = asdict(page)
    return {name: told[name] for name in FIELDS}


def _jsonl(out: IO[bytes]) -> Callable[[Found], None]:
    def write(found: Found) -> None:
        page, copy, texts = found
        row = _row(page) | {"usage": page.usage}
        if copy is not None:
            row |= {"fetched_at": copy.fetched_at, "version": copy.version, "freshness": copy.freshness}
            row |= texts or {}
        out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    return write


def _csv(out: IO[bytes]) -> Callable[[Found], None]:
    lines = TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.DictWriter(lines, FIELDS)
    writer.writeheader()
    return lambda found: cast(None, writer.writerow(_row(found[0])))


def _warc(out: IO[bytes], *, gzip: bool) -> Callable[[Found], None]:
    try:
        from warcio.warcwriter import WARCWriter
    except ModuleNotFoundError:
        raise CrawldError("WARC needs the package warcio: pip install 'crawld[warc]'") from None
    writer = WARCWriter(out, gzip=gzip)

    def write(found: Found) -> None:
        _, copy, _ = found
        if copy is None:
            return
        digest = hashlib.sha256(copy.body).hexdigest()
        headers = {"WARC-Date": _iso(copy.fetched_at), "WARC-Payload-Digest": f"sha256:{digest}"}
        if copy.usage.header:
            headers["Content-Signal"] = copy.usage.header
        kind = copy.content_type or "application/octet-stream"
        writer.write_record(
            writer.create_warc_record(
                copy.url, "resource", payload=BytesIO(copy.body), warc_content_type=kind, warc_headers_dict=headers
            )
        )

    return write


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
