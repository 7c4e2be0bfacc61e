"""Documents that are no HTML to blocks of text: JSON, XML and feeds, plain text and Markdown, PDF.

Each is bounded in time and memory; what cannot be read within its bounds is compared by its bytes.
"""

import importlib
import importlib.util
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from crawld.model.errors import InputError
from crawld.read.charset import decode
from crawld.read.headers import media_type
from crawld.read.listing import load_json
from crawld.read.page.cost import PDF_MARK, is_readable
from crawld.read.page.rules import DigestRule, erase


@dataclass(frozen=True)
class PageDocumentsLimits:
    """Numbers that bound and tune this module."""

    max_pages: int = 100
    max_characters: int = 2_000_000
    max_bytes: int = 8_000_000
    """Larger documents are compared by their bytes."""
    max_values: int = 100_000
    """Values of a JSON document."""


LIMITS = PageDocumentsLimits()


# The extra `pdf` may not be installed.
pypdf = importlib.import_module("pypdf") if importlib.util.find_spec("pypdf") is not None else None

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # says what is wrong with foreign files, line by line


def pdf_blocks(body: bytes) -> list[str] | None:
    """The lines of a PDF; None where it has no text that can be read within the bounds."""
    if pypdf is None:
        return None
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        if len(reader.pages) > LIMITS.max_pages:
            return None
        blocks: list[str] = []
        characters = 0
        for page in reader.pages:
            text = page.extract_text()
            characters += len(text)
            if characters > LIMITS.max_characters:
                return None
            blocks += (" ".join(line.split()) for line in text.splitlines() if line.strip())
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a broken or hostile file fails in any of the library's parts; its bytes remain
        return None
    return blocks or None


def document_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The blocks of a document, without what the rule's texts to ignore find; None where its bytes are compared."""
    blocks = _blocks(body, content_type)
    if blocks is None or not rule._texts:
        return blocks
    return [kept for block in blocks if (kept := erase(rule._texts, block).rstrip())]


def is_pdf(body: bytes, content_type: str | None) -> bool:
    """Tells whether a body is a PDF, as declared or by its beginning."""
    return body.startswith(PDF_MARK) or media_type(content_type) == "application/pdf"


def _blocks(body: bytes, content_type: str | None) -> list[str] | None:
    if len(body) > LIMITS.max_bytes:
        return None
    if is_pdf(body, content_type):
        return pdf_blocks(body)
    kind = media_type(content_type) or ""
    if kind in {f"application/{name}" for name in ("x-ndjson", "ndjson", "jsonl", "x-jsonlines", "json-seq")}:
        return _json_line_blocks(decode(body, content_type))
    if kind.endswith("json"):
        return _json_blocks(decode(body, content_type))
    if kind.endswith("xml") and (blocks := _xml_blocks(body)) is not None:
        return blocks
    if kind in {"text/css", "text/javascript", "text/ecmascript"}:  # programs, which no reader reads
        return None
    data = {"application/yaml", "application/x-yaml", "application/toml"}
    if not (kind.startswith("text/") or kind in data or kind.endswith("xml")):
        return None
    if b"\0" in body[:1_000] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    text = decode(body, content_type)
    if text.lstrip().startswith(("[", "{")) and (blocks := _json_blocks(text)) is not None:
        return blocks
    return [line.rstrip() for line in text.expandtabs(4).splitlines() if line.strip()]


def _json_blocks(text: str) -> list[str] | None:
    """One block for each value: its path without the positions in lists, and the value; the keys in one order.

    The keys of a path are words of their own, so that "views: 97" is a counter wherever it stands.
    """
    try:
        return list(_values(load_json(text.removeprefix("\ufeff"), LIMITS.max_values)))
    except InputError:
        return None


def _json_line_blocks(text: str) -> list[str] | None:
    """The blocks of a document on each line; None where one of them is none, or there are too many."""
    found: list[str] = []
    for line in text.splitlines():
        blocks = _json_blocks(line.strip("\x1e ")) if line.strip("\x1e ") else []
        if blocks is None or len(found) + len(blocks) > LIMITS.max_values:
            return None
        found += blocks
    return found


def _values(document: Any) -> Iterator[str]:
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(f"{path[-200:]} {key}" if path else key, value[key]) for key in sorted(value, reverse=True)]
        elif isinstance(value, list) and value:
            waiting += [(f"{path[-200:]}[]", one) for one in reversed(value)]
        else:
            yield f"{path}: {value if isinstance(value, str) else json.dumps(value)}"


def _xml_blocks(body: bytes) -> list[str] | None:
    """One block for each element that has text or attributes; None where the document cannot be read as XML.

    Spacing, comments, prefixes of namespaces and the order of attributes are nothing.
    """
    if b"<!ENTITY" in body or not is_readable(body, selected=False):
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None
    return list(_elements(root))


def _elements(root: Any) -> Iterator[str]:
    for event, element in etree.iterwalk(root, events=("start", "end")):
        text = element.text if event == "start" else element.tail
        words = " ".join(text.split()) if text else ""
        if event == "end":
            if words:
                yield words
            continue
        attributes = "".join(f" {_local(name)}={value!r}" for name, value in sorted(element.attrib.items()))
        if words or attributes:
            yield f"{_local(element.tag)}{attributes}: {words}"


def _local(name: Any) -> str:
    return name.rpartition("}")[2] if isinstance(name, str) else ""
