"""robots.txt to the rules for one crawler: RFC 9309, with the leniencies of Google's parser.

One pass over the lines finds our groups; only their rules are built. The rows of user-agent lines that begin a group
are ended by Allow and Disallow alone (RFC 9309 section 2.2.1): Crawl-delay, Sitemap and unknown lines do not end one.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from crawld.content.listing import locate
from crawld.content.robots_match import Rule, RuleMatcher

LONGEST_ROBOTS = 500 * 1024
"""What lies beyond this many bytes is not read; the RFC asks for at least that much."""
LONGEST_LINE = 2083 * 8 - 1
"""What lies beyond on one line is not read, as in Google's parser."""
MOST_SITEMAPS = 1_000

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLANKS = " \t\v\f"
_LINE_END = re.compile(r"[\r\n]+")
_EVERYONE = re.compile(rf"\*(?:[{_BLANKS}]|$)")  # `*`, whatever words follow
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_KEYS = (  # by how the key begins, with the typing errors that Google's parser forgives
    ("agent", re.compile(r"user[- ]?agent", re.IGNORECASE)),
    ("allow", re.compile(r"allow", re.IGNORECASE)),
    ("disallow", re.compile(r"diss?allow|diss?alow|diasllow|disallaw", re.IGNORECASE)),
    ("sitemap", re.compile(r"site-?map", re.IGNORECASE)),
    ("delay", re.compile(r"crawl-?delay", re.IGNORECASE)),
)
_DELAY = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """What one robots.txt says to one crawler."""

    crawl_delay: float | None
    sitemaps: Sequence[str]
    text: str  # a robots.txt with our rules alone, empty where there are none
    _matcher: RuleMatcher

    def allows(self, url: str) -> bool:
        """Whether the URL may be asked for."""
        return self._matcher.allows(url)


@dataclass(slots=True)
class _Groups:
    """The rules and delays of the groups that name one agent."""

    named: bool = False
    current: bool = False  # whether the group being read names the agent
    rules: list[Rule] = field(default_factory=list)
    delay: float | None = None

    def name(self) -> None:
        self.named = self.current = True

    def wait(self, seconds: float) -> None:
        if self.current:
            self.delay = max(seconds, self.delay or 0.0)


def robots_text(body: bytes) -> str:
    """The text of a robots.txt, cut to whole lines within its limit; octets that are no text stay lone surrogates."""
    cut = len(body) >= LONGEST_ROBOTS
    body = body[:LONGEST_ROBOTS]
    encoding = next((name for mark, name in _MARKS if body.startswith(mark)), None)
    if encoding is not None:
        text = body.decode(encoding, "replace")
    else:
        for mark in (b"\xef", b"\xbb", b"\xbf"):  # a byte order mark, also half of one
            if not body.startswith(mark):
                break
            body = body[1:]
        text = body.decode("utf-8", "surrogateescape")
    if cut:  # half a rule could forbid, or allow, the whole site
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return text.replace("\0", "")  # also reads UTF-16 without a mark


def parse_robots(text: str, robots_url: str, token: str) -> RobotsRules:
    """The rules for the crawler whose product token is given. Every text is a robots.txt: there are no errors."""
    ours, everyones = _Groups(), _Groups()
    sitemaps: dict[str, None] = {}
    rules_seen = False  # a user-agent line begins a new group only after rules
    product = _product_pattern(token)
    for key, value in _lines(text):
        if key == "agent":
            if rules_seen:
                ours.current = everyones.current = rules_seen = False
            if _EVERYONE.match(value):
                everyones.name()
            elif token and product.match(value)[0].lower() == token.lower():  # type: ignore[index]  # it may be empty
                ours.name()
        elif key in {"allow", "disallow"}:
            rules_seen = True
            for groups in (ours, everyones):
                if groups.current:
                    groups.rules.append(Rule(key == "allow", value))
        elif key == "delay" and _DELAY.fullmatch(value):
            ours.wait(float(value))
            everyones.wait(float(value))
        elif key == "sitemap" and len(sitemaps) < MOST_SITEMAPS and (found := _sitemap(value, robots_url)):
            sitemaps[found] = None
    chosen = ours if ours.named else everyones
    return RobotsRules(chosen.delay, tuple(sitemaps), _as_text(chosen.rules), RuleMatcher(chosen.rules))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines that say something to us: what kind of line it is, and its value."""
    for line in _LINE_END.split(text):
        line = line[:LONGEST_LINE].partition("#")[0].strip(_BLANKS)  # noqa: PLW2901 - the line as it counts
        key, colon, value = line.partition(":")
        if not colon:  # some forget it
            words = line.split()
            key, value = words if len(words) == 2 else ("", "")
        for kind, begins in _KEYS:
            if begins.match(key):
                yield kind, value.strip(_BLANKS)
                break


def _product_pattern(token: str) -> re.Pattern[str]:
    """What of a user-agent value names a product: letters, `-`, `_`, and the digits and marks of our own name."""
    own = re.escape(re.sub(r"[/\s]", "", token))
    return re.compile(f"[A-Za-z_{own}-]*")


def _sitemap(value: str, robots_url: str) -> str | None:
    """The normalised URL of a Sitemap line; a relative one counts from the robots.txt."""
    return None if _NOT_TEXT.search(value) else locate(value, robots_url)


def _as_text(rules: Sequence[Rule]) -> str:
    named = [rule for rule in dict.fromkeys(rules) if rule.pattern]
    lines = [f"{'Allow' if rule.allow else 'Disallow'}: {rule.pattern}" for rule in named]
    return "\n".join(["User-agent: *", *lines]) if lines else ""
