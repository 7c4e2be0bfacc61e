"""What is known of a robots.txt: what one reading of it said to us, and what is remembered of it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RobotsReading:
    """What one robots.txt says to one crawler."""

    crawl_delay: float | None
    sitemaps: Sequence[str]
    rules: bytes | None  # packed by content.robots_pack; None: there are none, everything is allowed
    usage: str | None = None  # what pages may be used for, as `content.usage` reads it


@dataclass(frozen=True, slots=True)
class RobotsState:
    """What is remembered of one robots.txt, over a restart too. Times are UTC seconds."""

    origin: str
    agent: str  # the product token that the rules are for
    fresh_until: float
    good_until: float = 0.0  # how long the rules may be obeyed while the file is unavailable
    rules: bytes | None = None
    crawl_delay: float | None = None
    failures: int = 0
    reason: str = ""  # why the last fetch failed
    usage: str | None = None  # what pages may be used for
