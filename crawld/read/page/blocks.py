"""The parts of a page that an operator can choose, each with a CSS selector that finds it again.

This reads foreign bytes and may take long: it runs in a worker.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from typing import Any

from crawld.model.crawl import BlockEdit, Edit, Words
from crawld.model.page import PagePart
from crawld.read.charset import decode
from crawld.read.headers import media_type
from crawld.read.page.markup import PATTERNS, WORDS, is_html, page_tree, visible_blocks
from crawld.read.page.reader import text_of
from crawld.read.page.rules import DigestRule


@dataclass(frozen=True)
class BlocksLimits:
    """Numbers that bound and tune this module."""

    alike: float = 0.3
    """Share of words that two blocks have in common from which on one is an edit of the other."""
    max_words: int = 5_000
    """Of a block that is compared word by word; a longer one is shown whole, before and after."""
    max_parts: int = 400
    """Parts that are shown."""
    max_text: int = 200
    """Characters of a part that are shown."""
    max_depth: int = 12
    """Elements that a selector names at the most: a longer one would break with every redesign."""


LIMITS = BlocksLimits()


def text_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The blocks that the rule compares, or the lines of a text that is no page; None where there is no text."""
    blocks = visible_blocks(body, content_type, rule) if is_html(body, content_type) and rule.mode != "raw" else None
    if blocks is not None:
        return blocks
    kind = media_type(content_type) or ""
    if b"\0" in body or not (kind.startswith("text/") or kind.endswith(("json", "xml", "javascript"))):
        return None
    return decode(body, content_type).splitlines()


def difference(
    before: tuple[bytes, str | None], after: tuple[bytes, str | None], rule: DigestRule
) -> tuple[BlockEdit, ...] | None:
    """Edits from the first version to the second, each given as body and type; None where either has no text."""
    old, new = text_blocks(*before, rule), text_blocks(*after, rule)
    return None if old is None or new is None else tuple(_compare(old, new))


def unified(edits: Sequence[BlockEdit], names: tuple[str, str]) -> str:
    """Writes the edits as a unified diff of lines."""
    before, after = (_lines(edits, without) for without in (Edit.ADDED, Edit.REMOVED))
    return "".join(f"{line}\n" for line in unified_diff(before, after, *names, lineterm=""))


def _lines(edits: Sequence[BlockEdit], without: Edit) -> list[str]:
    """The lines of one side: all words but those that only the other side has."""
    here = (edit for edit in edits if edit.edit is not without)
    blocks = ("".join(part.text for part in edit.words if part.edit is not without) for edit in here)
    return [line for block in blocks for line in block.splitlines() or [""]]


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
    if max(len(one), len(other)) > 6 * LIMITS.max_words:
        return False
    words, others = set(re.findall(r"\s+|\w+|[^\w\s]", one)), set(re.findall(r"\s+|\w+|[^\w\s]", other))
    return len(words & others) >= LIMITS.alike * max(len(words | others), 1)


def _by_words(old: str, new: str) -> Iterator[Words]:
    before, after = re.findall(r"\s+|\w+|[^\w\s]", old), re.findall(r"\s+|\w+|[^\w\s]", new)
    if max(len(before), len(after)) > LIMITS.max_words:
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


class _Tags:
    """Elements by the part that they play in a page."""

    plain_blocks = frozenset(WORDS.blocks) - {"body", "br", "hr"}
    whole = frozenset(filter(str.isalnum, WORDS.parts)) | {"ul", "ol", "dl", "table", "form", "figure", "details"}
    hidden = frozenset(WORDS.unseen) | {"head", "title", "html", "body"}


def page_parts(body: bytes, content_type: str | None, rule: DigestRule) -> list[PagePart]:
    """The parts of a page that hold text which is compared by the rule, in their order; none where bytes are compared.

    Parts that the rule leaves out are among them, marked as ignored.
    """
    if rule.mode == "raw" or not is_html(body, content_type):
        return []
    root = page_tree(body, content_type)
    if root is None:
        return []
    plain = DigestRule(rule.pattern, rule.mode, rule.only, (), rule.ignore_text, rule.min_change)
    compared = set(visible_blocks(body, content_type, plain) or ())
    ignored = {below for one in rule._selectors for found in one.find(root) for below in found.iter()}
    return list(_Parts(root, compared, ignored).found())


class _Parts:
    """The elements of a page that can be told apart by name or place."""

    def __init__(self, root: Any, compared: set[str], ignored: set[Any]) -> None:
        self._root, self._compared, self._ignored = root, compared, ignored
        elements = [element for element in root.iter() if isinstance(element.tag, str)]
        self._ids = Counter(element.get("id") for element in elements)
        self._kinds = Counter(map(_kind, elements))
        self._by_place = not PATTERNS.wide(root)
        self._shown: set[Any] = set()

    def found(self) -> Iterator[PagePart]:
        """Parts from the top to the bottom: containers first, then what is in them."""
        count = 0
        for element in self._root.iter():
            if (
                not isinstance(element.tag, str)
                or element.tag in _Tags.hidden
                or (any(above.tag in WORDS.unseen for above in element.iterancestors()))
            ):
                continue
            text = text_of(element)
            if not text or not self._worth_showing(element, text):
                continue
            selector = self._selector(element)
            if selector is None:
                continue
            self._shown.add(element)
            depth = sum(1 for above in element.iterancestors() if above in self._shown)
            shown = " ".join(" ".join(element.itertext()).split())
            yield PagePart(selector, shown[: LIMITS.max_text], depth, element in self._ignored)
            count += 1
            if count >= LIMITS.max_parts:
                return

    def _worth_showing(self, element: Any, text: str) -> bool:
        inner = [
            below for below in element.iterdescendants() if below.tag in _Tags.plain_blocks or below.tag in _Tags.whole
        ]
        if inner:  # a container: one that is named, and holds something that is compared
            named = element.tag in _Tags.whole or bool(element.get("id") or element.get("class"))
            return named and any(text_of(one) in self._compared for one in inner)
        if element.tag in _Tags.plain_blocks or element.tag in _Tags.whole:
            return text in self._compared
        parent = element.getparent()
        whole = "" if parent is None else text_of(parent)
        return bool(element.get("id") or element.get("class")) and whole != text and whole in self._compared

    def _selector(self, element: Any) -> str | None:
        """The shortest selector that finds this element alone, by names where it has some, else by its place."""
        steps: list[str] = []
        here = element
        while here is not None and here.tag not in {"body", "html"} and len(steps) < LIMITS.max_depth:
            if (name := here.get("id")) and self._ids[name] == 1 and _usable(name):
                return " > ".join([f"#{name}", *reversed(steps)])
            if (
                (kind := _kind(here))
                and self._kinds[kind] == 1
                and ("." in kind or here.tag in {"main", "article", "aside", "nav", "header", "footer", "search"})
            ):
                return " > ".join([kind, *reversed(steps)])
            step = self._step(here)
            if step is None:
                return None
            steps.append(step)
            here = here.getparent()
        return " > ".join(["body", *reversed(steps)]) if here is not None and here.tag == "body" else None

    def _step(self, element: Any) -> str | None:
        parent = element.getparent()
        alike = [] if parent is None else [one for one in parent if one.tag == element.tag]
        if len(alike) <= 1:
            return str(element.tag)
        return f"{element.tag}:nth-of-type({alike.index(element) + 1})" if self._by_place else None


def _kind(element: Any) -> str:
    """The tag with those of its classes that look as if they stayed."""
    classes = [name for name in (element.get("class") or "").split() if _usable(name)]
    return ".".join([str(element.tag), *classes[:3]])


def _usable(name: str) -> bool:
    """Tells whether a name can stand in a selector, and was not made by a program that makes another one tomorrow."""
    whole = re.fullmatch(r"-?[A-Za-z_][A-Za-z0-9_-]{0,60}", name) is not None
    return whole and re.search(r"[0-9]{4}|[0-9a-f]{8}", name) is None
