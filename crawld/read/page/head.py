"""The head of a page: feeds, its own address, where it sends readers on, and what it tells robots."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from crawld.read.listing import locate


@dataclass(frozen=True)
class HeadLimits:
    """Numbers that bound and tune this module."""

    looked_at: int = 2_000_000
    """Bytes of a page that are looked at, scripts and styles included;"""
    head_bytes: int = 65_536
    """and without these."""
    refresh_bytes: int = 16_384
    """Bytes of a page in which a refresh counts: a page that only sends on is short."""
    max_feeds: int = 20
    max_tags: int = 200
    max_robots: int = 50
    """Named meta elements whose words are kept, and"""
    max_directives: int = 500
    """characters of each."""
    short_delay: float = 5.0
    """Seconds up to which a refresh is a redirect; a page that is shown for longer is a page."""


LIMITS = HeadLimits()


RSL_TYPE = "application/rsl+xml"


class _HeadSyntax:
    """Patterns of what a head and a `Link` header say."""

    unread = re.compile(  # comments, scripts, styles, and what only browsers without scripts see; never goes back
        rb"<(?:!--(?:[^-]++|-(?!->))*+(?:-->)?+|(?:script|style)\b(?:[^<]++|<(?!/s(?:cript|tyle)\b))*+"
        rb"|noscript\b(?:[^<]++|<(?!/noscript\b))*+)",
        re.IGNORECASE,
    )
    tag = re.compile(r"<(link|meta|base)\b([^<>]{1,9000})>", re.IGNORECASE)
    body = re.compile(
        r"</head|<(?:body|frameset|main|article|section|div|p|h[1-6]|header|nav|ul|ol|table|form|span|a|img|pre)\b",
        re.IGNORECASE,
    )
    attribute = re.compile(r"(?<![a-z-])([a-z-]{1,20}+)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
    refresh = re.compile(
        r"\s*([0-9]{1,5})(?:\.[0-9.]*)?\s*(?:[;,]\s*|\s+)(?:url\s*=\s*)?([\"']?)(.*)", re.IGNORECASE | re.DOTALL
    )
    canonical_link = re.compile(r"<([^<>]{1,8000})>\s*;[^,<>]{0,200}\brel\s*=\s*\"?canonical\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Head:
    """Feeds, the canonical address and the directives for robots in the head of a page."""

    feeds: tuple[str, ...] = ()
    canonical: str | None = None
    robots: tuple[tuple[str, str], ...] = ()  # names of robots (`robots` is all), each with what it is told
    license: str | None = None  # the address of its licence in RSL


@dataclass(frozen=True, slots=True)
class Refresh:
    """A `<meta http-equiv=refresh>` that sends readers on after so many seconds."""

    seconds: float
    url: str


def read_head(body: bytes, url: str) -> Head:
    """Reads the head of the page found at `url`.

    The canonical address counts in the head alone: in the body any author of content may write one. A page
    that names several names none.
    """
    text = _text(body[: LIMITS.looked_at])
    base, feeds, canonical = url, dict[str, None](), set[str]()
    robots: list[tuple[str, str]] = []
    licensed: str | None = None
    head_ends = _head_end(text)
    for place, name, attributes in _tags(text):
        target = attributes.get("href", "")
        if name == "meta" and place < head_ends and len(robots) < LIMITS.max_robots and attributes.get("content"):
            robots.append(
                (attributes.get("name", "").strip().lower()[:64], attributes["content"][: LIMITS.max_directives])
            )
        if name == "base" and place < head_ends and base == url and target:
            base = locate(target, url) or url
        rel = attributes.get("rel", "").lower().split()
        if name != "link" or not target or (found := locate(target, base)) is None:
            continue
        if "canonical" in rel and place < head_ends:
            canonical.add(found)
        kind = attributes.get("type", "").partition(";")[0].strip().lower()
        if kind == RSL_TYPE and "license" in rel and place < head_ends:
            licensed = licensed or found
        if (
            kind in {"application/rss+xml", "application/atom+xml", "application/feed+json"}
            and "alternate" in rel
            and "/comments/" not in found
            and len(feeds) < LIMITS.max_feeds
        ):
            feeds[found] = None  # a feed of comments tells of those, not of the page
    named = tuple((name, told) for name, told in robots if name)
    return Head(tuple(feeds), canonical.pop() if len(canonical) == 1 else None, named, licensed)


def canonical_in_header(value: str | None, url: str) -> str | None:
    """The canonical address that a `Link` header names, None where it names none or several."""
    found = {locate(target, url) for target in _HeadSyntax.canonical_link.findall(value)} if value else set()
    return found.pop() if len(found) == 1 else None


def read_refresh(body: bytes, url: str) -> Refresh | None:
    """Returns the address to which a page redirects after a short delay; None where it stays or reloads itself."""
    begin = body[: LIMITS.refresh_bytes]
    if b"efresh" not in begin and b"EFRESH" not in begin:
        return None
    text = _text(begin)
    head_ends = _head_end(text)
    for place, name, attributes in _tags(text):
        if name != "meta" or place > head_ends or attributes.get("http-equiv", "").strip().lower() != "refresh":
            continue
        found = _HeadSyntax.refresh.match(attributes.get("content", ""))
        if found is None or float(found[1]) > LIMITS.short_delay:
            return None
        target = locate(found[3].partition(found[2])[0] if found[2] else found[3], url)
        return None if target is None or target == url else Refresh(float(found[1]), target)
    return None


def without_programs(body: bytes) -> bytes:
    """The beginning of a page without comments, scripts and styles."""
    return _HeadSyntax.unread.sub(b"", body[: LIMITS.looked_at])


def _text(body: bytes) -> str:
    """The beginning of a page without comments, scripts and styles."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = body.decode("utf-16", "replace").encode()
    return _HeadSyntax.unread.sub(b"", body)[: LIMITS.head_bytes].decode("utf-8", "replace")


def _head_end(text: str) -> int:
    found = _HeadSyntax.body.search(text)
    return len(text) if found is None else found.start()


def _tags(text: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """The first link, meta and base elements: where each is, its name and its attributes."""
    for count, tag in enumerate(_HeadSyntax.tag.finditer(text)):
        if count >= LIMITS.max_tags:
            return
        yield (
            tag.start(),
            tag[1].lower(),
            {name.lower(): unescape(a or b or c) for name, a, b, c in _HeadSyntax.attribute.findall(tag[2])},
        )
