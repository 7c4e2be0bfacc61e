"""`crawld diff`: what became of a page's text between two of its versions."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from pydantic import TypeAdapter

from crawld.cli.compared import rules_of
from crawld.cli.explain import unknown_page
from crawld.cli.remote import AS_JSON, CommandTarget, targeted
from crawld.model.crawl import BlockEdit, Edit, Words
from crawld.model.errors import CrawldError
from crawld.model.units import format_date, printable
from crawld.model.url import normalise_given
from crawld.read.page.blocks import difference, unified
from crawld.store.views import Version, VersionBody

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel

_TOLD: TypeAdapter[Any] = TypeAdapter(dict[str, Version | tuple[BlockEdit, ...]])
VERSION = click.IntRange(1, 2**63 - 1)


@click.command()
@click.argument("url")
@click.option("--from", "before", type=VERSION, metavar="VERSION", help="The earlier version.")
@click.option("--to", "after", type=VERSION, metavar="VERSION", help="The later version; the latest.")
@click.option("--unified", "as_unified", is_flag=True, help="A unified diff of lines, for other programs.")
@targeted
@AS_JSON
def command(
    url: str,
    before: int | None,
    after: int | None,
    as_unified: bool,
    target: CommandTarget,
    as_json: bool,
) -> None:
    """Show which words of a page's text came and went between two versions, the latest two unless told otherwise.

    On a terminal they are coloured; elsewhere they stand in [-brackets-] {+like these+}. Versions are numbered as the
    changes that brought them: `crawld changes` shows the numbers. What is compared is the text that the page's rule
    compares, without regard to what was learnt to vary by itself.
    """
    wanted = normalise_given(url)
    old, new = target.query(lambda model: _pair(model, wanted, before, after))
    rule = rules_of(target)(new.url)
    edits = difference((old.body, old.version.content_type), (new.body, new.version.content_type), rule)
    if edits is None:
        raise CrawldError(f"the versions {old.version.id} and {new.version.id} of {wanted} have no text to compare")
    if as_json:
        told = _TOLD.dump_python({"before": old.version, "after": new.version, "blocks": edits}, mode="json")
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    elif as_unified:
        sys.stdout.buffer.write(unified(edits, (_name(old), _name(new))).encode("utf-8", "replace"))
    else:
        click.echo(f"{_name(old)} → {_name(new)}", err=True)
        for line in _lines(edits):
            click.echo(line)


async def _pair(
    model: "SqlReadModel", url: str, before: int | None, after: int | None
) -> tuple[VersionBody, VersionBody]:
    kept = await model.versions(url)
    if kept is None:
        raise unknown_page(url)
    later = after if after is not None else max((one.id for one in kept), default=0)
    earlier = before if before is not None else max((one.id for one in kept if one.id < later), default=0)
    old, new = await model.version(url, earlier), await model.version(url, later)
    if old is None or new is None:
        numbers = ", ".join(str(one.id) for one in reversed(kept)) or "none"
        more = "" if len(kept) > 1 else "; with keep_bodies: changes they are kept from then on"
        raise CrawldError(f"there are no two such versions of {url} (kept: {numbers}{more})")
    return old, new


def _name(one: VersionBody) -> str:
    return f"version {one.version.id} of {format_date(one.version.at)}"


def _lines(edits: Sequence[BlockEdit]) -> Iterator[str]:
    """The blocks that changed, with what is around them; … stands for the rest."""
    near = {at + step for at, edit in enumerate(edits) if edit.edit is not Edit.SAME for step in (-1, 0, 1)}
    shown = [at for at in range(len(edits)) if at in near]
    if not shown:
        yield "the texts are the same"
    for place, at in enumerate(shown):
        if place and at != shown[place - 1] + 1:
            yield "…"
        yield "".join(map(_styled, edits[at].words))


def _styled(words: Words) -> str:
    """Words in colour, which click takes away where no terminal shows it; brackets stand in for it there."""
    if not sys.stdout.isatty():
        return {Edit.REMOVED: f"[-{words.text}-]", Edit.ADDED: f"{{+{words.text}+}}"}.get(words.edit, words.text)
    text = printable(words.text)
    if words.edit is Edit.REMOVED:
        return click.style(text, fg="red", strikethrough=True)
    return click.style(text, fg="green", underline=True) if words.edit is Edit.ADDED else text
