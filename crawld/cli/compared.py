"""The part of a stored copy that is compared, by the rules in the settings and what was learnt."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawld.cli.remote import read
from crawld.main.settings import load
from crawld.model.crawl import Memory
from crawld.model.page import Document
from crawld.read.change import comparison as change
from crawld.read.change.frame import HostFrame
from crawld.read.page.digest import compared_text, read_body
from crawld.read.page.document import read_document
from crawld.read.page.markup import PageText, is_html
from crawld.read.page.rules import DigestRule, DigestRules
from crawld.show.actions import MARKS, parse_marks
from crawld.store.views import Copy, Gone

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel


def compared_blocks(
    copy: Copy,
    learnt: tuple[Memory, HostFrame | None] | None,
    config_file: Path | None,
    database: str | None = None,
) -> Sequence[str] | None:
    """The blocks of a copy that count, without the site's frame and what varies; None where the bytes are compared."""
    reading = read_body(copy.body, copy.content_type, rule_of(copy.url, config_file, database))
    if reading.digest.text is None:
        return None
    return reading.texts if learnt is None else change.compared_blocks(reading, *learnt)


def rule_of(url: str, config_file: Path | None, database: str | None = None) -> DigestRule:
    """Returns what of a page is compared, by the settings and by what was marked on the dashboard."""
    return rules_of(config_file, database)(url)


def rules_of(config_file: Path | None, database: str | None = None) -> DigestRules:
    """Returns what of pages is compared, by the settings and by what was marked on the dashboard."""
    rules = DigestRules([DigestRule(**rule.model_dump()) for rule in load(config_file).digest])
    rules.change_marks(parse_marks(read(config_file, database, lambda reader: reader.setting(MARKS))))
    return rules


async def read_kept(model: "SqlReadModel", url: str, rule: DigestRule) -> Document | None:
    """The latest copy of a page as a reader has it: as the daemon kept it, or else read now; None without a text."""
    copy = await model.copy(url, even_gone=True)
    return await document_of(model, copy, rule) if isinstance(copy, Copy) else None


async def document_of(model: "SqlReadModel", copy: Copy, rule: DigestRule) -> Document | None:
    """A copy as a reader has it: as the daemon kept it, or else read now; None without a text."""
    kept = {} if copy.version is None else await model.documents([copy.version])
    for document in kept.values():
        return document
    return read_document(copy.body, copy.content_type, copy.url, rule)


def compared(copy: Copy, config_file: Path | None, database: str | None = None) -> tuple[DigestRule, PageText | None]:
    """The rule for a page, and the text of its copy that is read for it; None where the bytes are compared."""
    rule = rule_of(copy.url, config_file, database)
    return rule, compared_text(copy.body, copy.content_type, rule)


def compared_figures(
    copy: Copy | Gone | None, config_file: Path | None, database: str | None = None
) -> dict[str, Any] | None:
    """Returns what is compared and what is left out, in figures; None where no copy is kept."""
    if not isinstance(copy, Copy):
        return None
    rule, text = compared(copy, config_file, database)
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
