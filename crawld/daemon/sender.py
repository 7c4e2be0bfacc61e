"""Sends requests: each one has a slot, passes its host's gate, and tells the gate how it went."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from crawld.content.cookies import ChainCookies
from crawld.daemon.listener import Polls
from crawld.daemon.outages import Outages
from crawld.daemon.places import Place, Places
from crawld.daemon.slots import Permits
from crawld.daemon.status import Status
from crawld.frontier.evidence import ENOUGH, Evidence
from crawld.frontier.politeness import HostGate
from crawld.interfaces import Allowed, Clock, Disallowed, Fetcher, NeedsFetch, Robots, Store
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of
from crawld.pacer import Departures

log = logging.getLogger("crawld.crawl")

MOST_REDIRECTS = 5
NOT_NOW = "its host may not be asked now"


@dataclass(slots=True)
class Sender:
    """One request at a time with its redirects; the caller's first request has its slot and gate already."""

    fetcher: Fetcher
    gate: HostGate
    permits: Permits
    departures: Departures
    robots: Robots
    store: Store
    clock: Clock
    status: Status
    places: Places
    outages: Outages
    asked_on_host: Callable[[str], int]  # how many pages of a host are being asked
    polls: Polls | None = None
    robots_under_way: dict[str, asyncio.Event] = field(default_factory=dict)  # by the URL of the file

    async def send(self, request: Request) -> Outcome:
        """Send one request whose gate is acquired."""
        self.status.requests += 1
        self.status.by_purpose[request.purpose.value] += 1
        host = self.gate.host(request.host)
        place = None
        try:
            monotonic = self.clock.monotonic()
            if (early := self.departures.delay(monotonic)) > 0:
                await asyncio.sleep(early)
                monotonic += early
            if request.purpose is not Purpose.ROBOTS:  # while robots.txt is not known there is nothing else to ask
                place = self.places.take(host, monotonic)
            outcome = await self.fetcher.fetch(request)
        except BaseException:
            self.gate.finish(host, self.clock.now(), late=_end(place))
            raise
        now, before = self.clock.now(), self.gate.export(host)
        evidence = self._evidence(request, outcome, now - outcome.duration)
        self.gate.finish(host, now, evidence, late=_end(place))
        if evidence.well:
            self.outages.end(request.host)
        if (after := self.gate.export(host)) is not before and after != before:
            self.store.record_host(after)
        return outcome

    def _evidence(self, request: Request, outcome: Outcome, began: float) -> Evidence:
        """What the outcome says about the host."""
        if not isinstance(outcome, FetchFailed):
            return Evidence(request.url, began, well=True, seconds=outcome.duration)
        if outcome.scope is Scope.HOST:
            return Evidence(
                request.url, began, well=False, retry_after=outcome.retry_after, enough=self._enough(request)
            )
        # A complete answer shows a host that works, also if it is not the one we wanted.
        well = None if outcome.status is None else True
        return Evidence(request.url, began, well, outcome.duration, outcome.retry_after)

    def _enough(self, request: Request) -> int:
        """How many URLs of the host must fail before the host is blamed: all its pages, where it has but one or two."""
        if request.purpose is Purpose.ROBOTS and not self.robots.has_copy(request.url, self.clock.now()):
            return 1  # without it nothing else may be asked
        pages = self.asked_on_host(request.host)
        if pages and request.purpose is not Purpose.PAGE:
            pages += 1
        return min(pages or ENOUGH, ENOUGH)

    def send_nothing(self, host: str) -> None:
        """Give the gate back that was acquired for a request which is not sent after all."""
        self.gate.finish(self.gate.host(host), self.clock.now())

    async def send_again(self, request: Request) -> Outcome:
        """Wait for a slot and the gate, then send; trouble where the host may not be asked for more than a minute."""
        if not await self.permits.wait(self.gate.host(request.host)):
            return FetchFailed(request.url, Trouble.HOST_NOT_READY, Scope.PAGE, NOT_NOW)
        return await self.send(request)

    async def follow(self, request: Request) -> Outcome:
        """Send a request and follow its redirects: each hop has a slot of its own and passes gate and robots.txt."""
        outcome = await self.send(request)
        if not isinstance(outcome, Redirected):
            return outcome
        cookies = ChainCookies()
        for _ in range(MOST_REDIRECTS):
            if not isinstance(outcome, Redirected):
                return outcome
            url = outcome.location
            cookies.take(outcome.url, outcome.set_cookies, self.clock.now())
            hop = Request(url, host_of(url), request.purpose, max_bytes=request.max_bytes, cookie=cookies.header(url))
            if request.purpose is not Purpose.ROBOTS and (forbidden := await self._forbidden(hop)) is not None:
                return forbidden
            outcome = await self.send_again(hop)
            if isinstance(outcome, FetchFailed) and outcome.trouble is Trouble.HOST_NOT_READY:
                return replace(outcome, detail=f"redirect to {url}: {outcome.detail}")
        if isinstance(outcome, Redirected):
            detail = f"more than {MOST_REDIRECTS} redirects, the last to {outcome.location}"
            return FetchFailed(request.url, Trouble.TOO_MANY_REDIRECTS, Scope.PAGE, detail, outcome.status)
        return outcome

    async def _forbidden(self, hop: Request) -> FetchFailed | None:
        """Why robots.txt of a redirect's target forbids it, fetching the file first where it is not known."""
        verdict = await self.permission(hop)
        if isinstance(verdict, Allowed):
            return None
        if isinstance(verdict, NeedsFetch):
            return FetchFailed(hop.url, Trouble.HOST_NOT_READY, Scope.PAGE, f"redirect to {hop.url}: {NOT_NOW}")
        return FetchFailed(hop.url, Trouble.ROBOTS, Scope.PAGE, f"redirect to {hop.url}: {verdict.reason}")

    async def permission(self, request: Request) -> Allowed | Disallowed | NeedsFetch:
        """What robots.txt says of a request, fetched first where it is not known: once, however many ask.

        It stays unknown where its host may not be asked for more than a minute.
        """
        verdict = self.robots.verdict(request.url, self.clock.now())
        if not isinstance(verdict, NeedsFetch):
            return verdict
        if (under_way := self.robots_under_way.get(verdict.url)) is not None:
            await under_way.wait()
        else:
            await self.fetch_robots(verdict.url, granted=False)
        return self.robots.verdict(request.url, self.clock.now())

    def fetch_robots(self, url: str, *, granted: bool = True) -> Coroutine[Any, Any, None]:
        """Fetch a robots.txt, under way from this call on; `granted` if its first request has its slot and gate."""
        self.robots_under_way[url] = asyncio.Event()
        return self._fetch_robots(url, granted=granted)

    async def _fetch_robots(self, url: str, *, granted: bool) -> None:
        request = Request(url, host_of(url), Purpose.ROBOTS)
        try:
            if granted or await self.permits.wait(self.gate.host(request.host)):
                self._learn_robots(request, await self.follow(request))
        finally:
            self.robots_under_way.pop(url).set()

    def _learn_robots(self, request: Request, outcome: Outcome) -> None:
        """Take over what a robots.txt says."""
        url, now = request.url, self.clock.now()
        host = self.gate.host(request.host)
        self.robots.learn(url, outcome, now, host_down=self.gate.backs_off(host))
        if self.robots.crawl_delay(url) != self.gate.export(host).crawl_delay:
            self.gate.set_crawl_delay(host, self.robots.crawl_delay(url))
            self.store.record_host(self.gate.export(host))
        if self.polls is not None:
            answered = outcome.url if isinstance(outcome, Fetched) else url
            self.polls.found(url, self.robots.sitemaps(url), now, answered)
        failed = outcome if isinstance(outcome, FetchFailed) else None
        log.info(
            "robots",
            extra={
                "url": url,
                "status": outcome.status if isinstance(outcome, Fetched | FetchFailed) else None,
                "trouble": failed and failed.trouble.value,
                "detail": failed and failed.detail,
            },
        )


def _end(place: Place | None) -> bool:
    """Watch a request no longer; whether it had given up its place."""
    if place is None:
        return False
    place.over = True
    return place.late
