"""A host: who is asked, and how it wants to be asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostState:
    """What is remembered of a host over a restart. Times are UTC seconds."""

    name: str
    blocked_until: float = 0.0
    failures: int = 0  # successive host-scope failures, for the back-off
    crawl_delay: float | None = None  # robots.txt
    delay: float | None = None  # set by the operator
    blocked: bool = False  # by the operator
    distrust_304_until: float = 0.0  # the server was caught answering 304 for a changed page


@dataclass(frozen=True, slots=True)
class FrameChange:
    """A change of a host's frame (menu, footer, banner): one event of the site, however many pages show it."""

    host: str
    first_at: float
    last_at: float
    pages: int  # that showed it so far
    lost: int  # blocks
    gained: int
