"""The part of a stored copy that is compared, by the rules in the settings and what was learnt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crawld.cli.remote import CommandTarget
from crawld.model.crawl import Memory
from crawld.model.page import Document
from crawld.read.change import comparison as change
from crawld.read.change.frame import HostFrame
from crawld.read.page.digest import compared_text, read_body
from crawld.read.page.document import read_document
from crawld.read.page.markup import is_html
from crawld.read.page.rules import DigestRule, DigestRules
from crawld.show.actions import MARKS, parse_marks
from crawld.store.views import Copy, Gone

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel


def compared_blocks(
    copy: Copy,
    learnt: tuple[Memory, HostFrame | None] | None,
    target: CommandTarget,
) -> Sequence[str] | None:
    """The blocks of a copy that count, without the site's frame and what varies; None where the bytes are compared."""
    reading = read_body(copy.body, copy.content_type, rules_of(target)(copy.url))
    if reading.digest.text is None:
        return None
    return reading.texts if learnt is None else change.compared_blocks(reading, *learnt)


def rules_of(target: CommandTarget) -> DigestRules:
    """Returns what of pages is compared, by the settings and by what was marked on the dashboard."""
    rules = DigestRules([DigestRule(**rule.model_dump()) for rule in target.load().digest])
    rules.change_marks(parse_marks(target.read(lambda reader: reader.setting(MARKS))))
    return rules


async def document_of(model: "SqlReadModel", copy: Copy, rule: DigestRule) -> Document | None:
    """A copy as a reader has it: as the daemon kept it, or else read now; None without a text."""
    kept = {} if copy.version is None else await model.documents([copy.version])
    for document in kept.values():
        return document
    return read_document(copy.body, copy.content_type, copy.url, rule)


def compared_figures(copy: Copy | Gone | None, target: CommandTarget) -> dict[str, Any] | None:
    """Returns what is compared and what is left out, in figures; None where no copy is kept."""
    if not isinstance(copy, Copy):
        return None
    rule = rules_of(target)(copy.url)
    text = compared_text(copy.body, copy.content_type, rule)
    if text is None:
        return {"mode": "raw", "bytes": len(copy.body)}
    mode = "only" if text.only else rule.mode if is_html(copy.body, copy.content_type) else "document"
    return {"mode": mode, "blocks": len(text.blocks), "whole": text.whole, "left_out": text.left_out}


def compared_sentence(figures: dict[str, Any]) -> str:
    """The figures as a person reads them."""
    if figures["mode"] == "raw":
        return f"all {figures['bytes']} bytes"
    texts = {
        "main": "main text",
        "text": "all visible text",
        "document": "the whole document",
        "only": "what the rule's `only` finds",
    }
    what = "whole text, as there is no main text" if figures["whole"] else texts[figures["mode"]]
    left_out = ", ".join(f"{kind} {count}" for kind, count in figures["left_out"].items())
    blocks = f"{figures['blocks']} block{'' if figures['blocks'] == 1 else 's'}"
    return f"{what}, {blocks}" + (f"; left out: {left_out}" if left_out else "")
