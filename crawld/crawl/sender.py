"""Sends requests: each one has a slot, passes its host's gate, and tells the gate how it went."""

import asyncio
import logging
import math
from collections.abc import Container, Coroutine, Sequence
from typing import Any

from crawld.crawl.admission import LIMITS, Admission, Cause, Refusal, RequestChain, RobotsFetch, Sent, Turn
from crawld.crawl.polls import Polls
from crawld.fetch.cookies import ChainCookies
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch
from crawld.model.errors import TooCostlyError
from crawld.model.fetched import (
    ABORTED,
    GONE_STATUSES,
    PERMANENT_REDIRECTS,
    Fetched,
    FetchFailed,
    Outcome,
    Purpose,
    Redirected,
    Request,
    RobotsReading,
    Scope,
    Trouble,
    Use,
)
from crawld.model.url import host_of, origin_of
from crawld.model.web import Fetcher, Workers
from crawld.pages.status import Counters
from crawld.read.page.head import read_refresh
from crawld.read.robots import read_robots
from crawld.read.walls import is_login
from crawld.store.store import SqlStore

log = logging.getLogger("crawld.crawl")

MAX_REDIRECTS = 5
LOGIN_SEEN = frozenset({Purpose.PAGE, Purpose.SITEMAP, Purpose.FEED})
"""Purposes of requests that fail where they are led to a login; a robots.txt behind one is none."""
LOGIN_ENDS = frozenset(
    {Trouble.TOO_MANY_REDIRECTS, Trouble.ROBOTS, Trouble.STATUS, Trouble.LOGIN_REQUIRED, Trouble.FORBIDDEN}
)
"""Troubles behind a redirect to a login that mean that one has to log in."""
SMALL_ROBOTS = 4096
"""Bytes of a robots.txt that is read in place: whatever is in it, that takes some two milliseconds at most."""


class Sender:
    """One request at a time with its redirects; the caller's first request has its slot and its place already."""

    def __init__(
        self, fetcher: Fetcher, admission: Admission, store: SqlStore, workers: Workers, polls: Polls | None = None
    ) -> None:
        self._fetcher, self._store = fetcher, store
        self.admission, self.workers, self.polls = admission, workers, polls
        self.robots, self.clock = admission.robots, admission.clock
        self.status = Counters(self.clock.now(), admission.pacer.rate, last_slot_at=self.clock.monotonic())
        self.waiting_for_robots = 0  # requests that wait for a robots.txt under way
        self.waiting_in_slots = 0  # tasks of the crawler that wait for a slot or a robots.txt

    async def send(self, request: Request, host: int | None = None) -> Outcome:
        """Sends one request that has its place at the host."""
        status, admission = self.status, self.admission
        status.requests += 1
        sent, use = Sent(admission.gate.host(request.host) if host is None else host), request.use or request.purpose
        try:
            sent.began = await admission.door.leave()
            if request.purpose is not Purpose.ROBOTS:  # while robots.txt is not known there is nothing else to ask
                admission.watch(sent)
            outcome = await self._fetcher.fetch(request)
        except BaseException:
            status.by_use[use, ABORTED] += 1
            admission.abandon(sent)
            raise
        status.by_use[use, _outcome_name(outcome)] += 1
        if (changed := admission.settle(request, sent, outcome)) is not None:
            self._store.record_host(changed)
        return outcome

    async def send_again(self, request: Request, chain: RequestChain) -> Outcome:
        """Waits for a slot and a place, then send; trouble where they cannot be waited for."""
        if not await self._wait(request.host, chain):
            return self._refused(request.url, chain)
        chain.requests += 1
        return await self.send(request)

    async def _wait(self, host: str, chain: RequestChain) -> bool:
        """Waits for a slot and a place at the host; whether they are there."""
        self.waiting_in_slots += chain.in_slot
        try:
            chain.refusal = await self.admission.wait(self.admission.gate.host(host), chain)
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
        """Sends a request without a slot of its own yet, where robots.txt allows it; redirects are not followed."""
        verdict = await self.permission(request, chain)
        if isinstance(verdict, NeedsFetch):
            return self._refused(request.url, chain)
        if isinstance(verdict, Disallowed):
            return FetchFailed(request.url, Trouble.ROBOTS, Scope.PAGE, verdict.reason)
        return await self.send_again(request, chain)

    async def follow(self, request: Request, chain: RequestChain | None = None) -> Outcome:
        """Sends a request and follow its redirects: each hop has a slot of its own and passes gate and robots.txt.

        A page that refreshes to another address after a short delay redirects there, permanently where at once. One
        that ends at a page for logging in is trouble.
        """
        chain, admission = chain or RequestChain(request.host), self.admission
        chain.requests += 1
        host = admission.gate.host(request.host)
        if not chain.further:
            admission.earn(host)
        outcome = await self.send(request, host)
        if isinstance(outcome, Fetched) and outcome.body and (outcome.raw is None or outcome.raw != request.copy):
            outcome = _refreshed(outcome, request, {request.url})
        reserved = admission.take_turn(request.url)
        if not isinstance(outcome, Redirected):
            return outcome
        chain.reserved = reserved
        hops: list[Redirected] = []
        outcome = await self._follow(request, chain, outcome, hops)
        return _login_required(request, hops, outcome) or outcome

    async def _follow(self, request: Request, chain: RequestChain, outcome: Outcome, hops: list[Redirected]) -> Outcome:
        """Follows redirects from the first one, `outcome`, on; each is added to `hops`."""
        asked = {request.url}
        cookies, permanent, home = ChainCookies(), True, origin_of(request.url)
        chain.bare = chain.bare or request.bare
        for _ in range(MAX_REDIRECTS):
            if not isinstance(outcome, Redirected):
                return outcome
            hops.append(outcome)
            url = outcome.location
            chain.bare = chain.bare or origin_of(url) != home  # also once it comes back: another site chose the address
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
                outcome = await self.send_again(hop, chain)
                outcome = _refreshed(outcome, request, asked) if isinstance(outcome, Fetched) else outcome
            if isinstance(outcome, FetchFailed) and chain.refusal is not None:
                if outcome.retry_after is not None:
                    self.admission.note_turn(request.url, Turn(chain.refusal.at, hop.host))
                return outcome._replace(detail=f"redirect to {url}: {outcome.detail}")
        if isinstance(outcome, Redirected):
            detail = f"more than {MAX_REDIRECTS} redirects, the last to {outcome.location}"
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
        """Returns why robots.txt of a redirect's target forbids it, fetching the file first where it is not known."""
        verdict = await self.permission(hop, chain)
        if isinstance(verdict, Allowed):
            return None
        if isinstance(verdict, NeedsFetch):
            return self._refused(hop.url, chain)
        return FetchFailed(hop.url, Trouble.ROBOTS, Scope.PAGE, f"redirect to {hop.url}: {verdict.reason}")

    async def permission(self, request: Request, chain: RequestChain) -> Allowed | Disallowed | NeedsFetch:
        """Returns what robots.txt says of a request, fetched first where it is not known: once, however many ask.

        It stays unknown where that cannot be waited for; the chain then says why.
        """
        verdict = self.robots.verdict(request.url, self.clock.now())
        if not isinstance(verdict, NeedsFetch):
            return verdict
        if (under_way := self.admission.robots_under_way.get(verdict.url)) is not None:
            await self._wait_for_robots(under_way, chain)
        else:
            await self.fetch_robots(verdict.url, chain)
        verdict = self.robots.verdict(request.url, self.clock.now())
        if not isinstance(verdict, NeedsFetch):
            chain.refusal = None
        elif chain.refusal is None:
            chain.refusal = self.admission.refuse(self.admission.gate.host(request.host), chain)
        return verdict

    async def _wait_for_robots(self, under_way: RobotsFetch, chain: RequestChain) -> None:
        """Waits a little until a robots.txt under way has come, where not too many do already."""
        if under_way.waiting >= LIMITS.max_waiting_per_host or self.waiting_for_robots >= LIMITS.max_waiting:
            return
        under_way.waiting += 1
        self.waiting_for_robots += 1
        self.waiting_in_slots += chain.in_slot
        try:
            async with asyncio.timeout(LIMITS.max_wait):
                await under_way.wait()
        except TimeoutError:
            log.debug("robots.txt took too long to wait for", extra={"origin": chain.payer})
        finally:
            under_way.waiting -= 1
            self.waiting_for_robots -= 1
            self.waiting_in_slots -= chain.in_slot

    def fetch_robots(self, url: str, chain: RequestChain | None = None) -> Coroutine[Any, Any, None]:
        """Fetches a robots.txt, under way from this call on: for a chain, or else with a slot and gate of its own."""
        self.admission.robots_under_way[url] = RobotsFetch()
        return self._fetch_robots(url, chain)

    async def _fetch_robots(self, url: str, chain: RequestChain | None) -> None:
        request = Request(url, host_of(url), Purpose.ROBOTS)
        try:
            if chain is None:
                await self._learn_robots(request, await self.follow(request))
            elif await self._wait(request.host, chain):
                # Its own redirects are charged to the chain as well, whatever turn that has elsewhere.
                inner = RequestChain(chain.payer, in_slot=chain.in_slot, further=True)
                await self._learn_robots(request, await self.follow(request, inner))
                chain.requests += inner.requests
        finally:
            self.admission.robots_under_way.pop(url).set()

    async def _read_robots(self, request: Request, body: bytes) -> RobotsReading:
        """Reads a robots.txt, in a worker unless it is small; TooCostlyError where that exceeds a limit."""
        given = (body, request.url, self.robots.token)
        if len(body) <= SMALL_ROBOTS:
            return read_robots(*given)
        return await self.workers.run(request.host, read_robots, *given)

    async def _learn_robots(self, request: Request, outcome: Outcome) -> None:
        """Takes over what a robots.txt says; one that costs too much to read is unavailable."""
        url, reading = request.url, None
        if isinstance(outcome, Fetched) and 200 <= outcome.status < 300:
            try:
                reading = await self._read_robots(request, outcome.body)
            except TooCostlyError as error:
                outcome = FetchFailed(url, Trouble.TOO_COSTLY, Scope.PAGE, str(error), outcome.status)
        now = self.clock.now()
        state, changed = self.admission.learn_robots(url, request.host, outcome, reading)
        if self.admission.pages.on_host(request.host):
            self._store.record_robots(state)
        if changed is not None:
            self._store.record_host(changed)
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


def _outcome_name(outcome: Outcome) -> str:
    """An outcome in one word of `OUTCOMES`: for counters."""
    if isinstance(outcome, FetchFailed):
        return outcome.trouble.value
    if isinstance(outcome, Redirected):
        return "redirected"
    return "not_modified" if outcome.status == 304 else "gone" if outcome.status in GONE_STATUSES else "ok"


def _refreshed(outcome: Fetched, request: Request, asked: Container[str]) -> Outcome:
    """The answer, as a redirect where it is a page that sends its readers on; not to where they have been."""
    if request.purpose is not Purpose.PAGE or not outcome.body:
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
