"""The links of a page to others of its site, and the shapes of addresses that a site can make without end."""

import re
from collections import Counter
from dataclasses import dataclass

from lxml import etree

from crawld.model.url import identity
from crawld.read.charset import encoding_of
from crawld.read.listing import Addresses
from crawld.read.page.cost import is_readable
from crawld.read.page.markup import is_html


@dataclass(frozen=True)
class LinksLimits:
    """Numbers that bound and tune this module."""

    max_links: int = 2_000
    """Addresses that one page can name; those further down are left out."""
    max_path_parts: int = 20
    max_repeated: int = 3
    max_characters: int = 1_000
    """Beyond these an address is one that a broken relative link makes longer and longer."""


LIMITS = LinksLimits()


NOT_PAGES = frozenset(
    {
        "7z", "aac", "apk", "avi", "avif", "bin", "bmp", "bz2", "css", "csv", "dmg", "doc", "docx", "eot", "exe", "flv",
        "gif", "gz", "ico", "iso", "jar", "jpeg", "jpg", "js", "json", "m4a", "m4v", "mjs", "mkv", "mov", "mp3", "mp4",
        "mpeg", "msi", "odt", "ogg", "ogv", "otf", "pkg", "png", "ppt", "pptx", "rar", "rpm", "rss", "svg", "tar",
        "tgz", "tif", "tiff", "ttf", "wasm", "wav", "webm", "webmanifest", "webp", "wmv", "woff", "woff2", "xls",
        "xlsx", "xml", "xz", "zip", "zst",
    }
)  # fmt: skip
"""Endings of files that hold no page of text."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Targets of the links that may be followed, in their order, and how many were left out beyond the limit."""

    targets: tuple[str, ...] = ()
    left_out: int = 0


class _Collector:
    """Takes the tags of a page as the parser meets them: no tree is made, so depth costs nothing."""

    def __init__(self) -> None:
        self.base: str | None = None
        self.links: dict[str, None] = {}
        self.left_out = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        target = attributes.get("href")
        if target is None:
            return
        rel = attributes.get("rel", "").lower().split()
        if tag == "base":
            self.base = self.base or target
        elif (tag in {"a", "area"} or (tag == "link" and {"next", "prev"} & set(rel))) and "nofollow" not in rel:
            if len(self.links) < LIMITS.max_links * 2:
                self.links[target] = None
            else:
                self.left_out += target not in self.links

    def close(self) -> None:
        """The page ends."""


def read_links(body: bytes, url: str, content_type: str | None, scope: tuple[str, ...]) -> PageLinks:
    """The links of the page at `url` to addresses that begin with one of `scope`, as a list would spell them."""
    if not is_html(body, content_type):
        return PageLinks()
    data = body.decode(encoding_of(body, content_type), "replace").encode()
    if not is_readable(data, selected=False):
        return PageLinks()
    found = _Collector()
    parser = etree.HTMLParser(target=found, encoding="utf-8", huge_tree=True)
    parser.feed(data)
    parser.close()
    addresses = Addresses(url)
    base = url if found.base is None else addresses.locate(found.base) or url
    targets: dict[str, None] = {}
    left_out = found.left_out
    for link in found.links:
        target = addresses.locate(link, base)
        if target is None or not identity(target).startswith(scope) or not is_followed(target):
            continue
        if len(targets) < LIMITS.max_links:
            targets[target] = None
        else:
            left_out += target not in targets
    return PageLinks(tuple(targets), left_out)


def is_followed(url: str) -> bool:
    """Tells whether an address may be a page: no file of another kind, and none that a broken link made endless."""
    path = url.partition("?")[0]
    parts = [part for part in path.split("/")[3:] if part]
    ending = parts[-1].rpartition(".")[2].lower() if parts and "." in parts[-1] else ""
    repeated = Counter(part for part in parts if not part.isdigit())
    endless = len(parts) > LIMITS.max_path_parts or max(repeated.values(), default=0) >= LIMITS.max_repeated
    return not endless and len(url) <= LIMITS.max_characters and ending not in NOT_PAGES


@dataclass(frozen=True, slots=True)
class UrlShape:
    """The common part of addresses that differ in numbers, codes and values alone."""

    path: str
    names: str  # of the query's parameters, in alphabetical order; empty where there is no query

    def __str__(self) -> str:
        return f"{self.path}?{self.names}" if self.names else self.path


def shape_of(url: str) -> UrlShape | None:
    """The shape of an address; None where nothing in it looks made by a program."""
    whole, _, query = url.partition("?")
    start = whole.index("/", len("https://"))
    origin, path = whole[:start], whole[start:]
    number, session = re.compile(r"[0-9]+"), re.compile(r";(\w{1,40})=[^/;]*")
    code = r"(?=[0-9a-f-]*[0-9])[0-9a-f]{8}[0-9a-f-]*|(?=[A-Za-z0-9_]*[0-9])[A-Za-z0-9_]{24,}"
    bare = session.sub("", path)
    template = origin + number.sub("#", re.sub(code, "*", bare, flags=re.IGNORECASE))
    names = {number.sub("#", part.partition("=")[0])[:40] for part in query.split("&")[:50] if part}
    names |= {f";{name}" for name in session.findall(path)}
    if not names and template == whole:
        return None
    return UrlShape(template, "&".join(sorted(names)))
