"""The truth about every crawler: which of the copies last served to it are still current, and since when not."""

from dataclasses import dataclass, field, replace

import numpy as np

from crawld.research.engine import FreshSpells, settle_accounts
from crawld.research.world import Floats, Ints, World

WARM_UP = 1 / 3
"""Share of the time at the beginning that is not judged: everything has to be crawled once, and learnt from."""


@dataclass(slots=True)
class Visits:
    """Copies served to one crawler by time and page, and counts of its answers."""

    pages: int
    times: list[float] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    polls: dict[int, list[float]] = field(default_factory=dict)  # when each host's sitemap was asked for
    answers: dict[str, int] = field(default_factory=dict)  # by kind: page, unchanged, error, robots, sitemap, other
    current_until: Floats = field(init=False)  # by page: when the copy last served gets old; -inf without one

    def __post_init__(self) -> None:
        self.current_until = np.full(self.pages, -np.inf)

    @property
    def requests(self) -> int:
        """Requests of every kind."""
        return sum(self.answers.values())

    def count(self, kind: str) -> None:
        """A request was answered this way."""
        self.answers[kind] = self.answers.get(kind, 0) + 1

    def polled(self, host: int, now: float) -> None:
        """The crawler read a host's sitemap."""
        self.polls.setdefault(host, []).append(now)
        self.count("sitemap")

    def served(self, page: int, now: float, current_until: float) -> None:
        """The crawler holds the page as it is now."""
        self.times.append(now)
        self.visited.append(page)
        self.current_until[page] = current_until


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one crawler from `start` to `end`, in seconds of the site."""

    freshness: float
    series: tuple[tuple[float, float], ...]  # middle of each span of time, and the freshness in it
    requests: int
    answers: dict[str, int]
    changes: int  # of pages that the crawler held
    caught: int  # those of which it holds the page as it was then, or later
    delay_mean: float | None  # seconds from a change to the crawl that saw it
    delay_median: float | None


class Scoreboard:
    """Visits and scores of all crawlers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.weight: Floats = world.population.mu / world.population.mu.sum()
        self.visits: dict[str, Visits] = {}

    def of(self, crawler: str) -> Visits:
        """The visits of a crawler, begun with its first."""
        return self.visits.setdefault(crawler, Visits(self._world.population.pages))

    def freshness_now(self, crawler: str, now: float) -> float:
        """The importance-weighted share of pages of which the crawler holds the current version."""
        return float(self.weight @ (self.of(crawler).current_until > now))

    def score(self, crawler: str, start: float, end: float, *, spans: int = 60) -> Score:
        """The account of a crawler between two moments, its course in so many spans from 0 to the end."""
        visits, ledger = self.of(crawler), self._ledger(crawler, end)
        edges = np.linspace(0.0, end, spans + 1)
        course = ledger.accuracy_series(edges)
        first = np.full(self._world.population.pages, np.inf)
        np.minimum.at(first, visits.visited, visits.times)
        held = (ledger.changed_at > first[ledger.change_page]) & (ledger.changed_at > start)
        delays = (ledger.seen_at - ledger.changed_at)[held & (ledger.seen_at < end)]
        return Score(
            freshness=ledger.accuracy(start, end),
            series=tuple(zip(((edges[1:] + edges[:-1]) / 2).tolist(), course.tolist(), strict=True)),
            requests=visits.requests,
            answers=dict(visits.answers),
            changes=int(held.sum()),
            caught=len(delays),
            delay_mean=float(delays.mean()) if len(delays) else None,
            delay_median=float(np.median(delays)) if len(delays) else None,
        )

    def scores(self, now: float) -> dict[str, Score]:
        """Everyone's score since they came, the first third of their time left out."""
        first = {name: visits.times[0] for name, visits in self.visits.items() if visits.times}
        return {name: self.score(name, at + WARM_UP * (now - at), now) for name, at in first.items() if at < now}

    def by_page(self, crawler: str, start: float, end: float) -> tuple[Floats, Ints, Ints]:
        """Of every page: its freshness, its crawls and its changes in that time."""
        ledger, visits = self._ledger(crawler, end), self.of(crawler)
        pages = self._world.population.pages
        fresh = np.clip(ledger.fresh_until, start, end) - np.clip(ledger.fresh_from, start, end)
        crawled = np.array(visits.visited, np.int64)[np.array(visits.times) > start]
        changed = ledger.change_page[ledger.changed_at > start]
        share = np.bincount(ledger.spell_page, fresh, minlength=pages) / (end - start)
        return share, np.bincount(crawled, minlength=pages), np.bincount(changed, minlength=pages)

    def _ledger(self, crawler: str, end: float) -> FreshSpells:
        visits = self.of(crawler)
        times = np.array(visits.times)
        before = times < end
        return settle_accounts(
            _until(self._world, end), times[before], np.array(visits.visited, np.int64)[before], fresh_at_start=False
        )


def _until(world: World, end: float) -> World:
    """The world as far as it has come."""
    changes = [one[one < end] for one in world.changes_by_page]
    offsets = np.cumsum([0] + [len(one) for one in changes])
    return replace(world, horizon=end, changes=np.concatenate(changes), change_offsets=offsets)
