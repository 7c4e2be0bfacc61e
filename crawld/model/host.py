"""A host: who is asked, and how it wants to be asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crawld.model.crawl import Memory
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.model.url import host_of, normalise

MAX_NAMED = 5
"""Hosts named one by one, where more are in trouble."""


@dataclass(frozen=True, slots=True)
class HostState:
    """Memory of a host over a restart. Times are UTC seconds."""

    name: str
    blocked_until: float = 0.0  # back-off and Retry-After
    failures: int = 0  # waits of the back-off under way; 0: it is not backing off
    crawl_delay: float | None = None  # robots.txt
    delay: float | None = None  # set by the operator
    blocked: bool = False  # by the operator
    distrust_304_until: float = 0.0  # the server was caught answering 304 for a changed page
    asked_until: float = 0.0  # Retry-After alone


def host_name(text: str) -> str:
    """The host that a person means by a name in any case, a name with a port, or a URL; InputError where it is none."""
    text = text.strip()
    if "://" not in text:
        text = f"{'https' if text.rstrip('/').endswith(':443') else 'http'}://{text}/"
    return host_of(normalise(text))


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """A host that may not be asked now, with the pages that wait for it."""

    host: str
    pages: int
    until: float  # end of its back-off, UTC seconds
    failures: int


@dataclass(frozen=True, slots=True)
class RobotsFailure:
    """A robots.txt that is unavailable: nothing of its site may be asked for until a fetch succeeds."""

    origin: str
    reason: str
    failures: int
    until: float  # UTC seconds: when it is tried again


@dataclass(frozen=True, slots=True)
class TroubledHosts:
    """Hosts in one kind of trouble: how many, with how many pages, and the largest of them."""

    count: int = 0
    pages: int = 0
    worst: Sequence[HostTrouble] = ()


@dataclass(frozen=True, slots=True)
class HostsInTrouble:
    """Hosts that may not be asked, by who or what keeps us from it: the operator, Retry-After, or failures."""

    blocked: TroubledHosts = TroubledHosts()
    asked_to_wait: TroubledHosts = TroubledHosts()
    backoff: TroubledHosts = TroubledHosts()


@dataclass(frozen=True, slots=True)
class OriginTurningAway:
    """An origin that turns us away, with how many of its pages."""

    origin: str
    pages: int


@dataclass(frozen=True, slots=True)
class SitesTurningAway:
    """Origins that turn us away in one way: how many, with how many pages, and the largest of them."""

    count: int
    pages: int
    worst: Sequence[OriginTurningAway]


def sum_up_troubled(states: Iterable[tuple[HostState, int]], now: float) -> HostsInTrouble:
    """Sums up the hosts that may not be asked, from their states and numbers of pages."""
    split: dict[str, list[HostTrouble]] = {"blocked": [], "asked_to_wait": [], "backoff": []}
    for state, pages in states:
        if pages and (state.blocked or state.blocked_until > now):
            kind = "blocked" if state.blocked else "asked_to_wait" if state.asked_until > now else "backoff"
            split[kind].append(HostTrouble(state.name, pages, state.blocked_until, state.failures))
    return HostsInTrouble(**{kind: _largest_first(hosts) for kind, hosts in split.items()})


def _largest_first(hosts: Iterable[HostTrouble]) -> TroubledHosts:
    largest = sorted(hosts, key=lambda one: (-one.pages, one.host))
    return TroubledHosts(len(largest), sum(one.pages for one in largest), largest[:MAX_NAMED])


def sum_up_turned_away(counts: Mapping[tuple[str, Trouble], int]) -> dict[str, SitesTurningAway]:
    """Sums up the pages whose site turned us away, by trouble, from their number by origin and trouble."""
    found = {}
    for trouble in TURNED_AWAY:
        there = sorted(((-pages, origin) for (origin, kind), pages in counts.items() if kind is trouble and pages > 0))
        if there:
            worst = [OriginTurningAway(origin, -pages) for pages, origin in there[:MAX_NAMED]]
            found[trouble.value] = SitesTurningAway(len(there), -sum(pages for pages, _ in there), worst)
    return found


class HostPage(NamedTuple):
    """A page as far as it tells what its host's pages share."""

    page_id: int
    blocks: tuple[int, ...]
    url: str = ""
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class FrameChange:
    """One event of a site, however many pages show it: its frame changed, or many pages got the same edit."""

    host: str
    first_at: float
    last_at: float
    pages: int  # that showed it so far
    lost: int  # blocks
    gained: int
    kind: str = "frame"  # or "content": the same edit inside the text of each page, which counts as its change
