"""The head of a page: feeds, its own address, where it sends readers on, and what it and headers tell robots."""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from itertools import islice

from crawld.model.usage import LIMITS as USAGE_LIMITS
from crawld.model.usage import SaidIn, Statement
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
    base, feeds, canonical = url, dict[str, None](), set[str]()
    robots: list[tuple[str, str]] = []
    licensed: str | None = None
    for name, attributes, in_head in _tags(body[: LIMITS.looked_at]):
        target = attributes.get("href", "")
        if name == "meta" and in_head and len(robots) < LIMITS.max_robots and attributes.get("content"):
            if robot := attributes.get("name", "").strip().lower()[:64]:
                robots.append((robot, attributes["content"][: LIMITS.max_directives]))
        elif name == "base" and in_head and base == url and target:
            base = locate(target, url) or url
        rel = attributes.get("rel", "").lower().split()
        if name != "link" or not target or (found := locate(target, base)) is None:
            continue
        if "canonical" in rel and in_head:
            canonical.add(found)
        kind = attributes.get("type", "").partition(";")[0].strip().lower()
        if kind == RSL_TYPE and "license" in rel and in_head:
            licensed = licensed or found
        if (
            kind in {"application/rss+xml", "application/atom+xml", "application/feed+json"}
            and "alternate" in rel
            and "/comments/" not in found
            and len(feeds) < LIMITS.max_feeds
        ):
            feeds[found] = None  # a feed of comments tells of those, not of the page
    return Head(tuple(feeds), canonical.pop() if len(canonical) == 1 else None, tuple(robots), licensed)


def canonical_in_header(value: str | None, url: str) -> str | None:
    """The canonical address that a `Link` header names, None where it names none or several."""
    found = {locate(target, url) for target in _HeadSyntax.canonical_link.findall(value)} if value else set()
    return found.pop() if len(found) == 1 else None


def read_refresh(body: bytes, url: str) -> Refresh | None:
    """Returns the address to which a page redirects after a short delay; None where it stays or reloads itself."""
    begin = body[: LIMITS.refresh_bytes]
    if b"efresh" not in begin and b"EFRESH" not in begin:
        return None
    for name, attributes, in_head in _tags(begin):
        if name != "meta" or not in_head or attributes.get("http-equiv", "").strip().lower() != "refresh":
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


def _tags(body: bytes) -> Iterator[tuple[str, dict[str, str], bool]]:
    """The first link, meta and base elements: the name of each, its attributes, and whether it is in the head."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = body.decode("utf-16", "replace").encode()
    text = _HeadSyntax.unread.sub(b"", body)[: LIMITS.head_bytes].decode("utf-8", "replace")
    begun = _HeadSyntax.body.search(text)
    for tag in islice(_HeadSyntax.tag.finditer(text), LIMITS.max_tags):
        attributes = {}
        for name, a, b, c in _HeadSyntax.attribute.findall(tag[2]):
            attributes[name.lower()] = unescape(a or b or c)
        yield tag[1].lower(), attributes, begun is None or tag.start() < begun.start()


# -- statements on the use of a page --------------------------------------------------------------------------------


_NONE = frozenset({"noindex", "nofollow"})
"""Directives that `none` stands for."""


def directives(words: str) -> Iterable[str]:
    """The directives of a list, parted by commas, semicolons or spaces; names alone, in lower case, and no dates."""
    for part in re.split(r"[,;]", words.lower())[:100]:
        names, _, value = part.partition(":")
        for name in () if names.lstrip()[:1].isdigit() else re.findall(r"(?<!\S)[a-z][a-z_-]*(?!\S)", names):
            yield "nosnippet" if (name, value.strip()) == ("max-snippet", "0") else name


def told_in_header(value: str | None, agent: str) -> frozenset[str]:
    """The directives of `X-Robots-Tag` for us: those for all robots and those after our name in a line."""
    found: set[str] = set()
    with_value = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
    ours = True
    for part in re.split(r"[,;]", value or "")[:100]:
        name, colon, rest = part.partition(":")
        words = part
        if not part.strip():  # the end of a line
            ours = True
        elif colon and name.strip().lower() not in with_value and not name.lstrip()[:1].isdigit():  # not of a time
            ours, words = name.strip().lower() == agent.lower(), rest
        if ours:
            found.update(directives(words))
    return frozenset(found | _NONE if "none" in found else found)


def told_in_meta(robots: Iterable[tuple[str, str]], agent: str) -> frozenset[str]:
    """The directives of `<meta>` elements for us: where some are for our name, those for all robots do not count."""
    by_name: dict[str, set[str]] = {}
    for name, words in robots:
        if name in {"robots", agent.lower()}:
            by_name.setdefault(name, set()).update(directives(words))
    found = by_name.get(agent.lower()) or by_name.get("robots") or set()
    return frozenset(found | _NONE if "none" in found else found)


def said_in_headers(headers: Mapping[str, str], url: str, agent: str) -> tuple[Statement, ...]:
    """Statements on use in the headers of an answer."""
    if not headers.keys() & {"content-usage", "content-signal", "x-robots-tag", "link"}:
        return ()
    said: list[Statement] = []
    for name, place in (("content-usage", SaidIn.USAGE), ("content-signal", SaidIn.SIGNAL)):
        if words := headers.get(name, "").strip()[: USAGE_LIMITS.max_characters]:
            said.append((place, words))
    if told := told_in_header(headers.get("x-robots-tag"), agent):
        said.append((SaidIn.ROBOTS_TAG, ", ".join(sorted(told))[: USAGE_LIMITS.max_characters]))
    for target, parameters in re.findall(r"<([^<>]{1,2000})>((?:\s*;[^,<>]{0,200}){0,5})", headers.get("link", "")):
        words = parameters.lower()
        if "license" in words and RSL_TYPE in words and (found := locate(target, url)) is not None:
            said.append((SaidIn.LINK, found[: USAGE_LIMITS.max_characters]))
            break
    return tuple(said)


def said_in_head(head: Head, agent: str) -> tuple[Statement, ...]:
    """Statements on use in the head of a page."""
    told = told_in_meta(head.robots, agent) if head.robots else ()
    said = [(SaidIn.META, ", ".join(sorted(told))[: USAGE_LIMITS.max_characters])] if told else []
    return (*said, (SaidIn.LINK_ELEMENT, head.license[: USAGE_LIMITS.max_characters])) if head.license else tuple(said)
