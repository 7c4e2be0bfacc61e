"""The driver of polls: gives a slot to the poll that may be sent, and records what its answer decided."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from crawld.choose.scheduler import Scheduler
from crawld.choose.value import revisit_interval
from crawld.crawl.admission import Admission, NotNow
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch
from crawld.model.crawl import Crawl, Verdict
from crawld.model.errors import TooCostlyError
from crawld.model.estimate import Estimate
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Request, Scope, Trouble
from crawld.model.logs import level_of
from crawld.model.page import Wanted
from crawld.model.signal import SOURCES, Signal, SignalGain, Source
from crawld.model.web import Clock, Workers
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.signals.poll_signals import Slices, at_once
from crawld.signals.polled_sources import PolledSources, PollResult
from crawld.signals.reading import PollReading
from crawld.store.sources import Poll
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class PollsLimits:
    """Numbers that bound and tune this module."""

    looked_up_at_once: int = 1_000
    """Pages that are looked up in one turn of the loop."""
    signals_to_doubt: float = 100.0
    """Signals after which a host's are believed to be worth what they proved, rather than everything."""
    forgetting: float = 0.98
    """What earlier estimates of a host still weigh when new ones come: some fifty rounds are looked at together."""
    retry_seconds: float = 60.0
    look_again: float = 1.0
    """Seconds after which polls of a busy host are offered again at the latest."""
    taken_at_once: int = 200
    """Signals, or files, that are recorded in one turn of the loop."""
    max_heard: int = 100_000
    """Hosts whose signals' worth is remembered, by source; beyond it the older half is forgotten."""
    max_errands: int = 200
    """Keys to check and hubs to ask that wait for a slot; beyond it they fail at once."""
    max_relisted: int = 10_000
    """Pages that are gone and wait to be asked because they are listed anew; others wait for their own turn."""


LIMITS = PollsLimits()


# Discovery: pages that sitemaps and feeds list join, and leave when they are listed no more.


class Discoverer:
    """Takes over what files list, each as an origin of its own, so that none touches another's pages."""

    def __init__(self, page_set: PageSet, pages: Pages, clock: Clock, limits: Mapping[str, int]) -> None:
        """`limits` says how many pages each of the sites that `pages` counts may have."""
        self._page_set = page_set
        self._pages = pages
        self._clock = clock
        self._limits = limits

    async def follow(self, result: PollResult) -> None:
        """Adopt what a poll discovered, as far as their sites have room, and retire what its file lists no more."""
        found = result.discoveries
        if found is None:
            return
        file = result.polls[0].file
        wanted: list[Wanted] = []
        for start in range(0, len(found.listed), LIMITS.looked_up_at_once):
            some = (self._pages.get(page_id) for page_id in found.listed[start : start + LIMITS.looked_up_at_once])
            wanted += [Wanted(page.url, page.importance) for page in some if page is not None]
            await asyncio.sleep(0)
        wanted += await self._within_limits(found.urls)
        origin = f"discovered in {file.url}"
        await self._page_set.adopt(wanted, origin=origin, now=self._clock.now(), complete=found.complete)

    async def _within_limits(self, urls: Sequence[str]) -> list[Wanted]:
        """The URLs that may join: each while its site has fewer pages than its limit."""
        wanted: list[Wanted] = []
        joined: Counter[str] = Counter()  # by site
        for number, url in enumerate(urls, 1):
            site = self._pages.site_of(url)
            if site is not None and self._pages.in_site(site) + joined[site] < self._limits[site]:
                joined[site] += 1
                wanted.append(Wanted(url))
            if number % LIMITS.looked_up_at_once == 0:
                await asyncio.sleep(0)
        return wanted


# What signals are worth, in the currency of crawl values: expected when they come, settled by the next crawl.

CHANGED = frozenset({Verdict.CHANGED, Verdict.GONE})


@dataclass(frozen=True, slots=True)
class Expectation:
    """What signals of one moment promise: the importance shown to be stale, and fresh seconds by importance."""

    staleness: float = 0.0
    gain: float = 0.0

    def __add__(self, other: "Expectation") -> "Expectation":
        return Expectation(self.staleness + other.staleness, self.gain + other.gain)


class SignalGains:
    """Accounts by host and source, kept in the store; only the pages with heard signals are remembered here."""

    def __init__(self, scheduler: Scheduler, store: SqlStore) -> None:
        self._scheduler, self._store = scheduler, store
        self.heard: dict[int, Source] = {}  # pages whose signals have raised their staleness since the last crawl

    def notice(self, signals: Sequence[Signal], now: float) -> Expectation:
        """Count signals, and return what those that are believed are expected to gain."""
        pages = {signal.page_id: signal.source for signal in signals}
        ids, fresh, planned, _ = self._scheduler.standings([*pages], now)
        for signal in signals:
            self._scheduler.notice(signal.page_id, SOURCES.index(signal.source))
        if not len(ids):
            return Expectation()
        _, fresh_now, planned_now, _ = self._scheduler.standings(ids.tolist(), now)
        stale = fresh - fresh_now
        total = Expectation()
        for at in np.flatnonzero(stale > 0).tolist():
            page_id = int(ids[at])
            self.heard[page_id] = pages[page_id]
            if not self._scheduler.held(page_id):
                rate = self._scheduler.change_rate_of(page_id)
                sooner = fresh_seconds(rate, planned[at] - now) - fresh_seconds(rate, planned_now[at] - now)
                weight = stale[at] * self._scheduler.weight_of(page_id)
                total += Expectation(float(weight), float(weight * max(sooner, 0.0)))
        if len(self.heard) > 2 * len(self._scheduler):  # pages have been retired since their signals came
            self.heard = {page: source for page, source in self.heard.items() if page in self._scheduler}
        return total

    def settle(self, host: str, crawl: Crawl, last: float) -> None:
        """Add what the signals before a successful crawl gained to their account; call it before the page settles."""
        source = self.heard.pop(crawl.page_id, None)
        level = self._scheduler.chooser.level
        if source is None or math.isnan(last) or level <= 0:
            return
        weight = self._scheduler.weight_of(crawl.page_id)
        rate = self._scheduler.change_rate_of(crawl.page_id)
        unaided = revisit_interval(rate, weight, level)
        lead = max(last + unaided - crawl.at, 0.0)
        brought_forward = 1.0 if math.isinf(unaided) else lead / unaided
        gain = weight * fresh_seconds(rate, lead) if crawl.verdict in CHANGED else 0.0
        confirmed = int(crawl.verdict in CHANGED)
        self._store.record_signal_gain(
            SignalGain(host, source, confirmed, 1 - confirmed, gain, gain / level - brought_forward)
        )


def fresh_seconds(rate: float, seconds: float) -> float:
    """The expected time in which a copy made now stays fresh, of the next `seconds`."""
    return seconds if rate <= 0 else -math.expm1(-rate * seconds) / rate


log = logging.getLogger("crawld.signals")

T = TypeVar("T")

Send = Callable[[Request], Awaitable[Outcome]]
Discovered = Callable[[PollResult], Awaitable[None]]


@dataclass(slots=True)
class Polls:
    """What signal sources need of the daemon: slots within their share, the gate, robots.txt, and a memory."""

    sources: PolledSources
    store: SqlStore
    scheduler: Scheduler
    clock: Clock
    workers: Workers
    on_result: Sequence[Discovered] = field(default=())  # discovery, WebSub: what else follows from a poll
    ready: Callable[[], bool] = lambda: True  # whether signals can find every page: polls wait for that
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # signals taken, by source and fate
    gains: SignalGains = field(init=False)
    relisted: dict[int, None] = field(default_factory=dict)  # pages that are gone and were signalled since, in order
    _heard: dict[tuple[str, Source], tuple[float, float]] = field(default_factory=dict)  # signals, and those right
    _errands: dict[Request, asyncio.Future[Outcome]] = field(default_factory=dict)  # that wait for a slot
    _sent: dict[Request, asyncio.Future[Outcome]] = field(default_factory=dict)  # that are under way
    _errand_next: bool = True  # errands and polls take turns

    async def ask(self, request: Request) -> Outcome:
        """Send a request that follows from a push, within the share of signals; redirects are not followed."""
        waiting = self._errands.get(request) or self._sent.get(request)
        if waiting is None:
            if len(self._errands) >= LIMITS.max_errands:
                return FetchFailed(request.url, Trouble.OVER_SHARE, Scope.PAGE, "too many requests of pushes wait")
            waiting = self._errands[request] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(waiting)

    def __post_init__(self) -> None:
        self.gains = SignalGains(self.scheduler, self.store)

    def some_due(self, now: float) -> bool:
        """Tells whether there may be anything to send."""
        return bool(self._errands) or self.sources.schedule.some_due(now)

    def choose(
        self, now: float, admission: Admission, *, explore: bool = True
    ) -> tuple[Request, Allowed | NeedsFetch] | None:
        """The poll to send now, or the robots.txt to fetch for it first; None where no due poll may be sent.

        Unless to `explore`, only files whose signals pay for their polls are looked at.
        """
        if not self.ready():
            return None
        for errand in (self._errand_next, not self._errand_next):
            chosen = (
                self._choose_errand(now, admission) if errand else self._choose_poll(now, admission, explore=explore)
            )
            if chosen is not None:
                self._errand_next = not errand
                return chosen
        return None

    def _choose_errand(self, now: float, admission: Admission) -> tuple[Request, Allowed | NeedsFetch] | None:
        for request, waiting in list(self._errands.items()):
            verdict = admission.decide(request.url, admission.gate.host(request.host), now)
            if isinstance(verdict, NeedsFetch):
                return request, verdict
            if verdict is NotNow.HOST or verdict is NotNow.ROBOTS:
                continue
            del self._errands[request]
            if isinstance(verdict, Allowed):
                self._sent[request] = waiting
                return request, verdict
            if verdict is NotNow.FAR:
                failed = FetchFailed(request.url, Trouble.HOST_NOT_READY, Scope.PAGE)
            else:
                failed = FetchFailed(request.url, Trouble.ROBOTS, Scope.PAGE, verdict.reason)
            waiting.set_result(failed)
        return None

    def _choose_poll(
        self, now: float, admission: Admission, *, explore: bool
    ) -> tuple[Request, Allowed | NeedsFetch] | None:
        for request in self.sources.due(now, explore=explore):
            host = admission.gate.host(request.host)
            verdict = admission.decide(request.url, host, now)
            if isinstance(verdict, NeedsFetch):
                return request, verdict
            if verdict is NotNow.FAR:
                self.sources.postpone(request, now + LIMITS.retry_seconds)
            elif verdict is NotNow.HOST:
                self.sources.postpone(request, min(float(admission.gate.ready_at[host]), now + LIMITS.look_again))
            elif not isinstance(verdict, NotNow):
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

    async def run(self, request: Request, follow: Send, send: Send) -> None:
        """Send a poll that was chosen, follow it to its end, and record what it brought; an errand is sent as it is."""
        if (waiting := self._sent.get(request)) is not None:
            await self._run_errand(request, waiting, send)
            return
        try:
            outcome = await follow(request)
            if isinstance(outcome, FetchFailed) and outcome.trouble is Trouble.HOST_NOT_READY and outcome.retry_after:
                # It is no failure of the file's: it has a turn at the host that it leads to.
                self.sources.release(request, self.clock.now() + outcome.retry_after)
                return
            reading = await self._read(request, outcome)
        except BaseException:
            self.sources.release(request, self.clock.now() + LIMITS.retry_seconds)
            raise
        result = await in_slices(self.sources.finish(request, reading, self.clock.now()))
        expected = await self.take_in_slices(result)
        replanned = self.sources.bought(request.url, expected.staleness, expected.gain, self.scheduler.chooser.level)
        if replanned is not None:
            self._keep([replanned])
        self._log(request, result)
        if result.removed:
            await self.store.forget_sources(result.removed)
        for told in self.on_result:
            await told(result)

    async def _run_errand(self, request: Request, waiting: asyncio.Future[Outcome], send: Send) -> None:
        try:
            outcome = await send(request)
            if not waiting.done():
                waiting.set_result(outcome)
        finally:
            del self._sent[request]
            waiting.cancel()  # changes nothing where it is done

    async def _read(self, request: Request, outcome: Outcome) -> PollReading:
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
        told = {"url": request.url, "source": request.purpose.value, "summary": result.summary}
        log.log(level_of(news=result.news), "poll", extra=told)

    async def take_in_slices(self, result: PollResult) -> Expectation:
        """Record what was decided of a file, some at a time; returns what its signals are expected to gain."""
        for start in range(0, len(result.polls), LIMITS.taken_at_once):
            self._keep(result.polls[start : start + LIMITS.taken_at_once])
            await asyncio.sleep(0)
        return await self.take_all(result.signals)

    async def take_all(self, signals: Sequence[Signal]) -> Expectation:
        """Take any number of signals, some at a time; what they are expected to gain."""
        expected = Expectation()
        for start in range(0, len(signals), LIMITS.taken_at_once):
            expected += self.take(signals[start : start + LIMITS.taken_at_once])
            await asyncio.sleep(0)
        return expected

    def take(self, signals: Sequence[Signal]) -> Expectation:
        """Record signals, polled or pushed, and let those that count raise their pages' staleness.

        A signal for another address of a page is one for that page; a page that is gone is asked out of turn.
        """
        of = self.scheduler.alias_of
        kept = [replace(signal, page_id=of(signal.page_id) or signal.page_id) for signal in signals]
        self.store.record_signals(kept)
        for signal in kept:
            self.counts[signal.source.value, "stale" if signal.stale else "counted"] += 1
            if not signal.stale and self.scheduler.gone(signal.page_id) and len(self.relisted) < LIMITS.max_relisted:
                self.relisted[signal.page_id] = None
        return self.gains.notice([signal for signal in kept if not signal.stale], self.clock.now())

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

        A host's signals are given credit at first: estimates start near "worthless" (docs/method.md, "Estimation"), and
        a file that is polled less and less could never prove itself.
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
            total, proved = LIMITS.forgetting * before[0] + new, LIMITS.forgetting * before[1] + right
            self._heard.pop((host, source), None)  # the latest last
            self._heard[host, source] = (total, proved)
            credit = 1.0 / (1.0 + total / LIMITS.signals_to_doubt)
            self.sources.appraise(host, source, max(proved / total, credit))
        if len(self._heard) > LIMITS.max_heard:
            self._heard = dict(list(self._heard.items())[LIMITS.max_heard // 2 :])


async def in_slices(slices: Slices[T]) -> T:
    """Do work slice by slice, with whatever else is to be done in between."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
