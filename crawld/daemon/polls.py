"""The driver of polls: gives a slot to the poll that may be sent, and records what its answer decided."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from crawld.daemon.pages.pages import Pages
from crawld.errors import TooCostlyError
from crawld.frontier.politeness import HostGate
from crawld.interfaces import (
    Allowed,
    Clock,
    Disallowed,
    NeedsFetch,
    Poll,
    PollResult,
    Robots,
    SignalSources,
    Slices,
    Store,
    Workers,
    at_once,
)
from crawld.model.estimate import Estimate
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Request, Scope, Trouble
from crawld.model.signal import SOURCES, Signal, Source
from crawld.scheduler import Scheduler

log = logging.getLogger("crawld.signals")

SIGNALS_TO_DOUBT = 100.0
"""Signals after which a host's are believed to be worth what they proved, rather than everything."""
FORGETTING = 0.98
"""What earlier estimates of a host still weigh when new ones come: some fifty rounds are looked at together."""
RETRY_SECONDS = 60.0
LOOK_AGAIN = 1.0
"""Seconds after which polls of a busy host are offered again at the latest."""
TAKEN_AT_ONCE = 200
"""Signals, or files, that are recorded in one turn of the loop."""
MOST_HEARD = 100_000
"""Hosts whose signals' worth is remembered, by source; beyond it the older half is forgotten."""
T = TypeVar("T")

Send = Callable[[Request], Awaitable[Outcome]]
Discovered = Callable[[PollResult], Awaitable[None]]


@dataclass(slots=True)
class Polls:
    """What signal sources need of the daemon: slots within their share, the gate, robots.txt, and a memory."""

    sources: SignalSources
    store: Store
    scheduler: Scheduler
    clock: Clock
    workers: Workers
    on_result: Sequence[Discovered] = field(default=())  # discovery, WebSub: what else follows from a poll
    ready: Callable[[], bool] = lambda: True  # whether signals can find every page: polls wait for that
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # signals taken, by source and fate
    _heard: dict[tuple[str, Source], tuple[float, float]] = field(default_factory=dict)  # signals, and those right

    def choose(
        self, now: float, gate: HostGate, robots: Robots, under_way: Container[str] = ()
    ) -> tuple[Request, Allowed | NeedsFetch] | None:
        """The poll to send now, or the robots.txt to fetch for it first; None where no due poll's host is ready.

        A poll whose robots.txt is `under_way`, being fetched, waits for it.
        """
        if not self.ready():
            return None
        for request in self.sources.due(now):
            host = gate.host(request.host)
            if not gate.ready(host, now):
                far = gate.far(host, now)
                self.sources.postpone(
                    request, now + RETRY_SECONDS if far else min(gate.ready_at[host], now + LOOK_AGAIN)
                )
                continue
            verdict = robots.verdict(request.url, now)
            if isinstance(verdict, NeedsFetch):
                if verdict.url in under_way:
                    continue
                return request, verdict
            self.sources.begin(request)
            if isinstance(verdict, Allowed):
                return request, verdict
            self._forbid(request, verdict, now)
        return None

    def _forbid(self, request: Request, verdict: Disallowed, now: float) -> None:
        if not verdict.by_rule:  # robots.txt is unavailable: no fault of the file
            self.sources.release(request, verdict.until)
            return
        forbidden = FetchFailed(request.url, Trouble.ROBOTS, Scope.PAGE, verdict.reason)
        reading = self.sources.reader(request)(forbidden, now)
        result = at_once(self.sources.finish(request, reading, now))
        self._keep(result.polls)
        self._log(request, result)

    async def run(self, request: Request, send: Send) -> None:
        """Send a poll that was chosen, follow it to its end, and record what it brought."""
        try:
            outcome = await send(request)
            if isinstance(outcome, FetchFailed) and outcome.trouble is Trouble.HOST_NOT_READY and outcome.retry_after:
                # It is no failure of the file's: it has a turn at the host that it leads to.
                self.sources.release(request, self.clock.now() + outcome.retry_after)
                return
            reading = await self._read(request, outcome)
        except BaseException:
            self.sources.release(request, self.clock.now() + RETRY_SECONDS)
            raise
        result = await in_slices(self.sources.finish(request, reading, self.clock.now()))
        await self.take_in_slices(result)
        self._log(request, result)
        if result.removed:
            await self.store.forget_sources(result.removed)
        for follow in self.on_result:
            await follow(result)

    async def _read(self, request: Request, outcome: Outcome) -> object:
        """Read an answer, in a worker where it has a body; one that costs too much is trouble of the file."""
        now, read = self.clock.now(), self.sources.reader(request)
        if not isinstance(outcome, Fetched) or not outcome.body:
            return read(outcome, now)
        try:
            return await self.workers.run(request.host, read, outcome, now)
        except TooCostlyError as error:
            return read(FetchFailed(request.url, Trouble.TOO_COSTLY, Scope.PAGE, str(error)), now)

    @staticmethod
    def _log(request: Request, result: PollResult) -> None:
        log.info("poll", extra={"url": request.url, "source": request.purpose.value, "summary": result.summary})

    async def take_in_slices(self, result: PollResult) -> None:
        """Record what was decided of a file, polled or pushed, some at a time."""
        for start in range(0, len(result.polls), TAKEN_AT_ONCE):
            self._keep(result.polls[start : start + TAKEN_AT_ONCE])
            await asyncio.sleep(0)
        await self.take_all(result.signals)

    async def take_all(self, signals: Sequence[Signal]) -> None:
        """Take any number of signals, some at a time."""
        for start in range(0, len(signals), TAKEN_AT_ONCE):
            self.take(signals[start : start + TAKEN_AT_ONCE])
            await asyncio.sleep(0)

    def take(self, signals: Sequence[Signal]) -> None:
        """Record signals, polled or pushed, and let those that count raise their pages' staleness."""
        self.store.record_signals(signals)
        for signal in signals:
            self.counts[signal.source.value, "stale" if signal.stale else "counted"] += 1
            if not signal.stale:
                self.scheduler.notice(signal.page_id, SOURCES.index(signal.source))

    def found(self, robots_url: str, sitemaps: Sequence[str], now: float, answered: str | None = None) -> None:
        """robots.txt of a site was read, `answered` is where redirects led; these are its Sitemap lines."""
        self._keep(self.sources.found(robots_url, sitemaps, now, answered))

    def found_feeds(self, page_url: str, feeds: Sequence[str], now: float) -> None:
        """A page links to these feeds in its head."""
        if feeds:
            self._keep(self.sources.found_feeds(page_url, feeds, now))

    def _keep(self, polls: Sequence[Poll]) -> None:
        for poll in polls:
            self.store.record_poll(poll)

    def learn(self, estimates: Sequence[Estimate], pages: Pages) -> None:
        """Tell the sources what their signals proved to be worth, by host and source, over the latest estimates.

        A host's signals are given credit at first: estimates start near "worthless" (docs/method.md 4), and a file
        that is polled less and less could never prove itself.
        """
        heard: dict[tuple[str, Source], list[float]] = {}
        for estimate in estimates:
            page = pages.get(estimate.page_id)
            if page is None:
                continue
            for source, count, kappa in zip(SOURCES, estimate.signals, estimate.kappa, strict=True):
                if count:
                    sums = heard.setdefault((page.host, source), [0.0, 0.0])
                    sums[0] += count
                    sums[1] -= count * math.expm1(-kappa)
        for (host, source), (new, right) in heard.items():
            before = self._heard.get((host, source), (0.0, 0.0))
            total, proved = FORGETTING * before[0] + new, FORGETTING * before[1] + right
            self._heard.pop((host, source), None)  # the latest last
            self._heard[host, source] = (total, proved)
            credit = 1.0 / (1.0 + total / SIGNALS_TO_DOUBT)
            self.sources.appraise(host, source, max(proved / total, credit))
        if len(self._heard) > MOST_HEARD:
            self._heard = dict(list(self._heard.items())[MOST_HEARD // 2 :])


async def in_slices(slices: Slices[T]) -> T:
    """Do work slice by slice, with whatever else is to be done in between."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
