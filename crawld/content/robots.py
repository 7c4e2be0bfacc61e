"""robots.txt to rules, as RFC 9309 has it, over protego."""

from collections.abc import Sequence
from dataclasses import dataclass

from protego import Protego

from crawld.errors import InputError
from crawld.model.url import resolve

LONGEST_ROBOTS = 500 * 1024
"""What lies beyond this many bytes is not read; the RFC asks for at least that much."""
MOST_SITEMAPS = 1_000


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """What one robots.txt says to one crawler."""

    crawl_delay: float | None
    sitemaps: Sequence[str]
    _parsed: Protego
    _token: str

    def allows(self, url: str) -> bool:
        """Whether the URL may be asked for."""
        return bool(self._parsed.can_fetch(url, self._token))


def robots_text(body: bytes) -> str:
    """The text of a robots.txt, cut to its limit; a byte order mark would hide the first group from the parser."""
    return body[:LONGEST_ROBOTS].decode("utf-8-sig", "replace")


def parse_robots(text: str, robots_url: str, token: str) -> RobotsRules:
    """The rules for the crawler whose product token is given. Every text is a robots.txt: there are no errors."""
    parsed = Protego.parse(text)
    return RobotsRules(parsed.crawl_delay(token), _sitemaps(parsed, robots_url), parsed, token)


def _sitemaps(parsed: Protego, robots_url: str) -> tuple[str, ...]:
    """The targets of the Sitemap lines, each once; relative ones are resolved against the robots.txt."""
    found: dict[str, None] = {}
    for line in parsed.sitemaps:
        try:
            found[resolve(line, robots_url)] = None
        except InputError:
            continue  # a line that is no URL says nothing
        if len(found) >= MOST_SITEMAPS:
            break
    return tuple(found)
