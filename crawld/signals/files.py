"""A file that signals are read from, and how long to wait before it is asked again.

A file whose signals have bought freshness is asked as often as that pays: again when the value of a poll, in the
currency of a page's crawl value, reaches the level at which pages are picked (docs/method.md, "The value of a poll").
Every file is also explored. That wait is multiplied by 1.5 after a poll without a signal for our pages, by 0.5 after
one whose signals are all right, by something between where its host's signals have proved right only at times. It
settles where a bit more than a third of the polls bring something; what never changes, or is always wrong, fades out
to one poll a week. The shorter of the two waits counts.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from crawld.choose.value import inverse_gamma_2
from crawld.model.signal import Source
from crawld.store.sources import SourceFile


@dataclass(frozen=True)
class FilesLimits:
    """Numbers that bound and tune this module."""

    first_wait: float = 60.0
    min_wait: float = 15.0
    max_wait: float = 7 * 86_400.0
    first_wait_failing: float = 600.0
    max_wait_dead: float = 30 * 86_400.0
    dead_after: int = 8  # successive failures
    growth: float = 1.5
    shrinkage: float = 0.5
    proving_polls: int = 20  # within which a file whose polls bring news is polled as one that pays
    poll_memory: float = 0.95  # what earlier polls of a file still weigh at the next one
    megabyte: float = 2.0**20
    max_spoken_for: int = 4  # hosts: those of a robots.txt, an index of indexes, and an index


LIMITS = FilesLimits()


class Origin(StrEnum):
    """How we came to know of a file."""

    CONFIG = "config"
    ROBOTS = "robots"
    GUESS = "guess"
    INDEX = "index"
    PAGE = "page"  # a link in the head of a page


@dataclass(slots=True)
class File:
    """One sitemap or feed: where it is, how it was found, how it did so far."""

    url: str
    source: Source
    host: str
    origin: Origin
    speaks_for: tuple[str, ...] = ()  # hosts beside its own; with origin config: any
    parent: str | None = None  # the index that lists it
    depth: int = 0
    planter: str = ""  # the host by which we came to know of it: its files share turns and budgets
    next_poll: float = 0.0
    wait: float = LIMITS.first_wait
    polls: int = 0
    changes: int = 0  # polls that brought something new
    signals: int = 0
    stale: int = 0
    discarded: int = 0
    site_events: int = 0
    failures: int = 0  # successive
    entries: int = 0
    size: int = 0
    stamp: int = 0  # the lastmod its index gives
    polled_at: float = 0.0  # the last poll that went well
    pays: bool = False  # the next poll is planned because it pays, not to explore
    watched: float = 0.0  # seconds between polls; this and the next two fade by poll
    staleness: float = 0.0  # importance of the pages that its signals showed to be stale, by their probability
    gain: float = 0.0  # fresh seconds, by importance, that those signals bought
    etag: str | None = None
    last_modified: str | None = None
    trouble: str | None = None
    hub: str | None = None  # WebSub: who pushes it
    topic: str | None = None  # the address the hub knows it by
    hub_secret: str | None = None
    hub_asked_at: float = 0.0
    hub_until: float = 0.0  # the end of the lease, 0 where there is none
    baseline: bytes = field(default=b"", repr=False)  # what it listed, packed

    def __post_init__(self) -> None:
        if (
            not self.planter
        ):  # the host that named it first; the last of several, as each index is put in front of its own
            named = self.origin in {Origin.ROBOTS, Origin.INDEX, Origin.PAGE} and self.speaks_for
            self.planter = self.speaks_for[-1] if named else self.host

    @property
    def dead(self) -> bool:
        """Tells whether it has failed so often that it is asked once a month only."""
        return self.failures >= LIMITS.dead_after

    @property
    def preferred(self) -> bool:
        """Tells whether the next poll goes before exploring ones.

        1. It pays. 2. The file was never polled, and a person or a robots.txt named it. 3. It was polled once or twice,
        or a few times of which half brought something new: what its signals are worth is known only after they were
        heard for a while.
        """
        if self.pays or self.failures:
            return self.pays
        if self.polls == 0:
            return self.origin in {Origin.CONFIG, Origin.ROBOTS}
        return self.polls <= 2 or (self.polls < LIMITS.proving_polls and 2 * self.changes >= self.polls)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The hosts it may speak for: its own and the one that named it; any where a person gave it."""
        return None if self.origin is Origin.CONFIG else frozenset((self.host, *self.speaks_for))

    def succeeded(self, now: float, *, worth: float, shortest: float = LIMITS.min_wait) -> None:
        """Plan the next poll after one that went well; `worth` is 0 (nothing) to 1 (signals that are all right)."""
        self.failures, self.trouble = 0, None
        self.wait *= LIMITS.growth ** (1.0 - worth) * LIMITS.shrinkage**worth
        least = shortest * (1.0 + self.size / LIMITS.megabyte)  # what is dear to send is asked for less often
        self.wait = min(max(self.wait, least), LIMITS.max_wait)
        self.next_poll, self.pays = now + self.wait, False
        self.watched = LIMITS.poll_memory * self.watched + (now - self.polled_at if self.polled_at else 0.0)
        self.staleness, self.gain = LIMITS.poll_memory * self.staleness, LIMITS.poll_memory * self.gain
        self.polled_at = now

    def bought(self, staleness: float, gain: float) -> None:
        """Take in what the signals of the last poll bought: stale pages shown, and fresh seconds, by importance."""
        self.staleness += staleness
        self.gain += gain

    def plan_by_value(self, level: float, shortest: float) -> None:
        """Poll earlier than planned where that pays at this level of crawl values."""
        pays_after = self.pays_after(level)
        if not math.isfinite(pays_after):
            return
        wait = max(pays_after, shortest * (1.0 + self.size / LIMITS.megabyte))
        if self.polled_at + wait < self.next_poll:
            self.next_poll, self.pays = self.polled_at + wait, True

    def pays_after(self, level: float) -> float:
        """Seconds after a poll at which the next one is worth as much as a crawl; inf where it never is.

        A poll after σ seconds is worth B·L·P(2, σ/L): B is the gain per second if signals were heard at once, L the
        mean time by which a signal brings a crawl forward (docs/method.md, "The value of a poll").
        """
        if level <= 0 or self.gain <= 0 or self.watched <= 0:
            return math.inf
        lead = self.gain / self.staleness
        return lead * inverse_gamma_2(level * self.watched / (self.gain * lead))

    def failed(self, now: float, trouble: str, *, answered: bool = False) -> None:
        """Plan the next poll after one that failed: later each time; a guess that the host denied, in a month."""
        denied = answered and self.origin is Origin.GUESS and not self.changes
        self.failures = LIMITS.dead_after if denied else self.failures + 1
        self.trouble = trouble[:200]
        wait = max(self.wait, LIMITS.first_wait_failing) * 2.0 ** min(self.failures - 1, 20)
        self.next_poll = now + (LIMITS.max_wait_dead if self.dead else min(wait, LIMITS.max_wait))

    def exported(self) -> SourceFile:
        """As the store keeps it: its numbers as JSON, a NUL, and what it listed."""
        state = {name: value for name, value in asdict(self).items() if name not in _APART}
        changed = {name: value for name, value in state.items() if value != _DEFAULTS.get(name)}
        packed = json.dumps(changed).encode() + b"\0" + self.baseline
        return SourceFile(self.url, self.source, self.host, self.next_poll, packed)


_APART = frozenset({"url", "source", "host", "next_poll", "baseline"})
_DEFAULTS: Mapping[str, object] = {one.name: one.default for one in fields(File)}


def restored(kept: SourceFile) -> File:
    """The file that was exported; what a newer version added is left out."""
    numbers, _, baseline = kept.state.partition(b"\0")
    given = {name: value for name, value in json.loads(numbers).items() if name in _DEFAULTS and name not in _APART}
    given["origin"] = Origin(given.get("origin", Origin.ROBOTS))
    given["speaks_for"] = tuple(given.get("speaks_for", ()))[: LIMITS.max_spoken_for]
    return File(kept.url, kept.source, kept.host, next_poll=kept.next_poll, baseline=baseline, **given)
