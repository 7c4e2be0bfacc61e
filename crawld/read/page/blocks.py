"""The parts of a page that an operator can choose, each with a CSS selector that finds it again.

This reads foreign bytes and may take long: it runs in a worker.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from crawld.model.page import PagePart
from crawld.read.page.markup import BLOCKS, PARTS, UNSEEN, WIDE, is_html, page_tree, visible_blocks
from crawld.read.page.rules import DigestRule

MAX_PARTS = 400
"""Parts that are shown."""
MAX_TEXT = 200
"""Characters of a part that are shown."""
MAX_DEPTH = 12
"""Elements that a selector names at the most: a longer one would break with every redesign."""
_NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]{0,60}")
_GENERATED = re.compile(r"[0-9]{4}|[0-9a-f]{8}")
"""In a name that was made by a program and is another one tomorrow."""
_PLAIN_BLOCKS = frozenset(BLOCKS) - {"body", "br", "hr"}
_WHOLE = frozenset(name for name in PARTS if name.isalnum()) | {"ul", "ol", "dl", "table", "form", "figure", "details"}
_LANDMARKS = frozenset({"main", "article", "aside", "nav", "header", "footer", "search"})
"""Elements that are known by their tag alone, where a page has one."""
_HIDDEN = frozenset(UNSEEN) | {"head", "title", "html", "body"}


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
        self._by_place = not WIDE(root)
        self._shown: set[Any] = set()

    def found(self) -> Iterator[PagePart]:
        """Parts from the top to the bottom: containers first, then what is in them."""
        count = 0
        for element in self._root.iter():
            if not isinstance(element.tag, str) or element.tag in _HIDDEN or _inside(element, UNSEEN):
                continue
            text = _text(element)
            if not text or not self._worth_showing(element, text):
                continue
            selector = self._selector(element)
            if selector is None:
                continue
            self._shown.add(element)
            depth = sum(1 for above in element.iterancestors() if above in self._shown)
            shown = " ".join(" ".join(element.itertext()).split())
            yield PagePart(selector, shown[:MAX_TEXT], depth, element in self._ignored)
            count += 1
            if count >= MAX_PARTS:
                return

    def _worth_showing(self, element: Any, text: str) -> bool:
        inner = [below for below in element.iterdescendants() if below.tag in _PLAIN_BLOCKS or below.tag in _WHOLE]
        if inner:  # a container: one that is named, and holds something that is compared
            named = element.tag in _WHOLE or bool(element.get("id") or element.get("class"))
            return named and any(_text(one) in self._compared for one in inner)
        if element.tag in _PLAIN_BLOCKS or element.tag in _WHOLE:
            return text in self._compared
        parent = element.getparent()
        whole = "" if parent is None else _text(parent)
        return bool(element.get("id") or element.get("class")) and whole != text and whole in self._compared

    def _selector(self, element: Any) -> str | None:
        """The shortest selector that finds this element alone, by names where it has some, else by its place."""
        steps: list[str] = []
        here = element
        while here is not None and here.tag not in {"body", "html"} and len(steps) < MAX_DEPTH:
            if (name := here.get("id")) and self._ids[name] == 1 and _usable(name):
                return " > ".join([f"#{name}", *reversed(steps)])
            if (kind := _kind(here)) and self._kinds[kind] == 1 and ("." in kind or here.tag in _LANDMARKS):
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


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def _kind(element: Any) -> str:
    """The tag with those of its classes that look as if they stayed."""
    classes = [name for name in (element.get("class") or "").split() if _usable(name)]
    return ".".join([str(element.tag), *classes[:3]])


def _usable(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _GENERATED.search(name) is None


def _inside(element: Any, tags: tuple[str, ...]) -> bool:
    return any(above.tag in tags for above in element.iterancestors())
