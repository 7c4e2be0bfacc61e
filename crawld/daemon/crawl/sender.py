"""Sends requests: each one has a slot, passes its host's gate, and tells the gate how it went."""

import asyncio
import logging
import math
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crawld.content.cookies import ChainCookies
from crawld.content.page.head import read_refresh
from crawld.content.robots.parser import read_robots
from crawld.content.walls import is_login
from crawld.daemon.polls import Polls
from crawld.daemon.slots.door import Door
from crawld.daemon.slots.further_requests import LONGEST_WAIT, MOST_WAITING, MOST_WAITING_PER_HOST, Permits
from crawld.daemon.slots.late_requests import LateRequests, SentRequest
from crawld.daemon.slots.outages import Outages
from crawld.daemon.slots.request_chain import Cause, Refusal, RequestChain
from crawld.daemon.slots.reservations import Turn
from crawld.daemon.slots.unproven_hosts import UnprovenHosts
from crawld.daemon.status import Status
from crawld.errors import TooCostlyError
from crawld.frontier.evidence import ENOUGH, Evidence
from crawld.frontier.politeness import HostGate
from crawld.interfaces import Allowed, Clock, Disallowed, Fetcher, NeedsFetch, Robots, Store, Workers
from crawld.model.fetched import (
    ABORTED,
    GONE_STATUSES,
    PERMANENT_REDIRECTS,
    TURNED_AWAY,
    Fetched,
    FetchFailed,
    Outcome,
    Purpose,
    Redirected,
    Request,
    Scope,
    Trouble,
    Use,
    outcome_name,
)
from crawld.model.robots import RobotsReading
from crawld.model.url import host_of, origin_of

log = logging.getLogger("crawld.crawl")

MOST_REDIRECTS = 5
TURNED_AWAY_ENOUGH, TURNED_AWAY_WAIT = 10, 900.0
"""Pages of a host that must turn us away with no success between them before the host backs off, and for how long."""
LOGIN_SEEN = frozenset({Purpose.PAGE, Purpose.SITEMAP, Purpose.FEED})
"""Purposes of requests that fail where they are led to a login; a robots.txt behind one is none."""
LOGIN_ENDS = frozenset(
    {Trouble.TOO_MANY_REDIRECTS, Trouble.ROBOTS, Trouble.STATUS, Trouble.LOGIN_REQUIRED, Trouble.FORBIDDEN}
)
"""Troubles behind a redirect to a login that mean that one has to log in."""
SMALL_ROBOTS = 4096
"""Bytes of a robots.txt that is read in place: whatever is in it, that takes some two milliseconds at most."""


class _UnderWay(asyncio.Event):
    """A robots.txt that is being fetched; set when that has ended."""

    waiting = 0  # visits that wait for it


@dataclass(slots=True)
class Sender:
    """One request at a time with its redirects; the caller's first request has its slot and gate already."""

    fetcher: Fetcher
    gate: HostGate
    permits: Permits
    door: Door
    robots: Robots
    store: Store
    clock: Clock
    status: Status
    late_requests: LateRequests
    unproven_hosts: UnprovenHosts
    outages: Outages
    asked_on_host: Callable[[str], int]  # how many pages of a host are being asked,
    pages_on_host: Callable[[str], int]  # and how many it has
    workers: Workers
    polls: Polls | None = None
    robots_under_way: dict[str, _UnderWay] = field(default_factory=dict)  # by the URL of the file
    waiting_for_robots: int = 0  # requests that wait for a robots.txt under way
    waiting_in_slots: int = 0  # tasks of the crawler that wait for a permit or a robots.txt

    async def send(self, request: Request) -> Outcome:
        """Send one request whose gate is acquired."""
        self.status.requests += 1
        host = self.gate.host(request.host)
        place = None
        try:
            monotonic = await self.door.leave()
            if request.purpose is not Purpose.ROBOTS:  # while robots.txt is not known there is nothing else to ask
                place = self.late_requests.take(host, monotonic)
            outcome = await self.fetcher.fetch(request)
        except BaseException:
            self.status.count_request(request.spent_on, ABORTED)
            self.unproven_hosts.end(host)
            self.gate.finish(host, self.clock.now(), late=_end(place))
            raise
        self.status.count_request(request.spent_on, outcome_name(outcome))
        now, before = self.clock.now(), self.gate.export(host)
        evidence = self._evidence(request, outcome, now - outcome.duration)
        self.unproven_hosts.end(host)
        self.gate.finish(host, now, evidence, late=_end(place))
        if evidence.well is not True or not self.unproven_hosts.unproven(host):  # else a page of it has yet to answer
            self.unproven_hosts.judge(host, good=evidence.well is True)
        if evidence.well:
            self.outages.end(request.host)
        if (after := self.gate.export(host)) is not before and after != before:
            self.store.record_host(after)
        return outcome

    def _evidence(self, request: Request, outcome: Outcome, began: float) -> Evidence:
        """What the outcome says about the host."""
        if not isinstance(outcome, FetchFailed):
            return Evidence(request.url, began, well=True, seconds=outcome.duration)
        if outcome.trouble in TURNED_AWAY and request.purpose is Purpose.PAGE:
            return Evidence(
                request.url,
                began,
                well=False,
                retry_after=outcome.retry_after,
                enough=TURNED_AWAY_ENOUGH,
                least_wait=TURNED_AWAY_WAIT,
            )
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
        index = self.gate.host(host)
        self.unproven_hosts.end(index)
        self.gate.finish(index, self.clock.now())

    async def send_again(self, request: Request, chain: RequestChain) -> Outcome:
        """Wait for a slot and the gate, then send; trouble where they cannot be waited for."""
        if not await self._permit(request.host, chain):
            return self._refused(request.url, chain)
        chain.requests += 1
        return await self.send(request)

    async def _permit(self, host: str, chain: RequestChain) -> bool:
        """Wait for a slot and the host's gate; whether they are ours now."""
        self.waiting_in_slots += chain.in_slot
        try:
            chain.refusal = await self.permits.wait(self.gate.host(host), chain)
        finally:
            self.waiting_in_slots -= chain.in_slot
        return chain.refusal is None

    def _refused(self, url: str, chain: RequestChain) -> FetchFailed:
        """The outcome of a request that may not be sent, with the time of its next try where there is one."""
        refusal = chain.refusal or Refusal(Cause.HOST, math.inf)
        if refusal.cause is Cause.SHARE:
            return FetchFailed(url, Trouble.OVER_SHARE, Scope.PAGE, refusal.cause.value)
        after = refusal.at - self.clock.now() if math.isfinite(refusal.at) else None
        return FetchFailed(url, Trouble.HOST_NOT_READY, Scope.PAGE, refusal.cause.value, retry_after=after)

    async def send_alone(self, request: Request, chain: RequestChain) -> Outcome:
        """Send a request without a slot of its own yet, where robots.txt allows it; redirects are not followed."""
        verdict = await self.permission(request, chain)
        if isinstance(verdict, NeedsFetch):
            return self._refused(request.url, chain)
        if isinstance(verdict, Disallowed):
            return FetchFailed(request.url, Trouble.ROBOTS, Scope.PAGE, verdict.reason)
        return await self.send_again(request, chain)

    async def follow(self, request: Request, chain: RequestChain | None = None) -> Outcome:
        """Send a request and follow its redirects: each hop has a slot of its own and passes gate and robots.txt.

        A page that refreshes to another address after a short delay redirects there, permanently where at once. One
        that ends at a page for logging in is trouble.
        """
        hops: list[Redirected] = []
        outcome = await self._follow(request, chain, hops)
        return _login_required(request, hops, outcome) or outcome

    async def _follow(self, request: Request, chain: RequestChain | None, hops: list[Redirected]) -> Outcome:
        chain = chain or RequestChain(request.host)
        chain.requests += 1
        if not chain.further:
            self.permits.credits.earn(chain.payer)
        asked = {request.url}
        outcome = _refreshed(await self.send(request), request, asked)
        turn = self.permits.reservations.take(request.url)
        if not isinstance(outcome, Redirected):
            return outcome
        chain.reserved = None if turn is None else turn.target
        cookies, permanent, home = ChainCookies(), True, origin_of(request.url)
        chain.bare = chain.bare or request.bare
        for _ in range(MOST_REDIRECTS):
            if not isinstance(outcome, Redirected):
                return outcome
            hops.append(outcome)
            url = outcome.location
            chain.bare = (
                chain.bare or origin_of(url) != home
            )  # also once it comes back: another site has chosen the address
            permanent = permanent and outcome.status in PERMANENT_REDIRECTS
            chain.moved_to = url if permanent else chain.moved_to
            if permanent and url == chain.known:
                return outcome
            cookies.take(outcome.url, outcome.set_cookies, self.clock.now())
            asked.add(url)
            hop = self._hop(request, url, cookies.header(url), chain)
            if request.purpose is not Purpose.ROBOTS and (forbidden := await self._forbidden(hop, chain)) is not None:
                outcome = forbidden
            else:
                outcome = _refreshed(await self.send_again(hop, chain), request, asked)
            if isinstance(outcome, FetchFailed) and chain.refusal is not None:
                if outcome.retry_after is not None:
                    self.permits.reservations.note(request.url, Turn(chain.refusal.at, hop.host))
                return replace(outcome, detail=f"redirect to {url}: {outcome.detail}")
        if isinstance(outcome, Redirected):
            detail = f"more than {MOST_REDIRECTS} redirects, the last to {outcome.location}"
            return FetchFailed(request.url, Trouble.TOO_MANY_REDIRECTS, Scope.PAGE, detail, outcome.status)
        return outcome

    @staticmethod
    def _hop(request: Request, url: str, cookie: str, chain: RequestChain) -> Request:
        """The request that a redirect leads to, with the conditions that its very address gave."""
        kept = chain.validators
        tag, date = (kept.etag, kept.last_modified) if kept is not None and kept.url == url else (None, None)
        hop = Request(url, host_of(url), request.purpose, tag, date, request.max_bytes, (), cookie, Use.REDIRECT)
        return hop._replace(bare=True) if chain.bare else hop

    async def _forbidden(self, hop: Request, chain: RequestChain) -> FetchFailed | None:
        """Why robots.txt of a redirect's target forbids it, fetching the file first where it is not known."""
        verdict = await self.permission(hop, chain)
        if isinstance(verdict, Allowed):
            return None
        if isinstance(verdict, NeedsFetch):
            return self._refused(hop.url, chain)
        return FetchFailed(hop.url, Trouble.ROBOTS, Scope.PAGE, f"redirect to {hop.url}: {verdict.reason}")

    async def permission(self, request: Request, chain: RequestChain) -> Allowed | Disallowed | NeedsFetch:
        """What robots.txt says of a request, fetched first where it is not known: once, however many ask.

        It stays unknown where that cannot be waited for; the chain then says why.
        """
        verdict = self.robots.verdict(request.url, self.clock.now())
        if not isinstance(verdict, NeedsFetch):
            return verdict
        if (under_way := self.robots_under_way.get(verdict.url)) is not None:
            await self._wait_for_robots(under_way, chain)
        else:
            await self.fetch_robots(verdict.url, chain)
        verdict = self.robots.verdict(request.url, self.clock.now())
        if not isinstance(verdict, NeedsFetch):
            chain.refusal = None
        elif chain.refusal is None:
            chain.refusal = self.permits.refuse(self.gate.host(request.host), chain)
        return verdict

    async def _wait_for_robots(self, under_way: _UnderWay, chain: RequestChain) -> None:
        """Wait a little until a robots.txt that somebody fetches has come, where not too many do already."""
        if under_way.waiting >= MOST_WAITING_PER_HOST or self.waiting_for_robots >= MOST_WAITING:
            return
        under_way.waiting += 1
        self.waiting_for_robots += 1
        self.waiting_in_slots += chain.in_slot
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await under_way.wait()
        except TimeoutError:
            log.debug("robots.txt took too long to wait for", extra={"origin": chain.payer})
        finally:
            under_way.waiting -= 1
            self.waiting_for_robots -= 1
            self.waiting_in_slots -= chain.in_slot

    def fetch_robots(self, url: str, chain: RequestChain | None = None) -> Coroutine[Any, Any, None]:
        """Fetch a robots.txt, under way from this call on: for a chain, or else with a slot and gate of its own."""
        self.robots_under_way[url] = _UnderWay()
        return self._fetch_robots(url, chain)

    async def _fetch_robots(self, url: str, chain: RequestChain | None) -> None:
        request = Request(url, host_of(url), Purpose.ROBOTS)
        try:
            if chain is None:
                await self._learn_robots(request, await self.follow(request))
            elif await self._permit(request.host, chain):
                # Its own redirects are charged to the chain as well, whatever turn that has elsewhere.
                inner = RequestChain(chain.payer, in_slot=chain.in_slot, further=True)
                await self._learn_robots(request, await self.follow(request, inner))
                chain.requests += inner.requests
        finally:
            self.robots_under_way.pop(url).set()

    async def _read_robots(self, request: Request, body: bytes) -> RobotsReading:
        """Read a robots.txt, in a worker unless it is small; TooCostlyError where that exceeds a limit."""
        given = (body, request.url, self.robots.token)
        if len(body) <= SMALL_ROBOTS:
            return read_robots(*given)
        return await self.workers.run(request.host, read_robots, *given)

    async def _learn_robots(self, request: Request, outcome: Outcome) -> None:
        """Take over what a robots.txt says; one that costs too much to read is unavailable."""
        url, reading = request.url, None
        if isinstance(outcome, Fetched) and 200 <= outcome.status < 300:
            try:
                reading = await self._read_robots(request, outcome.body)
            except TooCostlyError as error:
                outcome = FetchFailed(url, Trouble.TOO_COSTLY, Scope.PAGE, str(error), outcome.status)
        now = self.clock.now()
        host = self.gate.host(request.host)
        state = self.robots.learn(url, outcome, now, reading=reading, host_down=self.gate.backs_off(host))
        if self.pages_on_host(request.host):
            self.store.record_robots(state)
        if state.crawl_delay != self.gate.export(host).crawl_delay:
            self.gate.set_crawl_delay(host, state.crawl_delay)
            self.store.record_host(self.gate.export(host))
        if self.polls is not None and (reading is not None or not self.robots.has_copy(url, now)):
            answered = outcome.url if isinstance(outcome, Fetched) else url
            self.polls.found(url, reading.sitemaps if reading is not None else (), now, answered)
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


def _refreshed(outcome: Outcome, request: Request, asked: Container[str]) -> Outcome:
    """The answer, as a redirect where it is a page that sends its readers on; not to where they have been."""
    if not isinstance(outcome, Fetched) or request.purpose is not Purpose.PAGE or not outcome.body:
        return outcome
    if "html" not in outcome.headers.get("content-type", "html"):
        return outcome
    refresh = read_refresh(outcome.body, outcome.url)
    if refresh is None or refresh.url in asked:
        return outcome
    return Redirected(outcome.url, 302 if refresh.seconds else 301, refresh.url, outcome.duration)


def _login_required(request: Request, hops: Sequence[Redirected], outcome: Outcome) -> FetchFailed | None:
    """The trouble of a chain that ends at a page for logging in; None where it only passes one, or none at all.

    A page that moved for good to an address with such a word in it is an article on logging in.
    """
    leading = (hop for hop in hops if hop.status not in PERMANENT_REDIRECTS or "?" in hop.location)
    led = next((hop for hop in leading if is_login(hop.location)), None)
    if led is None or request.purpose not in LOGIN_SEEN or is_login(request.url):
        return None
    if isinstance(outcome, FetchFailed):
        ended = outcome.trouble in LOGIN_ENDS
    else:
        ended = isinstance(outcome, Redirected) or (outcome.status not in GONE_STATUSES and is_login(outcome.url))
    if not ended:
        return None
    detail = f"redirect to {led.location.partition('?')[0]}"
    return FetchFailed(request.url, Trouble.LOGIN_REQUIRED, Scope.PAGE, detail, led.status, duration=outcome.duration)


def _end(place: SentRequest | None) -> bool:
    """Watch a request no longer; whether it had given up its place."""
    if place is None:
        return False
    place.over = True
    return place.late
