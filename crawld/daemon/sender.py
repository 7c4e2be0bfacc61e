"""Sends requests: each one has a slot, passes its host's gate, and tells the gate how it went."""

import asyncio
import logging
from dataclasses import dataclass

from crawld.content.cookies import ChainCookies
from crawld.daemon.listener import Polls
from crawld.daemon.slots import Permits
from crawld.daemon.status import Status
from crawld.interfaces import Allowed, Clock, Disallowed, Fetcher, NeedsFetch, Robots, Store
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of
from crawld.scheduler.pacer import Departures
from crawld.scheduler.politeness import HostGate

log = logging.getLogger("crawld.crawl")

MOST_REDIRECTS = 5


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
    polls: Polls | None = None

    async def send(self, request: Request) -> Outcome:
        """Send one request whose gate is acquired."""
        self.status.requests += 1
        self.status.by_purpose[request.purpose.value] += 1
        host = self.gate.host(request.host)
        try:
            if (early := self.departures.delay(self.clock.monotonic())) > 0:
                await asyncio.sleep(early)
            outcome = await self.fetcher.fetch(request)
        except BaseException:
            self.gate.finish(host, self.clock.now())
            raise
        before = self.gate.export(host)
        trouble = isinstance(outcome, FetchFailed) and outcome.scope is Scope.HOST
        retry_after = outcome.retry_after if isinstance(outcome, FetchFailed) else None
        self.gate.finish(host, self.clock.now(), trouble=trouble, retry_after=retry_after)
        if (after := self.gate.export(host)) != before:
            self.store.record_host(after)
        return outcome

    async def send_again(self, request: Request) -> Outcome:
        """Wait for a slot and the gate, then send."""
        await self.permits.wait(self.gate.host(request.host))
        return await self.send(request)

    async def follow(self, request: Request) -> Outcome:
        """Send a request and follow its redirects: each hop has a slot of its own and passes gate and robots.txt."""
        outcome, cookies = await self.send(request), ChainCookies()
        for _ in range(MOST_REDIRECTS):
            if not isinstance(outcome, Redirected):
                return outcome
            url = outcome.location
            cookies.take(outcome.url, outcome.set_cookies, self.clock.now())
            hop = Request(url, host_of(url), request.purpose, max_bytes=request.max_bytes, cookie=cookies.header(url))
            if request.purpose is not Purpose.ROBOTS and (forbidden := await self._forbidden(hop)) is not None:
                return forbidden
            outcome = await self.send_again(hop)
        if isinstance(outcome, Redirected):
            detail = f"more than {MOST_REDIRECTS} redirects, the last to {outcome.location}"
            return FetchFailed(request.url, Trouble.TOO_MANY_REDIRECTS, Scope.PAGE, detail, outcome.status)
        return outcome

    async def _forbidden(self, hop: Request) -> FetchFailed | None:
        """Why robots.txt of a redirect's target forbids it, fetching the file first where it is not known."""
        verdict = self.robots.verdict(hop.url, self.clock.now())
        if isinstance(verdict, NeedsFetch):
            await self.permits.wait(self.gate.host(hop.host))
            await self.fetch_robots(verdict.url)
            verdict = self.robots.verdict(hop.url, self.clock.now())
        if isinstance(verdict, Allowed):
            return None
        reason = verdict.reason if isinstance(verdict, Disallowed) else "its robots.txt is not known yet"
        return FetchFailed(hop.url, Trouble.ROBOTS, Scope.PAGE, f"redirect to {hop.url}: {reason}")

    async def fetch_robots(self, url: str) -> None:
        """Fetch a robots.txt and take over what it says; its first request has its slot and gate already."""
        request = Request(url, host_of(url), Purpose.ROBOTS)
        outcome = await self.follow(request)
        now = self.clock.now()
        self.robots.learn(url, outcome, now)
        host = self.gate.host(request.host)
        if self.robots.crawl_delay(url) != self.gate.export(host).crawl_delay:
            self.gate.set_crawl_delay(host, self.robots.crawl_delay(url))
            self.store.record_host(self.gate.export(host))
        if self.polls is not None:
            self.polls.found(url, self.robots.sitemaps(url), now)
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
