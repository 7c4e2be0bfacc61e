"""A hook, and what it is at work with: its queue and its figures."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crawld.hooks.queue import HookQueue, Pace
from crawld.model.crawl import ChangeVerdict
from crawld.model.url_pattern import UrlPattern
from crawld.store.hooks_of_interfaces import HookFigures, NewChange, News, NotDelivered, Transport


@dataclass(frozen=True, slots=True)
class Hook:
    """Whom to tell of which changes, how fast, and how many may wait for how long."""

    name: str
    kind: str
    transport: Transport
    pattern: UrlPattern
    verdicts: frozenset[str]
    pace: Pace
    most_waiting: int = 10_000
    keep_seconds: float = 7 * 86400.0
    use: str | None = None  # what its receiver uses pages for

    def wants(self, change: NewChange) -> bool:
        """Whether the hook is to be told of the change: not of pages that deny its use, but that they do so."""
        if self.use is not None and change.verdict == ChangeVerdict.USAGE.value:
            return self.pattern.fits(change.url)
        return self.use not in change.denies and change.verdict in self.verdicts and self.pattern.fits(change.url)


@dataclass(frozen=True, slots=True)
class Intake:
    """What becomes of new changes at a hook: which wait, up to which number older ones go, and how many are lost."""

    kept: Sequence[NewChange]
    dropped_to: int | None
    lost: int


@dataclass(slots=True)
class Line:
    """A hook at work."""

    hook: Hook
    rng: random.Random
    figures: HookFigures
    queue: HookQueue = field(init=False)
    failures: int = 0  # sendings that failed since the start
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.queue = HookQueue(self.hook.pace, self.hook.transport.at_once, self.rng)

    def take_in(self, news: News, now: float) -> Intake:
        """Choose the changes to queue, and drop the oldest where too many wait or have waited for too long."""
        after, most = self.figures.cursor, self.hook.most_waiting
        wanted = [one for one in news.changes if one.change > after and self.hook.wants(one)]
        dropped = self.queue.expire(now - self.hook.keep_seconds)
        dropped += self.queue.drop(max(len(self.queue) + len(wanted) - most, 0))
        kept = wanted[max(len(wanted) - most, 0) :]
        lost = len(dropped) + len(wanted) - len(kept) + news.missed
        cursor = max(after, news.cursor)
        self.figures = replace(self.figures, cursor=cursor, dropped=self.figures.dropped + lost)
        return Intake(kept, max(dropped, default=None), lost)

    def delivered(self, changes: int, now: float) -> None:
        """So many changes were taken by their receiver."""
        self.figures = replace(
            self.figures,
            delivered=self.figures.delivered + changes,
            delivered_at=now,
            trouble=None,
            trouble_since=None,
        )

    def failed(self, failed: NotDelivered, now: float) -> bool:
        """A sending failed; whether it is the first since one succeeded."""
        self.failures += 1
        first = self.figures.trouble is None
        since = now if first else self.figures.trouble_since
        self.figures = replace(self.figures, trouble=failed.detail, trouble_since=since)
        return first
