"""A host: who is asked, and how it wants to be asked."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from crawld.model.crawl import Memory
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.model.url import host_of, normalise

MAX_NAMED = 5
"""Hosts named one by one, where more are in trouble."""


@dataclass(frozen=True, slots=True)
class HostState:
    """What is remembered of a host over a restart. Times are UTC seconds."""

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


def sum_up(hosts: Iterable[HostTrouble]) -> dict[str, object]:
    """Hosts in trouble as JSON: how many, with how many pages, and the largest of them."""
    largest = sorted(hosts, key=lambda one: (-one.pages, one.host))
    return {
        "count": len(largest),
        "pages": sum(one.pages for one in largest),
        "worst": [asdict(one) for one in largest[:MAX_NAMED]],
    }


def sum_up_turned_away(counts: Mapping[tuple[str, Trouble], int]) -> dict[str, dict[str, object]]:
    """Pages whose site turned us away, by origin and trouble, as JSON by trouble: the origins with most pages."""
    found: dict[str, dict[str, object]] = {}
    for trouble in TURNED_AWAY:
        there = sorted(((-pages, origin) for (origin, kind), pages in counts.items() if kind is trouble and pages > 0))
        if there:
            found[trouble.value] = {
                "count": len(there),
                "pages": -sum(pages for pages, _ in there),
                "worst": [{"origin": origin, "pages": -pages} for pages, origin in there[:MAX_NAMED]],
            }
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
