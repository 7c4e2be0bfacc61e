"""A host: who is asked, and how it wants to be asked."""

from dataclasses import dataclass


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
