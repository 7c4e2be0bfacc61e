"""`crawld search`: pages whose text holds words."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from crawld.cli.remote import CommandTarget, targeted
from crawld.cli.tables import console
from crawld.model.units import printable
from crawld.store.views import SearchHit


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--host", help="Only pages of this host.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="At most so many pages.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, with where in each snippet the words are.")
@targeted
def command(
    words: Sequence[str],
    host: str | None,
    limit: int,
    as_json: bool,
    target: CommandTarget,
) -> None:
    """Print the pages whose current text holds all the words, best first, with a snippet and how fresh the copy is.

    A phrase stands in quotes ('"rate limit"'), conf* finds words that begin so, and -word leaves pages out (after --).
    It needs `search: true` in the settings, and works with the daemon running or stopped.
    """
    asked = " ".join(words)
    found = target.query(lambda model: model.search(asked, limit=limit, host=host))
    if as_json:
        click.echo(json.dumps([asdict(hit) for hit in found], ensure_ascii=False, indent=2))
        return
    if not found:
        click.echo("no page holds that", err=True)
    for hit in found:
        _show(hit)


def _show(hit: SearchHit) -> None:
    from rich.text import Text

    fresh = "" if hit.freshness is None else f"fresh {hit.freshness:.2f}, "
    out = console()
    out.print(Text(printable(hit.title or hit.url), style="bold"), soft_wrap=True)
    out.print(Text(f"  {printable(hit.url)}  ({fresh}version {hit.version})", style="dim"), soft_wrap=True)
    snippet = Text(f"  {printable(hit.snippet)}")
    for begin, end in hit.marks:
        snippet.stylize("bold yellow", begin + 2, end + 2)
    out.print(snippet, soft_wrap=True)
