"""What each site's robots.txt says, as far as it is known.

An answer counts as RFC 9309 has it. 2xx: its rules, for at most a day. 4xx, or redirects without end: there are no
rules. 429, 5xx, no answer, a broken one or one that costs too much to read: everything is forbidden and asked again
after a growing wait, for however long that lasts (the RFC would let a crawler stop caring after thirty days; a server
that never answers is not worth guessing for). While the whole host is down the wait stays short: the host's gate says
when the next request may leave. A good copy goes on being obeyed while the site is out of reach, for up to thirty days.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crawld.fetch.http import product_token
from crawld.model.errors import ParseError
from crawld.model.fetched import (
    GONE_STATUSES,
    Fetched,
    FetchFailed,
    Outcome,
    Redirected,
    RobotsReading,
    RobotsState,
    Trouble,
)
from crawld.model.host import RobotsFailure
from crawld.model.url import origin_of
from crawld.model.usage import Statement
from crawld.read.headers import max_age
from crawld.read.robots import RuleMatcher, read_robots, robots_usage


@dataclass(frozen=True, slots=True)
class Allowed:
    """robots.txt lets us ask for the URL."""


@dataclass(frozen=True, slots=True)
class Disallowed:
    """robots.txt forbids the URL (`by_rule`), or is unavailable, which forbids everything for a while."""

    reason: str
    until: float  # UTC seconds: no use in asking again before
    by_rule: bool = True


@dataclass(frozen=True, slots=True)
class NeedsFetch:
    """robots.txt is not known, or too old: fetch it from `url` first."""

    url: str


@dataclass(frozen=True)
class RobotsCacheLimits:
    """Numbers that bound and tune this module."""

    min_kept: float = 600.0
    """A Cache-Control below this would spend more slots on robots.txt than on pages."""
    first_wait: float = 60.0
    max_wait: float = 6 * 3600.0
    max_reason: int = 200
    """Characters kept of why a robots.txt is unavailable."""
    bytes_per_host: int = 1_500
    """Kept on average of the robots.txt of a host that has pages, some three times what real files need; with what
    the gate keeps, a host stays below 2 KB. Beyond it the sites asked for least recently are forgotten and asked
    again."""
    least_bytes: int = 16 << 20
    """That may be kept however few hosts there are."""
    foreign_bytes: int = 8 << 20
    """Kept of hosts without pages, which redirects and sitemaps lead to."""
    unpacked_bytes: int = 16 << 20
    """Of rules kept unpacked. Unpacking takes a millisecond for the largest and some microseconds for most."""
    longest_kept: float = 86400.0
    site_bytes: int = 500
    """What a site weighs beside its rules: its name, its times, its place in the tables."""


LIMITS = RobotsCacheLimits()


DAY = 86400.0
STALE_KEPT = 30 * DAY


class _Shelf:
    """Sites in the order of their last use, with what they weigh together."""

    def __init__(self) -> None:
        self.sites: OrderedDict[str, RobotsState] = OrderedDict()
        self.bytes = 0

    def put(self, state: RobotsState) -> None:
        self.drop(state.origin)
        self.sites[state.origin] = state
        self.bytes += _weight(state)

    def drop(self, origin: str) -> None:
        if (state := self.sites.pop(origin, None)) is not None:
            self.bytes -= _weight(state)

    def surplus(self, most: int) -> Sequence[str]:
        """The sites used least recently whose going brings the weight down to that; the latest stays."""
        over = self.bytes - most
        found: list[str] = []
        for origin, state in self.sites.items():
            if over <= 0 or len(found) == len(self.sites) - 1:
                break
            found.append(origin)
            over -= _weight(state)
        return found


class RobotsCache:
    """Verdicts by robots.txt. What it holds is bounded by bytes, those asked for least recently forgotten first.

    Hosts with pages of ours have room of their own, so that others cannot drive them out.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        pages_on: Callable[[str], int] = lambda _: 1,  # how many pages a host has, and
        hosts: Callable[[], int] = lambda: 0,  # how many hosts have pages
    ) -> None:
        self.token = product_token(user_agent)  # the contact in a user agent could fit somebody else's group
        self._pages_on, self._hosts = pages_on, hosts
        self._own, self._foreign = _Shelf(), _Shelf()
        self._unpacked: OrderedDict[str, RuleMatcher] = OrderedDict()
        self._unpacked_bytes = 0
        self._failing: set[str] = set()
        self._allowed = Allowed()  # one for all: it says nothing more

    def verdict(self, url: str, now: float) -> Allowed | Disallowed | NeedsFetch:
        """Whether the URL may be asked for now."""
        origin = origin_of(url)
        sites = self._own.sites if origin in self._own.sites else self._foreign.sites
        site = sites.get(origin)
        if site is not None:
            sites.move_to_end(origin)
        # The second bound is for a wall clock that was set back by days.
        if site is None or not site.fresh_until - 2 * LIMITS.longest_kept < now < site.fresh_until:
            return NeedsFetch(f"{origin}/robots.txt")
        if site.failures and now >= site.good_until:
            return Disallowed(f"robots.txt is unavailable: {site.reason}", site.fresh_until, by_rule=False)
        try:
            allowed = site.rules is None or self._rules(origin, site.rules).allows(url)
        except ParseError:  # stored by another version, or damaged
            self._drop(origin)
            return NeedsFetch(f"{origin}/robots.txt")
        return self._allowed if allowed else Disallowed("forbidden by robots.txt", site.fresh_until)

    def said(self, url: str) -> tuple[Statement, ...]:
        """What the site's robots.txt says of the use of a page, as far as it is known."""
        site = self._known(origin_of(url))
        return () if site is None or site.usage is None else robots_usage(site.usage).said(url)

    def has_copy(self, url: str, now: float) -> bool:
        """Whether there are rules for the URL's site to obey while its robots.txt is out of reach."""
        site = self._known(origin_of(url))
        return site is not None and now < site.good_until

    def learn(
        self,
        robots_url: str,
        outcome: Outcome,
        now: float,
        *,
        reading: RobotsReading | None = None,
        host_down: bool = False,
    ) -> RobotsState:
        """Take over what fetching that robots.txt (redirects followed) brought, and return what is now known of it.

        `reading` is what the file says, where one came; without it the file is read in place. `host_down` if its host
        backs off.
        """
        origin = origin_of(robots_url)
        if isinstance(outcome, Fetched) and 200 <= outcome.status < 300:
            reading = reading or read_robots(outcome.body, robots_url, self.token)
            state = self._read(origin, outcome, reading, now)
        elif _has_none(outcome):
            state = RobotsState(origin, self.token, now + LIMITS.longest_kept)
        else:
            state = self._unreachable(origin, outcome, now, host_down=host_down)
        self._keep(state)
        return state

    def restore(self, states: Iterable[RobotsState], *, own: bool = False) -> None:
        """Take over what was remembered, as far as it is for the agent that we are now.

        `own` says that their hosts have pages of ours, though these have not been taken in yet.
        """
        for state in states:
            if state.agent == self.token:
                self._keep(state, own=own)

    def forget_old(self, now: float) -> None:
        """Forget what is no longer fresh of hosts without pages."""
        for origin in [origin for origin, site in self._foreign.sites.items() if site.fresh_until <= now]:
            self._drop(origin)

    def forget(self, host: str) -> None:
        """Forget what the sites of a host said."""
        for scheme in ("http", "https"):
            self._drop(f"{scheme}://{host}")

    def crawl_delay_of(self, host: str) -> float | None:
        """The longest Crawl-delay for us that a host asks for, as far as it is known."""
        sites = (self._known(f"{scheme}://{host}") for scheme in ("http", "https"))
        delays = [site.crawl_delay for site in sites if site is not None and site.crawl_delay is not None]
        return max(delays, default=None)

    def unavailable(self, now: float) -> Sequence[RobotsFailure]:
        """Every robots.txt that is unavailable, so that its site is closed to us now, the most failures first."""
        sites = ((origin, self._known(origin)) for origin in self._failing)
        found = [
            RobotsFailure(origin, site.reason, site.failures, site.fresh_until)
            for origin, site in sites
            if site is not None and now >= site.good_until
        ]
        return sorted(found, key=lambda one: (-one.failures, one.origin))

    def _known(self, origin: str) -> RobotsState | None:
        return self._own.sites.get(origin) or self._foreign.sites.get(origin)

    def _read(self, origin: str, answer: Fetched, reading: RobotsReading, now: float) -> RobotsState:
        stated = max_age(answer.headers.get("cache-control"))
        kept = LIMITS.longest_kept if stated is None else min(max(stated, LIMITS.min_kept), LIMITS.longest_kept)
        until = now + kept, now + STALE_KEPT
        return RobotsState(origin, self.token, *until, reading.rules, reading.crawl_delay, usage=reading.usage)

    def _unreachable(self, origin: str, outcome: Outcome, now: float, *, host_down: bool) -> RobotsState:
        """Keep what was known, and ask again after a wait that doubles with each failure of the file's own."""
        known = self._known(origin) or RobotsState(origin, self.token, 0.0)
        failures = 1 if host_down else known.failures + 1
        wait = min(LIMITS.first_wait * 2.0 ** min(failures - 1, 20), LIMITS.max_wait)
        reason = "no answer"
        if isinstance(outcome, FetchFailed):
            wait = min(max(wait, outcome.retry_after or 0.0), LIMITS.longest_kept)
            reason = (outcome.detail or outcome.trouble.value)[: LIMITS.max_reason]
        return replace(known, fresh_until=now + wait, failures=failures, reason=reason)

    def _keep(self, state: RobotsState, *, own: bool = False) -> None:
        self._drop(state.origin)
        own = own or self._pages_on(state.origin.partition("//")[2]) > 0
        group, most = (self._own, self._own_bytes()) if own else (self._foreign, LIMITS.foreign_bytes)
        group.put(state)
        if state.failures:
            self._failing.add(state.origin)
        for origin in group.surplus(most):
            self._drop(origin)

    def _own_bytes(self) -> int:
        return max(LIMITS.least_bytes, LIMITS.bytes_per_host * self._hosts())

    def _drop(self, origin: str) -> None:
        self._own.drop(origin)
        self._foreign.drop(origin)
        self._failing.discard(origin)
        if (rules := self._unpacked.pop(origin, None)) is not None:
            self._unpacked_bytes -= rules.size

    def _rules(self, origin: str, packed: bytes) -> RuleMatcher:
        rules = self._unpacked.get(origin)
        if rules is None:
            rules = self._unpacked[origin] = RuleMatcher(packed)
            self._unpacked_bytes += rules.size
            while self._unpacked_bytes > LIMITS.unpacked_bytes and len(self._unpacked) > 1:
                _, forgotten = self._unpacked.popitem(last=False)
                self._unpacked_bytes -= forgotten.size
        self._unpacked.move_to_end(origin)
        return rules


def _weight(state: RobotsState) -> int:
    return LIMITS.site_bytes + len(state.rules or b"") + len(state.reason) + len(state.usage or "")


def _has_none(outcome: Outcome) -> bool:
    """Whether the answer means that the site has no robots.txt."""
    if isinstance(outcome, Redirected):
        return True
    if isinstance(outcome, Fetched):
        return outcome.status in GONE_STATUSES
    if outcome.trouble in {Trouble.TOO_MANY_REDIRECTS, Trouble.BAD_REDIRECT}:
        return True
    if outcome.trouble is Trouble.BOT_WALL and outcome.status == 200:
        return True  # as if the wall had said 403; the pages will tell whether they are behind it too
    return outcome.status is not None and 400 <= outcome.status < 500 and outcome.status != 429
