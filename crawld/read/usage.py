"""A site's statements on the use of a page: in robots.txt, in headers and in the page's head."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from crawld.model.usage import LIMITS as USAGE_LIMITS
from crawld.model.usage import SaidIn, Statement
from crawld.read.listing import locate
from crawld.read.page.head import RSL_TYPE, Head
from crawld.read.robots import Rule, RuleMatcher, pack_rules


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
    return _spelt_out(found)


def told_in_meta(robots: Iterable[tuple[str, str]], agent: str) -> frozenset[str]:
    """The directives of `<meta>` elements for us: where some are for our name, those for all robots do not count."""
    by_name: dict[str, set[str]] = {}
    for name, words in robots:
        if name in {"robots", agent.lower()}:
            by_name.setdefault(name, set()).update(directives(words))
    return _spelt_out(by_name.get(agent.lower()) or by_name.get("robots") or set())


def _spelt_out(found: set[str]) -> frozenset[str]:
    """The directives with what `none` stands for."""
    return frozenset(found | {"noindex", "nofollow"}) if "none" in found else frozenset(found)


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
    told = told_in_meta(head.robots, agent)
    said = [(SaidIn.META, ", ".join(sorted(told))[: USAGE_LIMITS.max_characters])] if told else []
    return (*said, (SaidIn.LINK_ELEMENT, head.license[: USAGE_LIMITS.max_characters])) if head.license else tuple(said)


class RobotsUsage:
    """Statements of a robots.txt on the use of pages: of each kind, the longest path decides."""

    def __init__(self, packed: str) -> None:
        """Unpack what the parser of robots.txt made."""
        given = json.loads(packed)
        self._license: str | None = given.get("license")
        self._rules = {
            place: [(len(path), _matcher(path), words) for path, words in given.get(kind, ())]
            for kind, place in (("signal", SaidIn.ROBOTS_SIGNAL), ("usage", SaidIn.ROBOTS_USAGE))
        }

    def said(self, url: str) -> tuple[Statement, ...]:
        """The statements for one page."""
        said: list[Statement] = []
        for place, rules in self._rules.items():
            fits = [(length, words) for length, matcher, words in rules if matcher is None or not matcher.allows(url)]
            longest = max((length for length, _ in fits), default=0)
            said += [(place, words) for length, words in fits if length == longest]
        return (*said, (SaidIn.ROBOTS_LICENSE, self._license)) if self._license else tuple(said)


def _matcher(path: str) -> RuleMatcher | None:
    """Tells whether a path fits a URL, as robots.txt has it; None: it fits every URL."""
    packed = None if path in {"", "/", "*", "/*"} else pack_rules([Rule(False, path)])
    return None if packed is None else RuleMatcher(packed)


@lru_cache(512)
def robots_usage(packed: str) -> RobotsUsage:
    """The rules of a robots.txt, kept at hand."""
    return RobotsUsage(packed)
