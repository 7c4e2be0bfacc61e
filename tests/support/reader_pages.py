"""The labelled pages of `tests/data/reader_pages.txt`: each as bytes, with the text that a reader wants of it."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lxml import html

DATA = Path(__file__).parents[1] / "data" / "reader_pages.txt"
LINK_TEXTS = (
    "Home", "About us", "Contact", "Latest news", "Sport", "Culture", "Getting started", "Reference", "Downloads",
    "Support", "Community", "Sign in", "Archive", "Terms of use", "Careers", "Weather", "Videos", "Help", "Shop",
    "Press",
)  # fmt: skip
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class LabelledPage:
    """A page and the text that a reader wants of it."""

    name: str
    body: bytes
    wanted: str


@cache
def labelled_pages() -> tuple[LabelledPage, ...]:
    """Every page of the set."""
    _, _, rest = DATA.read_text("utf-8").partition("--- texts\n")
    texts, _, pages = rest.partition("--- pages\n")
    parts = re.split(r"^([a-z]+[0-9]*): ", texts, flags=re.MULTILINE)[1:]
    known = {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2])}
    found = []
    for part in pages.split("=== ")[1:]:
        name, _, source = part.partition("\n")
        found.append(_page(name, _filled(source, known)))
    return tuple(found)


def _filled(source: str, known: dict[str, str]) -> str:
    def text(match: re.Match[str]) -> str:
        name, _, count = match[1].partition(":")
        if not count:
            return _filled(known[name], known)
        links = [f'<a href="/{place}">{LINK_TEXTS[place % len(LINK_TEXTS)]}</a>' for place in range(int(count))]
        return "".join(f"<li>{link}</li>" for link in links) if name == "li" else " ".join(links)

    return re.sub(r"\{([a-z]+[0-9]*(?::[0-9]+)?)\}", text, source)


def _page(name: str, source: str) -> LabelledPage:
    root = html.document_fromstring(source)
    wanted = " ".join(_wanted(root))
    for element in root.iter():
        element.attrib.pop("keep", None)
        element.attrib.pop("drop", None)
    return LabelledPage(name, html.tostring(root, encoding="utf-8"), wanted)


def _wanted(root: Any) -> list[str]:
    texts = []
    for element in root.xpath("//*[@keep]"):
        texts += [str(text) for text in element.xpath(".//text()[not(ancestor::*[@drop])]")]
    return texts


def word_f1(found: str, wanted: str) -> float:
    """The harmonic mean of precision and recall of words; letters of scripts without spaces count as words."""
    ours, theirs = _words(found), _words(wanted)
    both = sum((ours & theirs).values())
    return 2 * both / max(sum(ours.values()) + sum(theirs.values()), 1)


def _words(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for word in re.findall(r"\w+", text.lower()):
        found.update(word if _WIDE.search(word) else [word])
    return found
