"""Other crawlers at our budget: timers, the most overdue page first, and passes through all pages in order.

None of them allocates a budget, so a slot for which no page is due is left idle; and none looks at importance.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from crawld.research.engine import SimulatedCrawler
from crawld.research.world import NO_CLAIM, Claim, Ints, World

MINUTE, HOUR, WEEK = 1 / 1440, 1 / 24, 7.0


class RevisitRule(Protocol):
    """One page's timer."""

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Time of the next visit, after one that found this; None at the first visit, which compares with nothing."""


@dataclass(slots=True)
class Fixed:
    """A fixed interval; inf: never again."""

    interval: float

    def next_visit(self, now: float, changed: bool | None) -> float:  # noqa: ARG002 — it takes no notice
        """One interval on."""
        return now + self.interval


class NutchAdaptive:
    """Apache Nutch's AdaptiveFetchSchedule, with the values of nutch-default.xml unless others are given."""

    SHORTEST, LONGEST, LIMIT = MINUTE, 365.0, 90.0

    def __init__(self, increase: float = 0.4, decrease: float = 0.2, sync_rate: float = 0.3) -> None:
        self._increase, self._decrease, self._sync_rate = increase, decrease, sync_rate
        self._interval = 30.0
        self._modified = 0.0
        self._known = False  # whether there is a signature to compare with

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Shrink or grow by a share, then lean toward the time of the last change seen."""
        if changed is None or not self._known:
            self._modified, self._known = now, True
        elif changed:
            self._interval *= 1.0 - self._decrease
            self._modified = now
        else:
            self._interval *= 1.0 + self._increase
        unchanged_for = now - self._modified
        self._interval = max(self._interval, unchanged_for)
        self._interval = min(max(self._interval, self.SHORTEST), self.LONGEST)
        due = now - self._sync_rate * unchanged_for + self._interval
        if due - now <= self.LIMIT:
            return due
        # Too far ahead: the next round takes it at once, and an interval beyond the limit starts afresh.
        if self._interval > self.LIMIT:
            self._interval = 0.9 * self.LIMIT
            self._known = False
        return now


class StormCrawlerAdaptive:
    """Apache StormCrawler's AdaptiveScheduler, in whole minutes, with its defaults unless others are given."""

    FIRST = 1440

    def __init__(self, increase: float = 0.5, decrease: float = 0.5, shortest: int = 60, longest: int = 20160) -> None:
        self._increase, self._decrease, self._shortest, self._longest = increase, decrease, shortest, longest
        self._minutes = self.FIRST

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Part of the way to the shortest interval after a change, a share longer without."""
        if changed:
            self._minutes = int((1.0 - self._decrease) * self._minutes + self._decrease * self._shortest)
        elif changed is not None:
            self._minutes = min(int(self._minutes * (1.0 + self._increase)), self._longest)
        return now + self._minutes * MINUTE


class MinifluxFrequency:
    """miniflux's entry_frequency, a change found standing for an entry published."""

    SHORTEST, LONGEST = 5 * MINUTE, 1.0

    def __init__(self) -> None:
        self._entries: deque[float] = deque()

    def next_visit(self, now: float, changed: bool | None) -> float:
        """A week divided by the entries a week that the mean gap of the past week stands for."""
        if changed:
            self._entries.append(now)
        while self._entries and self._entries[0] < now - WEEK:
            self._entries.popleft()
        return now + self._interval()

    def _interval(self) -> float:
        gaps = len(self._entries) - 1
        if gaps < 1:
            return self.LONGEST
        weekly = math.ceil(WEEK / ((self._entries[-1] - self._entries[0]) / gaps))
        return min(max(WEEK / weekly, self.SHORTEST), self.LONGEST)


class FreshRssAutoTtl:
    """FreshRSS with AutoTTL: the time since the oldest entry of the past 30 days, divided by their number."""

    SAMPLED, DEFAULT, LONGEST = 30.0, HOUR, 1.0

    def __init__(self) -> None:
        self._entries: deque[float] = deque()

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Within an hour and a day; a day where nothing was published, or a moment ago only."""
        if changed:
            self._entries.append(now)
        while self._entries and self._entries[0] < now - self.SAMPLED:
            self._entries.popleft()
        mean = (now - self._entries[0]) / len(self._entries) if self._entries else 0.0
        return now + (min(max(mean, self.DEFAULT), self.LONGEST) if mean > 0 else self.LONGEST)


class TimerCrawler(SimulatedCrawler):
    """A crawler with a timer per page. Pages without a copy are due at once, in order."""

    def __init__(self, rule: Callable[[], RevisitRule], world: World, *, copies: bool) -> None:
        self._make = rule
        self.rules: dict[int, RevisitRule] = {}  # by page
        self._due: list[tuple[float, int]] = []
        self._visited = np.zeros(world.population.pages, bool)
        present = np.flatnonzero(world.born <= 0)
        if copies:
            self.appear(present, 0.0)
        else:
            self.rules |= {page: rule() for page in present.tolist()}
            self._due = [(0.0, page) for page in present.tolist()]

    def appear(self, pages: Ints, at: float) -> None:
        """Set the first timers of pages that have just been copied."""
        for page in pages.tolist():
            self.rules[page] = self._make()
            self.settle(page, at, changed=False)

    def vanish(self, pages: Ints) -> None:
        """Forget pages; their timers are passed over when they run out."""
        for page in pages.tolist():
            self.rules.pop(page, None)

    def pick(self, now: float) -> int | None:
        """The most overdue page, or None while no timer has run out."""
        while self._due and self._due[0][0] <= now:
            page = heapq.heappop(self._due)[1]
            if page in self.rules:
                return page
        return None

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Set the page's timer anew."""
        due = self.rules[page].next_visit(now, changed if self._visited[page] else None)
        self._visited[page] = True
        heapq.heappush(self._due, (due, page))


class PassCrawler(SimulatedCrawler):
    """Goes through all pages in order, again and again; a pass begins a period after the last began, or later."""

    def __init__(self, world: World, *, copies: bool, period: float = 0.0) -> None:
        self._period = period
        self._host = world.host_of.tolist()
        self._pages: dict[int, None] = dict.fromkeys(np.flatnonzero(world.born <= 0).tolist())
        self._copied = set(self._pages) if copies else set[int]()
        self._queue: deque[int] = deque()
        self._next_pass = 0.0

    def appear(self, pages: Ints, at: float) -> None:  # noqa: ARG002 — the order of the list is what counts
        """Put new pages at the end of the list."""
        self._pages |= dict.fromkeys(pages.tolist())
        self._copied |= set(pages.tolist())

    def vanish(self, pages: Ints) -> None:
        """Take pages off the list."""
        for page in pages.tolist():
            self._pages.pop(page, None)

    def pick(self, now: float) -> int | None:
        """The next page of the pass that is wanted; None between passes."""
        if not self._queue and now >= self._next_pass:
            self._queue = deque(self._pages)
            self._next_pass = now + self._period
            self.begin()
        while self._queue:
            page = self._queue.popleft()
            if page in self._pages and (page not in self._copied or self.wants(page)):
                return page
        return None

    def begin(self) -> None:
        """A pass begins."""

    def wants(self, page: int) -> bool:  # noqa: ARG002 — whichever it is
        """Tells whether a page that has been copied is asked again when the pass comes to it."""
        return True

    def settle(self, page: int, now: float, changed: bool) -> None:  # noqa: ARG002 — what was found does not matter
        """The page has a copy now."""
        self._copied.add(page)


class Norconex(PassCrawler):
    """Norconex: a page with a lastmod is asked again if that is newer than the last visit, any other always."""

    def __init__(self, world: World, *, copies: bool, period: float) -> None:
        super().__init__(world, copies=copies, period=period)
        self._lastmod = np.full(world.population.pages, np.nan)
        self._visited = world.born.copy()
        if world.listed is not None:
            self._lastmod[world.listed] = -np.inf

    def wants(self, page: int) -> bool:
        """Decides by the lastmod where there is one."""
        return bool(np.isnan(self._lastmod[page]) or self._lastmod[page] > self._visited[page])

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Remember when the page was visited."""
        super().settle(page, now, changed)
        self._visited[page] = now

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:  # noqa: ARG002 — what counts is the claim
        """A lastmod moved; one that cannot be read is none."""
        self._lastmod[page] = claimed[0]


class Marginalia(PassCrawler):
    """Skips pages of a host the more often, the more of those it has asked in this pass were unchanged."""

    STEPS = ((25, 0.0, 0.0), (1000, 0.0, 0.5), (10_000, 0.5, 0.75), (np.inf, 0.75, 0.99))
    """Asked again so far in the pass: fewer than this, the chance to skip is within these."""

    def __init__(self, world: World, *, copies: bool) -> None:
        super().__init__(world, copies=copies)
        self._random = np.random.default_rng(1)
        self.begin()

    def begin(self) -> None:
        """Every pass counts anew."""
        self._asked: Counter[int] = Counter()
        self._same: Counter[int] = Counter()

    def skip_chance(self, host: int) -> float:
        """The chance that the host's next page is skipped."""
        asked = self._asked[host]
        low, high = next((low, high) for most, low, high in self.STEPS if asked < most)
        return float(min(max(self._same[host] / asked, low), high)) if asked else 0.0

    def wants(self, page: int) -> bool:
        """Decides by chance."""
        chance = self.skip_chance(self._host[page])
        return chance == 0.0 or bool(self._random.random() >= chance)

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Count what was found on the host."""
        super().settle(page, now, changed)
        self._asked[self._host[page]] += 1
        self._same[self._host[page]] += not changed


@dataclass(frozen=True, slots=True)
class Peer:
    """Another crawler: its rule in words, and a crawler that follows it."""

    rule: str
    make: Callable[..., SimulatedCrawler]


def _timer(rule: Callable[[], RevisitRule]) -> Callable[..., SimulatedCrawler]:
    return partial(TimerCrawler, rule)


def _every(days: float) -> Callable[..., SimulatedCrawler]:
    return _timer(partial(Fixed, days))


PEERS: dict[str, Peer] = {
    "nutch": Peer("every 30 days", _every(30.0)),
    "nutch-adaptive": Peer("× .8 after a change, × 1.4 without, leaning to the last change", _timer(NutchAdaptive)),
    "nutch-adaptive-java": Peer(
        "the same with the code's own defaults, × .8 and × 1.2", _timer(partial(NutchAdaptive, 0.2, 0.2, 0.2))
    ),
    "nutch-mime-html": Peer(
        "the same by MIME type, × .8 and × 1.2 for HTML", _timer(partial(NutchAdaptive, 0.2, 0.2, 0.3))
    ),
    "stormcrawler": Peer("every day", _every(1.0)),
    "stormcrawler-adaptive": Peer("half way to an hour after a change, × 1.5 without", _timer(StormCrawlerAdaptive)),
    "news-crawl": Peer(
        "a fifth of the way to 90 minutes after a change, × 1.5 without",
        _timer(partial(StormCrawlerAdaptive, 0.5, 0.2, 90, 90 * 1440)),
    ),
    "frontera": Peer("every day", _every(1.0)),
    "changedetection.io": Peer("every 3 hours", _every(3 * HOUR)),
    "urlwatch": Peer("all pages once a day, by cron", partial(PassCrawler, period=1.0)),
    "huginn": Peer("every 12 hours", _every(12 * HOUR)),
    "miniflux": Peer("every hour", _every(HOUR)),
    "miniflux-frequency": Peer("by the changes found in the past week, 5 minutes to a day", _timer(MinifluxFrequency)),
    "freshrss": Peer("every hour", _every(HOUR)),
    "freshrss-autottl": Peer("by the changes found in the past 30 days, an hour to a day", _timer(FreshRssAutoTtl)),
    "reader": Peer("every hour", _every(HOUR)),
    "norconex": Peer("daily; pages with a lastmod if and only if it moved", partial(Norconex, period=1.0)),
    "marginalia": Peer("in passes, skipping pages of hosts that were found unchanged", Marginalia),
    "crawl-once": Peer("never again: Heritrix, Scrapy, Crawlee, BUbiNG as they come", _every(np.inf)),
}


def peer_crawler(name: str, world: World, *, copies: bool) -> SimulatedCrawler:
    """The crawler of that name, with copies of all pages at the start or without."""
    return PEERS[name].make(world, copies=copies)
