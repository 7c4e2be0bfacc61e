"""Bytes to text as a browser would: encoding declared, sniffed, or guessed; never an exception.

Labels are those of the WHATWG Encoding Standard, for HTML and XML alike.
"""

import codecs
import re
from functools import lru_cache

import webencodings

from crawld.read.headers import charset

# What Python calls the standard's encodings, where it has another codec by that name or none.
_PYTHON_NAMES = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
    # Shown with fonts of the page's own, so the letters are unknown.
    "x-user-defined": "cp1252",
    # Browsers refuse to read these and show one replacement character. Read so, a page would never change.
    "replacement": "cp1252",
}


class _Declared:
    """Patterns of what declares an encoding."""

    space = rb"[\t\n\f\r ]"
    comment_end = re.compile(rb"--!?>")
    tag = re.compile(rb"</?([A-Za-z][^\t\n\f\r />]*)")
    attribute = re.compile(
        rb"[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r /=>]*)"
        rb"(?:%(s)s*=%(s)s*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r >\"'][^\t\n\f\r >]*)))?" % {b"s": space}
    )
    content = re.compile(
        rb"charset%(s)s*=%(s)s*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"']+))" % {b"s": space}, re.IGNORECASE
    )
    xml = re.compile(rb"<\?xml%(s)s[^>]{0,200}?encoding%(s)s*=%(s)s*(?:\"([^\"<>]*)\"|'([^'<>]*)')" % {b"s": space})


@lru_cache(256)
def known(label: str | None) -> str | None:
    """Python's name of the encoding that a label of the web stands for; None where it is not one."""
    encoding = webencodings.lookup(label) if label and label.isascii() else None
    if encoding is None:
        return None
    return codecs.lookup(_PYTHON_NAMES.get(encoding.name, encoding.name)).name


def encoding_of(body: bytes, content_type: str | None) -> str:
    """The encoding of a page: its byte order mark, the header, what the page declares, or UTF-8 if the bytes fit."""
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if body.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    # The standard scans 1024 bytes and changes the encoding when the parser meets a later meta element; one longer scan
    # comes to the same without parsing twice.
    head = body[:4096]
    declared = known(charset(content_type)) or _declared_in_meta(head) or declared_in_xml(head)
    if declared is not None:
        return declared
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def decode(body: bytes, content_type: str | None) -> str:
    """The text of a body, without its byte order mark; what cannot be read is replaced."""
    return body.decode(encoding_of(body, content_type), "replace").removeprefix("\ufeff")


def declared_in_xml(head: bytes) -> str | None:
    """The encoding that an XML declaration at the beginning names, or that its first bytes show; None without one."""
    if head.startswith(b"<\0?\0x\0"):
        return "utf-16-le"
    if head.startswith(b"\0<\0?\0x"):
        return "utf-16-be"
    found = _Declared.xml.match(head.lstrip(b"\t\n\f\r \xef\xbb\xbf"))
    return _read_as_ascii(found[1] or found[2] or b"") if found else None


def _read_as_ascii(label: bytes) -> str | None:
    """The encoding of a label that could be read as ASCII: it is not UTF-16, whatever it says."""
    name = known(label.decode("ascii", "replace"))
    return "utf-8" if name is not None and name.startswith("utf-16") else name


def _declared_in_meta(head: bytes) -> str | None:
    """The encoding a meta element names, found as the HTML standard does before it parses: comments are skipped."""
    at = 0
    while (at := head.find(b"<", at)) >= 0:
        if head.startswith(b"<!--", at):
            end = _Declared.comment_end.search(head, at + 2)  # `<!-->` is a whole comment
            at = end.end() if end else len(head)
        elif tag := _Declared.tag.match(head, at):
            attributes, at = _attributes(head, tag.end())
            if tag[0].lower() == b"<meta" and (found := _named_by(attributes)):
                return found
        elif head[at + 1 : at + 2] in {b"!", b"/", b"?"}:
            end_of_tag = head.find(b">", at)
            at = end_of_tag + 1 if end_of_tag >= 0 else len(head)
        else:
            at += 1
    return None


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes of the tag whose name ends at `at`, the first of each name, and where the tag ends."""
    found: dict[bytes, bytes] = {}
    while match := _Declared.attribute.match(head, at):
        at = match.end()
        found.setdefault(match[1].lower(), match[2] or match[3] or match[4] or b"")
    return found, at


def _named_by(meta: dict[bytes, bytes]) -> str | None:
    """Encoding that a meta element declares: by `charset`, or by `content` in place of a Content-Type header."""
    if b"charset" in meta:
        return _read_as_ascii(meta[b"charset"])
    if meta.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    content = _Declared.content.search(meta.get(b"content", b""))
    return _read_as_ascii(content[1] or content[2] or content[3]) if content else None
