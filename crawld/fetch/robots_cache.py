"""What each site's robots.txt says, as far as it is known; implements `interfaces.Robots`.

An answer counts as RFC 9309 has it. 2xx: its rules, for at most a day. 4xx, or redirects without end: there are no
rules. 429, 5xx, no answer or a broken one: everything is forbidden and asked again after a growing wait, for however
long that lasts (the RFC would let a crawler stop caring after thirty days; a server that never answers is not worth
guessing for). While the whole host is down the wait stays short: the host's gate says when the next request may leave.
A good copy goes on being obeyed while the site is out of reach, for up to thirty days.
"""

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawld.content.headers import max_age
from crawld.content.robots import RobotsRules, parse_robots, robots_text
from crawld.fetch.identity import product_token
from crawld.interfaces import Allowed, Disallowed, NeedsFetch, RobotsFailure
from crawld.model.fetched import GONE_STATUSES, Fetched, FetchFailed, Outcome, Redirected, Trouble
from crawld.model.url import origin_of

DAY = 86400.0
LONGEST_KEPT = DAY
SHORTEST_KEPT = 600.0
"""A Cache-Control below this would spend more slots on robots.txt than on pages."""
STALE_KEPT = 30 * DAY
FIRST_WAIT, LONGEST_WAIT = 60.0, 6 * 3600.0
MOST_PARSED = 1_000
MOST_PARSED_CHARACTERS = 10_000_000
"""Of the rules kept parsed; each character weighs some twenty bytes then."""


@dataclass(frozen=True, slots=True)
class _Site:
    """What is known of one robots.txt. Our rules are kept as packed text: parsed, they weigh many times as much."""

    fresh_until: float
    packed: bytes | None = None  # None: no rules
    good_until: float = 0.0  # how long the rules may be obeyed while the file is unavailable
    crawl_delay: float | None = None
    sitemaps: Sequence[str] = ()
    failures: int = 0
    reason: str = ""  # why the last fetch failed


class RobotsCache:
    """Verdicts by robots.txt. Holds at most `most_sites` sites, those asked for least recently forgotten first."""

    def __init__(self, user_agent: str, *, most_sites: int = 200_000) -> None:
        self._token = product_token(user_agent)  # the contact in a user agent could fit somebody else's group
        self._most_sites = most_sites
        self._sites: OrderedDict[str, _Site] = OrderedDict()
        self._parsed: OrderedDict[str, RobotsRules] = OrderedDict()
        self._parsed_characters = 0
        self._failing: set[str] = set()

    def verdict(self, url: str, now: float) -> Allowed | Disallowed | NeedsFetch:
        """Whether the URL may be asked for now."""
        origin = origin_of(url)
        site = self._sites.get(origin)
        # The second bound is for a wall clock that was set back by days.
        if site is None or not site.fresh_until - 2 * LONGEST_KEPT < now < site.fresh_until:
            return NeedsFetch(f"{origin}/robots.txt")
        self._sites.move_to_end(origin)
        if site.failures and now >= site.good_until:
            return Disallowed(f"robots.txt is unavailable: {site.reason}", site.fresh_until, by_rule=False)
        if site.packed is None or self._rules(origin, site.packed).allows(url):
            return Allowed()
        return Disallowed("forbidden by robots.txt", site.fresh_until)

    def has_copy(self, url: str, now: float) -> bool:
        """Whether there are rules for the URL's site to obey while its robots.txt is out of reach."""
        site = self._sites.get(origin_of(url))
        return site is not None and now < site.good_until

    def learn(self, robots_url: str, outcome: Outcome, now: float, *, host_down: bool = False) -> None:
        """Take over what fetching that robots.txt (redirects followed) brought."""
        origin = origin_of(robots_url)
        if isinstance(outcome, Fetched) and 200 <= outcome.status < 300:
            site = self._read(origin, outcome, now)
        elif _has_none(outcome):
            site = _Site(now + LONGEST_KEPT)
        else:
            site = self._unreachable(origin, outcome, now, host_down=host_down)
        self._sites[origin] = site
        self._sites.move_to_end(origin)
        (self._failing.add if site.failures else self._failing.discard)(origin)
        while len(self._sites) > self._most_sites:
            forgotten, _ = self._sites.popitem(last=False)
            self._forget_parsed(forgotten)
            self._failing.discard(forgotten)

    def unavailable(self, now: float) -> Sequence[RobotsFailure]:
        """Every robots.txt that is unavailable, so that its site is closed to us now."""
        sites = ((origin, self._sites[origin]) for origin in self._failing)
        return [
            RobotsFailure(origin, site.reason, site.failures, site.fresh_until)
            for origin, site in sites
            if now >= site.good_until
        ]

    def crawl_delay(self, url: str) -> float | None:
        """The Crawl-delay for us at the URL's site, where its robots.txt names one."""
        site = self._sites.get(origin_of(url))
        return site.crawl_delay if site else None

    def sitemaps(self, url: str) -> Sequence[str]:
        """The Sitemap lines of the robots.txt at the URL's site."""
        site = self._sites.get(origin_of(url))
        return site.sitemaps if site else ()

    def _read(self, origin: str, answer: Fetched, now: float) -> _Site:
        rules = parse_robots(robots_text(answer.body), f"{origin}/robots.txt", self._token)
        self._keep_parsed(origin, rules)
        stated = max_age(answer.headers.get("cache-control"))
        kept = LONGEST_KEPT if stated is None else min(max(stated, SHORTEST_KEPT), LONGEST_KEPT)
        packed = zlib.compress(rules.text.encode("utf-8", "surrogateescape")) if rules.text else None
        return _Site(now + kept, packed, now + STALE_KEPT, rules.crawl_delay, rules.sitemaps)

    def _unreachable(self, origin: str, outcome: Outcome, now: float, *, host_down: bool) -> _Site:
        """Keep what was known, and ask again after a wait that doubles with each failure of the file's own."""
        known = self._sites.get(origin, _Site(0.0))
        failures = 1 if host_down else known.failures + 1
        wait = min(FIRST_WAIT * 2.0 ** min(failures - 1, 20), LONGEST_WAIT)
        reason = "no answer"
        if isinstance(outcome, FetchFailed):
            wait = min(max(wait, outcome.retry_after or 0.0), LONGEST_KEPT)
            reason = outcome.detail or outcome.trouble.value
        return replace(known, fresh_until=now + wait, failures=failures, reason=reason)

    def _rules(self, origin: str, packed: bytes) -> RobotsRules:
        rules = self._parsed.get(origin)
        if rules is None:
            text = zlib.decompress(packed).decode("utf-8", "surrogateescape")
            rules = parse_robots(text, f"{origin}/robots.txt", self._token)
            self._keep_parsed(origin, rules)
        self._parsed.move_to_end(origin)
        return rules

    def _keep_parsed(self, origin: str, rules: RobotsRules) -> None:
        self._forget_parsed(origin)
        self._parsed[origin] = rules
        self._parsed_characters += len(rules.text)
        while len(self._parsed) > MOST_PARSED or (
            self._parsed_characters > MOST_PARSED_CHARACTERS and len(self._parsed) > 1
        ):
            self._forget_parsed(next(iter(self._parsed)))

    def _forget_parsed(self, origin: str) -> None:
        if (rules := self._parsed.pop(origin, None)) is not None:
            self._parsed_characters -= len(rules.text)


def _has_none(outcome: Outcome) -> bool:
    """Whether the answer means that the site has no robots.txt."""
    if isinstance(outcome, Redirected):
        return True
    if isinstance(outcome, Fetched):
        return outcome.status in GONE_STATUSES
    if outcome.trouble in {Trouble.TOO_MANY_REDIRECTS, Trouble.BAD_REDIRECT}:
        return True
    return outcome.status is not None and 400 <= outcome.status < 500 and outcome.status != 429
