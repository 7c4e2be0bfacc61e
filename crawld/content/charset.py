"""Bytes to text as a browser would: charset declared, sniffed, or replaced; never an exception."""

import codecs
import re

from crawld.content.headers import charset

_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:+-]{1,40})", re.IGNORECASE)
_PRESCAN = 4096
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Declared name (as Python spells it) -> what such pages really hold, as the web's own label table has it.
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
# Python has codecs that are no charsets of the web (punycode, unicode_escape, …), some of them very slow.
_WEB = re.compile(
    r"utf-(8|16|16-le|16-be)|cp(125[0-8]|866|874|932|949)|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|"
    r"gb18030|big5hkscs|euc_jp|iso2022_jp"
)


def known(label: str | None) -> str | None:
    """Python's name for a charset label of the web; None where it is not one."""
    if not label:
        return None
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    return name if _WEB.fullmatch(name) else None


def encoding_of(body: bytes, content_type: str | None) -> str:
    """The charset of a body: its byte order mark, the header, a meta element, or a guess between UTF-8 and Latin."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    declared = known(charset(content_type))
    if declared is None:
        match = _META.search(body, 0, _PRESCAN)
        declared = known(match[1].decode("ascii")) if match else None
        if declared is not None and declared.startswith("utf-16"):
            declared = "utf-8"  # a meta element that could be read as ASCII is not UTF-16
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
