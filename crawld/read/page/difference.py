"""The difference between two versions of a page, by blocks and by the words in them.

These read foreign bytes and may take long: they run in a worker.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff

from crawld.model.difference import BlockEdit, Edit, Words
from crawld.read.charset import decode
from crawld.read.page.markup import is_html, visible_blocks
from crawld.read.page.rules import DigestRule

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
ALIKE = 0.3
"""Share of words that two blocks have in common from which on one is an edit of the other."""
MOST_WORDS = 5_000
"""Of a block that is compared word by word; a longer one is shown whole, before and after."""


def text_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The blocks that the rule compares, or the lines of a text that is no page; None where there is no text."""
    blocks = visible_blocks(body, content_type, rule) if is_html(body, content_type) and rule.mode != "raw" else None
    if blocks is not None:
        return blocks
    text = _plain_text(body, content_type)
    return None if text is None else text.splitlines()


def difference(
    before: tuple[bytes, str | None], after: tuple[bytes, str | None], rule: DigestRule
) -> tuple[BlockEdit, ...] | None:
    """What the second version did to the first, each given as its body and type; None where either has no text."""
    old, new = text_blocks(*before, rule), text_blocks(*after, rule)
    return None if old is None or new is None else tuple(_compare(old, new))


def unified(edits: Sequence[BlockEdit], names: tuple[str, str]) -> str:
    """The same as a unified diff of lines."""
    before, after = (_lines(edits, without) for without in (Edit.ADDED, Edit.REMOVED))
    return "".join(f"{line}\n" for line in unified_diff(before, after, *names, lineterm=""))


def _lines(edits: Sequence[BlockEdit], without: Edit) -> list[str]:
    """The lines of one side: all words but those that only the other side has."""
    here = (edit for edit in edits if edit.edit is not without)
    blocks = ("".join(part.text for part in edit.words if part.edit is not without) for edit in here)
    return [line for block in blocks for line in block.splitlines() or [""]]


def _plain_text(body: bytes, content_type: str | None) -> str | None:
    kind = (content_type or "").partition(";")[0].strip().lower()
    if b"\0" in body or not (kind.startswith("text/") or kind.endswith(("json", "xml", "javascript"))):
        return None
    return decode(body, content_type)


def _compare(old: list[str], new: list[str]) -> Iterator[BlockEdit]:
    for step, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if step == "equal":
            yield from (_whole(Edit.SAME, block) for block in new[begin:end])
        else:
            yield from _replaced(old[first:last], new[begin:end])


def _replaced(old: list[str], new: list[str]) -> Iterator[BlockEdit]:
    """Blocks in the place of others: those that are alike are paired in order, the rest came or went."""
    at = 0
    for block in old:
        pair = next((i for i in range(at, len(new)) if _alike(block, new[i])), None)
        if pair is None:
            yield _whole(Edit.REMOVED, block)
            continue
        yield from (_whole(Edit.ADDED, other) for other in new[at:pair])
        yield BlockEdit(Edit.CHANGED, tuple(_by_words(block, new[pair])))
        at = pair + 1
    yield from (_whole(Edit.ADDED, other) for other in new[at:])


def _alike(one: str, other: str) -> bool:
    if max(len(one), len(other)) > 6 * MOST_WORDS:
        return False
    words, others = set(WORDS.findall(one)), set(WORDS.findall(other))
    return len(words & others) >= ALIKE * max(len(words | others), 1)


def _by_words(old: str, new: str) -> Iterator[Words]:
    before, after = WORDS.findall(old), WORDS.findall(new)
    if max(len(before), len(after)) > MOST_WORDS:
        yield Words(Edit.REMOVED, old)
        yield Words(Edit.ADDED, new)
        return
    for step, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if step == "equal":
            yield Words(Edit.SAME, "".join(after[begin:end]))
            continue
        if last > first:
            yield Words(Edit.REMOVED, "".join(before[first:last]))
        if end > begin:
            yield Words(Edit.ADDED, "".join(after[begin:end]))


def _whole(edit: Edit, block: str) -> BlockEdit:
    return BlockEdit(edit, (Words(edit, block),))
