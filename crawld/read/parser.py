"""robots.txt to the rules for one crawler: RFC 9309, with the leniencies of Google's parser.

One pass over the lines finds our groups; only their rules are built. The rows of user-agent lines that begin a group
are ended by Allow and Disallow alone (RFC 9309 section 2.2.1): Crawl-delay, Sitemap and unknown lines do not end one.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from crawld.model.robots import RobotsReading
from crawld.read.listing import locate
from crawld.read.pack import Rule, pack_rules

LONGEST_ROBOTS = 500 * 1024
"""What lies beyond this many bytes is not read; the RFC asks for at least that much."""
LONGEST_LINE = 2083 * 8 - 1
"""What lies beyond on one line is not read, as in Google's parser."""
MOST_SITEMAPS = 1_000
"""Different Sitemap lines that are looked at; what else there is of them is passed over. Real files have up to 100."""
MOST_SITEMAP_CHARACTERS = 128 * 1024
"""Of those lines together: the URL parser can take a thousand times as long for a strange URL as for a plain one."""
MAX_USAGES, MAX_USAGE_CHARACTERS = 20, 300
"""Lines of each kind that say what pages may be used for, and characters of each."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLANKS = " \t\v\f"
_LINE = re.compile(  # that begins like one of the keys below; of all others a file may have hundreds of thousands
    rf"(?:(?<=[\r\n])|\A)[{_BLANKS}]*+(?:user|allow|dis|dia|site|crawl|content|license)[^\r\n]*+", re.IGNORECASE
)
_EVERYONE = re.compile(rf"\*(?:[{_BLANKS}]|$)")  # `*`, whatever words follow
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_KEYS = (  # by how the key begins, with the typing errors that Google's parser forgives
    ("agent", re.compile(r"user[- ]?agent", re.IGNORECASE)),
    ("allow", re.compile(r"allow", re.IGNORECASE)),
    ("disallow", re.compile(r"diss?allow|diss?alow|diasllow|disallaw", re.IGNORECASE)),
    ("sitemap", re.compile(r"site-?map", re.IGNORECASE)),
    ("delay", re.compile(r"crawl-?delay", re.IGNORECASE)),
    ("signal", re.compile(r"content-signals?", re.IGNORECASE)),
    ("usage", re.compile(r"content-usage", re.IGNORECASE)),
    ("license", re.compile(r"license", re.IGNORECASE)),
)
_DELAY = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")


@dataclass(slots=True)
class _Groups:
    """The rules and delays of the groups that name one agent."""

    named: bool = False
    current: bool = False  # whether the group being read names the agent
    rules: list[Rule] = field(default_factory=list)
    delay: float | None = None
    usage: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by kind: paths, and what is said of them

    def use(self, kind: str, value: str) -> None:
        said = self.usage.setdefault(kind, [])
        path, _, words = value.partition(" ") if value.startswith(("/", "*")) else ("", "", value)
        if len(said) < MAX_USAGES and words.strip():
            said.append((path[:MAX_USAGE_CHARACTERS], words.strip()[:MAX_USAGE_CHARACTERS]))

    def name(self) -> None:
        self.named = self.current = True

    def wait(self, seconds: float) -> None:
        if self.current:
            self.delay = max(seconds, self.delay or 0.0)


def read_robots(body: bytes, robots_url: str, token: str) -> RobotsReading:
    """What a robots.txt says to the crawler whose product token is given. Any bytes are one: there are no errors."""
    return parse_robots(robots_text(body), robots_url, token)


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


def parse_robots(text: str, robots_url: str, token: str) -> RobotsReading:
    """The same of its text."""
    ours, everyones = _Groups(), _Groups()
    sitemaps: dict[str, None] = {}
    license_url: str | None = None
    grouped = rules_seen = False  # a user-agent line begins a new group only after rules
    product = _product_pattern(token)
    for key, value in _lines(text):
        if key == "agent":
            grouped = True
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
        elif key in {"signal", "usage"}:
            for groups in (ours, everyones):
                if groups.current or not grouped:
                    groups.use(key, value)
        elif key == "license" and not _NOT_TEXT.search(value):
            license_url = license_url or locate(value[:MAX_USAGE_CHARACTERS], robots_url)
        elif key == "sitemap" and len(sitemaps) < MOST_SITEMAPS:
            sitemaps[value] = None
    chosen = ours if ours.named else everyones
    said = chosen.usage | ({} if license_url is None else {"license": license_url})
    usage = _NOT_TEXT.sub("?", json.dumps(said)) if said else None
    return RobotsReading(chosen.delay, _located(sitemaps, robots_url), pack_rules(chosen.rules), usage)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines that say something to us: what kind of line it is, and its value."""
    for found in _LINE.finditer(text):
        line = found[0][:LONGEST_LINE].partition("#")[0].strip(_BLANKS)
        key, colon, value = line.partition(":")
        if not colon:  # some forget it
            words = line.split(maxsplit=2)
            key, value = words if len(words) == 2 else ("", "")
        for kind, begins in _KEYS:
            if begins.match(key):
                yield kind, value.strip(_BLANKS)
                break


def _product_pattern(token: str) -> re.Pattern[str]:
    """What of a user-agent value names a product: letters, `-`, `_`, and the digits and marks of our own name."""
    own = re.escape(re.sub(r"[/\s]", "", token))
    return re.compile(f"[A-Za-z_{own}-]*")


def _located(lines: Iterable[str], robots_url: str) -> tuple[str, ...]:
    """The normalised URLs of Sitemap lines, each once; a relative one counts from the robots.txt."""
    located: dict[str, None] = {}
    characters = 0
    for line in lines:
        characters += len(line)
        if characters > MOST_SITEMAP_CHARACTERS:
            break
        if not _NOT_TEXT.search(line) and (found := locate(line, robots_url)):
            located[found] = None
    return tuple(located)
