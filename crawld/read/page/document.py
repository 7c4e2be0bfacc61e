"""A page as a document for readers and programs: its text, and the same as Markdown.

Markdown begins with the page's title, address and language as YAML between two lines of `---`. Headings end with
`{#anchor}` where the page gives them one, so that a part of the page can be cited by its address. Links and images have
absolute addresses; links that run programs are texts. The same bytes, address and rule give the same document.

This reads foreign bytes and may take long: it runs in a worker.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Any
from urllib.parse import urldefrag

from html_to_markdown import ConversionError, ConversionOptions, convert
from lxml import etree

from crawld.model.page import Document
from crawld.read.charset import decode
from crawld.read.headers import media_type
from crawld.read.listing import locate
from crawld.read.page.digest import block_number, compared_text
from crawld.read.page.head import read_head, without_programs
from crawld.read.page.markup import WORDS, is_html, page_title
from crawld.read.page.reader import blocks_of, is_shared_by, main_tree, text_of
from crawld.read.page.rules import DEFAULT_RULE, DigestRule


@dataclass(frozen=True)
class DocumentLimits:
    """Numbers that bound and tune this module."""

    max_depth: int = 400
    """Levels of elements that are converted: beyond a thousand the library returns nothing, and says nothing."""
    max_cells: int = 20_000
    """Cells of tables that are laid out: their width is that of the widest."""
    min_kept: float = 0.5
    """Share of a text's words that its Markdown has at the least; where it has fewer, the text stands in for it."""


LIMITS = DocumentLimits()


class _Markup:
    """Options of the Markdown library, and patterns for what it leaves to do."""

    options = ConversionOptions(
        escape_asterisks=True,
        extract_metadata=False,
        bullets="-",
        autolinks=False,
        br_in_tables=True,
        compact_tables=True,
    )
    code_class = re.compile(
        r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:\s*|sourceCode\s+|hljs\s+)"
        r"([A-Za-z][A-Za-z0-9+#_-]{0,30})"
    )
    no_language = frozenset({"default", "none", "text", "plain", "plaintext", "notranslate", "language", "highlight"})
    special = re.compile(r"<(?=[A-Za-z/!?])|\](?=\()|`|(?<!\w)_(?=\S)|(?<=\S)_(?!\w)")
    """Characters that Markdown would read as markup in a text; the library escapes the rest."""
    escaped = "\ufdd0"  # stands for a backslash until the library is done, which escapes those; no text contains it
    line_start = re.compile(r"(?m)^(\s*)([#>+-]|\d{1,9}[.)])(?=\s|$)")


def read_document(
    body: bytes, content_type: str | None, url: str, rule: DigestRule = DEFAULT_RULE, shared: Sequence[int] = ()
) -> Document | None:
    """The document that a body is, fetched from `url`; None where it has no text.

    `shared` are the numbers of blocks that many pages of the host have (see `digest.block_number`).
    """
    if not is_html(body, content_type):
        return _plain_document(body, content_type, url, rule)
    found = _tree(body, content_type, rule, shared)
    blocks = blocks_of(found[1]) if found is not None else []
    head = read_head(body, url)
    canonical = head.canonical or url
    language = None if found is None else _language(found[0])
    if not blocks:
        found = None
        seen = compared_text(body, content_type, replace(DEFAULT_RULE, mode="text"))
        blocks = seen.blocks if seen is not None else _stripped(body, content_type)
    if not blocks:
        return None
    title = page_title(body, content_type)
    if title is None and found is not None and (heading := next(found[1].iter("h1", "h2"), None)) is not None:
        title = text_of(heading)[:300] or None
    text = "\n".join(blocks) + "\n"
    markdown = ""
    if found is not None:
        base = next((one.get("href") for one in found[0].iter("base") if one.get("href")), None)
        markdown = _markdown(found[1], url, url if base is None else locate(base, url) or url)
    if len(markdown.split()) < LIMITS.min_kept * len(text.split()):
        markdown = _paragraphs(blocks)
    return Document(text, _front_matter(title, canonical, language) + markdown, title, language, canonical)


def read_documents(copies: Sequence[tuple[bytes, str | None, str]], rule: DigestRule) -> list[Document | None]:
    """The documents of several copies (body, type, address) of pages of one rule."""
    return [read_document(*copy, rule) for copy in copies]


def _tree(body: bytes, content_type: str | None, rule: DigestRule, shared: Sequence[int]) -> tuple[Any, Any] | None:
    """The parsed page and its main part, widened to all that is seen where next to nothing is in it."""
    if rule.mode == "raw":  # bytes are compared, which no reader reads
        rule = replace(DEFAULT_RULE, pattern=rule.pattern)
    found = main_tree(body, content_type, rule, is_shared_by(frozenset(shared), block_number))
    if found is None or rule.mode == "text" or len(text_of(found[1])) >= 25:
        return found
    wide = main_tree(body, content_type, replace(rule, mode="text"))
    return wide if wide is not None and len(text_of(wide[1])) > 50 * len(text_of(found[1])) else found


def _language(root: Any) -> str | None:
    given = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or ""
    if not given:
        metas = (one for one in root.iter("meta") if (one.get("http-equiv") or "").lower() == "content-language")
        given = next((one.get("content") or "" for one in metas), "")
    found = re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}", given.strip())
    return found[0] if found else None


def _front_matter(title: str | None, url: str, language: str | None) -> str:
    """Title, address and language; a JSON string is one of YAML, too."""
    lines = {"title": title, "url": url, "language": language}
    told = "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in lines.items() if value)
    return f"---\n{told}---\n\n"


def _stripped(body: bytes, content_type: str | None) -> list[str]:
    """Strips the tags of a page that the parser cannot read."""
    text = decode(without_programs(body), content_type)
    lines = (" ".join(unescape(line).split()) for line in re.sub(r"<[^<>]{0,20000}>", "\n", text).splitlines())
    return [line for line in lines if line]


# -- the tree, made ready for the library ----------------------------------------------------------------------------


def _markdown(content: Any, url: str, base: str) -> str:
    """The Markdown of a tree, which is changed; nothing where it is nested too deeply."""
    for element in list(content.iter()):
        if element.getparent() is None and element is not content:
            continue
        tag = element.tag
        if not isinstance(tag, str):
            continue
        if tag == "pre":
            _make_code(element)
        elif tag == "a":
            _make_link(element, url, base)
        elif tag == "img":
            _make_image(element, base)
        elif tag in WORDS.headings:
            _add_anchor(element)
    if _depth(content) > LIMITS.max_depth or sum(1 for _ in content.iter("td", "th")) > LIMITS.max_cells:
        return ""
    _escape(content)
    source = etree.tostring(content, encoding="unicode", method="html", with_tail=False)
    try:
        written = convert(source, _Markup.options).content or ""
    except (ConversionError, ValueError, RuntimeError):
        return ""
    return written.replace(_Markup.escaped, "\\").strip() + "\n"


def _make_code(element: Any) -> None:
    """Make code plain text in one element, with its language in the class that the library looks for."""
    language = _code_language(element)
    text = "".join(_lines(element)).strip("\n").expandtabs(4)
    table = next((above for above in element.iterancestors("table")), None)
    element.clear(keep_tail=True)
    code = etree.SubElement(element, "code")
    code.text = text
    if language:
        code.set("class", f"language-{language}")
    # A table of line numbers and code is code.
    if table is not None and table.getparent() is not None and len(text) > 0.8 * len("".join(table.itertext()).strip()):
        element.tail = table.tail
        table.getparent().replace(table, element)


def _lines(element: Any) -> Iterator[str]:
    """The text of code; elements that are lines of their own end one."""
    last = ""
    for event, below in etree.iterwalk(element, events=("start", "end")):
        if not isinstance(below.tag, str):
            texts = [below.tail] if event == "end" else []
        elif event == "start":
            texts = [below.text]
        else:
            ends = below.tag == "br" or (below.tag in {"div", "li", "p", "tr"} and not last.endswith("\n"))
            texts = ["\n" if ends else None, below.tail if below is not element else None]
        for text in texts:
            if text:
                last = text
                yield text


def _code_language(element: Any) -> str | None:
    near = [element, *list(element.iter("code"))[:1], *list(element.iterancestors())[:3]]
    for one in near:
        given = one.get("data-lang") or one.get("data-language") or ""
        found = _Markup.code_class.search(one.get("class") or "")
        language = (given or (found[1] if found else "")).lower().removeprefix("source-")
        if language and language not in _Markup.no_language and re.fullmatch(r"[a-z][a-z0-9+#_-]{0,30}", language):
            return language
    return None


def _make_link(element: Any, url: str, base: str) -> None:
    """Give a link its absolute address; one that leads nowhere, or runs a program, becomes its text."""
    target = (element.get("href") or "").strip()
    absolute = _absolute(target, url, base)
    if absolute is None or not (text_of(element) or next(element.iter("img"), None) is not None):
        element.tag = "span"
        absolute = None
    title = element.get("title")
    element.attrib.clear()
    if absolute is not None:
        element.set("href", absolute)
        if title and len(title) < 300:
            element.set("title", " ".join(title.split()))


def _absolute(target: str, url: str, base: str) -> str | None:
    if target.startswith("#"):
        return f"{urldefrag(url)[0]}{target}" if len(target) > 1 else None
    lower = target.lower()
    if lower.startswith(("mailto:", "tel:")):
        return target if not any(character.isspace() for character in target) else None
    place, _, fragment = target.partition("#")
    found = locate(place, base) if place else None
    if found is None or not found.lower().startswith(("http://", "https://", "mailto:", "tel:")):
        return None
    return f"{found}#{fragment}" if fragment and not any(map(str.isspace, fragment)) else found


def _make_image(element: Any, base: str) -> None:
    """Give an image its absolute address, also where a script loads it later; without one it is its description."""
    sources = (element.get(name) for name in ("data-src", "data-original", "data-lazy-src", "src"))
    found = next((place for one in sources if one and (place := _absolute(one.strip(), base, base))), None)
    about = " ".join((element.get("alt") or "").split())[:300]
    element.attrib.clear()
    if found is None:
        element.tag = "span"
        element.text = about
    else:
        element.set("src", found)
        element.set("alt", about)


def _add_anchor(element: Any) -> None:
    """Write a heading's anchor behind it."""
    names = (one.get("id") or (one.get("name") if one.tag == "a" else None) for one in element.iter())
    anchor = next((name for name in names if name), None)
    if anchor is None:
        above = element.getparent()
        first = above is not None and next(iter(above), None) is element
        anchor = above.get("id") if first and above.tag in {"section", "div", "article"} else None
    if anchor and re.fullmatch(r"[^\s{}<>\"]{1,200}", anchor) and text_of(element):
        told = f" {{#{anchor}}}"
        if len(element):
            element[-1].tail = f"{(element[-1].tail or '').rstrip()}{told}"
        else:
            element.text = f"{(element.text or '').rstrip()}{told}"


def _depth(content: Any) -> int:
    deepest = here = 0
    for event, _ in etree.iterwalk(content, events=("start", "end")):
        here += 1 if event == "start" else -1
        deepest = max(deepest, here)
    return deepest


def _escape(content: Any) -> None:
    """Escape in texts, but not in code, what Markdown would take for markup."""
    code = {below for one in content.iter("code", "pre", "kbd", "samp", "tt") for below in one.iter()}
    for element in content.iter():
        if not isinstance(element.tag, str):
            continue
        if element.text and element not in code:
            element.text = _Markup.special.sub(f"{_Markup.escaped}\\g<0>", element.text)
        if element.tail and element is not content and element.getparent() not in code:
            element.tail = _Markup.special.sub(f"{_Markup.escaped}\\g<0>", element.tail)


# -- what is no page ---------------------------------------------------------------------------------------------------


def _plain_document(body: bytes, content_type: str | None, url: str, rule: DigestRule) -> Document | None:
    """A text, a data file or a PDF: its blocks as they are compared, in a block of code where it is no prose."""
    wanted = rule if rule.mode != "raw" else replace(DEFAULT_RULE, pattern=rule.pattern)
    found = compared_text(body, content_type, wanted)
    if found is None or not found.blocks:
        return None
    kind = media_type(content_type) or ""
    text = "\n".join(found.blocks) + "\n"
    if kind in {"text/markdown", "text/x-markdown"}:
        written = decode(body, content_type).strip() + "\n"
        return Document(text, _front_matter(None, url, None) + written, None, None, url)
    if kind == "application/pdf" or body.startswith(b"%PDF-"):
        return Document(text, _front_matter(None, url, None) + _paragraphs(found.blocks), None, None, url)
    language = next((name for name in ("json", "xml", "yaml", "toml", "csv") if kind.endswith(name)), "")
    written = decode(body, content_type).rstrip()
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", written)), 3)
    return Document(text, f"{_front_matter(None, url, None)}{fence}{language}\n{written}\n{fence}\n", None, None, url)


def _paragraphs(blocks: Sequence[str]) -> str:
    """Blocks of text as paragraphs, with what would be markup escaped."""
    escaped = (_Markup.special.sub(r"\\\g<0>", block.replace("\\", "\\\\").replace("*", r"\*")) for block in blocks)
    return "\n\n".join(_Markup.line_start.sub(r"\1\\\2", block) for block in escaped) + "\n"
