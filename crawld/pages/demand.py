"""Importance that follows demand: counts the copies asked for and weighs pages by how often they are.

Requests are counted in memory and kept once a round, so that a kill loses those of the last round at most. What is
kept of a page is written again when it was asked for, when its importance moved, and once a day otherwise: a restart
takes the time since then for unwatched time. Importance is learnt as Gamma-Poisson, with the list's
weight as prior (docs/method.md, "Importance").
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.choose.scheduler import Scheduler
from crawld.model.estimate import Floats, Ints
from crawld.model.page import Page
from crawld.model.row_index import PageRows, grown
from crawld.model.url import identity
from crawld.model.web import Clock
from crawld.pages.pages import Pages
from crawld.store.settings import StoredDemand
from crawld.store.store import SqlStore
from crawld.store.views import Copies, Copy, Gone


@dataclass(frozen=True)
class DemandLimits:
    """Numbers that bound and tune this module."""

    at_once: int = 2_000  # pages between two chances for a slot to be served
    prior_days: float = 1.0  # days of requests that the list's weight is worth
    half_life_days: float = 7.0  # after which a request, and the day it came in, count half
    moved: float = 0.1  # how far, relatively, importance has to move before pages are weighed anew


LIMITS = DemandLimits()


Bools = NDArray[np.bool_]

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class RequestEvidence:
    """Requests seen of each page and the days they were watched for, both faded with age, as columns."""

    requests: Floats
    days: Floats


def fade(evidence: RequestEvidence, seconds: Floats) -> RequestEvidence:
    """The same evidence so much older, unwatched meanwhile."""
    left = np.exp2(-seconds / DAY / LIMITS.half_life_days)
    return RequestEvidence(evidence.requests * left, evidence.days * left)


def watch(evidence: RequestEvidence, seconds: Floats, requests: Floats) -> RequestEvidence:
    """The evidence after further seconds in which so many requests came; the days themselves fade as they pass."""
    old = fade(evidence, seconds)
    spread = LIMITS.half_life_days / np.log(2)
    return RequestEvidence(old.requests + requests, old.days - spread * np.expm1(-seconds / DAY / spread))


def posterior_mean(weight: Floats, evidence: RequestEvidence) -> Floats:
    """Requests a day to be expected of each page; its list's weight before anything was seen."""
    return np.asarray(
        (weight * LIMITS.prior_days + evidence.requests) / (LIMITS.prior_days + evidence.days), dtype=np.float64
    )


def moved(old: Floats, new: Floats) -> Bools:
    """Returns where importance has moved far enough to weigh the page anew."""
    return np.asarray(np.abs(new - old) > LIMITS.moved * old, dtype=np.bool_)


class Demand:
    """Passes copies on and lets the importance of their pages follow. Columns are by row."""

    def __init__(
        self, copies: Copies, pages: Pages, scheduler: Scheduler, store: SqlStore, clock: Clock, interval: float = 60.0
    ) -> None:
        self._copies, self._pages, self._scheduler = copies, pages, scheduler
        self._store, self._clock, self._interval = store, clock, interval
        self._counts: Counter[str] = Counter()
        self._rows = PageRows()
        self._requests: Floats = np.zeros(0)
        self._days: Floats = np.zeros(0)
        self._at: Floats = np.zeros(0)  # as of when; nan: never looked at
        self._kept_at: Floats = np.zeros(0)  # as of when the store has it; nan: not at all

    async def copy(self, url: str, *, even_gone: bool = False) -> Copy | Gone | None:
        """The latest copy of a page; one that is found counts as a request for the page."""
        found = await self._copies.copy(url, even_gone=even_gone)
        if isinstance(found, Copy):
            self._counts[identity(found.url)] += 1  # of the page that the URL may be another address of
        return found

    async def restore(self) -> None:
        """Take over what was counted before a restart and weigh every page by it."""
        stored, now = await self._store.demand(), self._clock.now()
        if len(stored.page_ids):
            rows = self._take(stored.page_ids)
            old = fade(RequestEvidence(stored.requests, stored.days), np.maximum(now - stored.at, 0.0))
            self._requests[rows], self._days[rows], self._at[rows] = old.requests, old.days, now
            self._kept_at[rows] = np.minimum(stored.at, now)
        await self.follow()

    async def run(self) -> None:
        """Follow until cancelled; what was counted till then is kept."""
        try:
            while True:
                await self._clock.sleep_until(self._clock.monotonic() + self._interval)
                await self.follow()
        finally:
            await self._follow([page.id for page in self._pages if identity(page.url) in self._counts])

    async def follow(self) -> None:
        """One round over all pages."""
        await self._follow(self._pages.ids())

    async def _follow(self, page_ids: Sequence[int]) -> None:
        counts, self._counts = self._counts, Counter()
        try:
            for start in range(0, len(page_ids), LIMITS.at_once):
                ids = [page_id for page_id in page_ids[start : start + LIMITS.at_once] if page_id in self._scheduler]
                some = [page for page_id in ids if (page := self._pages.get(page_id)) is not None]
                if some:
                    news = self._weigh(some, counts, self._clock.now())
                    if len(news.page_ids):
                        await self._store.save_demand(news)
                await asyncio.sleep(0)
            counts.clear()  # what is left are copies of pages that were retired
        finally:
            self._counts.update(counts)

    def _weigh(self, pages: Sequence[Page], counts: Counter[str], now: float) -> StoredDemand:
        """Bring some pages up to date; what of it the store is to keep."""
        ids: Ints = np.array([page.id for page in pages], dtype=np.int64)
        rows = self._take(ids)
        weight = np.array([page.importance for page in pages])
        requests = np.array([counts.pop(identity(page.url), 0) if counts else 0 for page in pages], dtype=np.float64)
        before = np.where(np.isnan(self._at[rows]), now, self._at[rows])
        seen = watch(RequestEvidence(self._requests[rows], self._days[rows]), np.maximum(now - before, 0.0), requests)
        self._requests[rows], self._days[rows], self._at[rows] = seen.requests, seen.days, now
        importance = posterior_mean(weight, seen)
        news = moved(self._scheduler.importance_of(ids.tolist()), importance)
        self._scheduler.reweight(ids[news].tolist(), importance[news])
        kept = news | (requests > 0) | (self._kept_at[rows] < now - DAY)
        self._kept_at[rows[kept]] = now
        weight = self._scheduler.importance_of(ids[kept].tolist())
        return StoredDemand(ids[kept], seen.requests[kept], seen.days[kept], np.full(int(kept.sum()), now), weight)

    def forget(self, page_ids: Sequence[int]) -> None:
        """Drop what is kept of pages that are ours no longer."""
        rows = self._rows.remove(np.array(page_ids, dtype=np.int64))
        self._requests[rows] = self._days[rows] = 0.0
        self._at[rows] = self._kept_at[rows] = np.nan

    def _take(self, page_ids: Ints) -> Ints:
        """The rows of pages, with columns as long as they need."""
        rows = self._rows.take(page_ids)
        for name, empty in (("_requests", 0.0), ("_days", 0.0), ("_at", np.nan), ("_kept_at", np.nan)):
            setattr(self, name, grown(getattr(self, name), self._rows.size, empty))
        return rows
