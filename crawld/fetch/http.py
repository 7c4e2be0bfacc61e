"""One HTTP request, sent once and read to its end or its limit. What goes wrong is an answer too."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict

from crawld import __version__
from crawld.fetch.body import LIMITS as BODY_LIMITS
from crawld.fetch.body import BodyMemory, BodyReader, PackedTooLargeError, drain, unpack_start
from crawld.fetch.connection import BoundedConnector, LoopShare
from crawld.fetch.cookies import LIMITS as COOKIES_LIMITS
from crawld.fetch.credentials import Credentials
from crawld.fetch.exchange import ACCEPT_ENCODING, Deadlines, Exchange, Exchanged, Wait, expired, target_of
from crawld.fetch.faults import FAULTS, classify, printable
from crawld.fetch.guard import LIMITS as GUARD_LIMITS
from crawld.fetch.guard import AddressGuard, BoundedResolver, Network
from crawld.fetch.signing import Signer
from crawld.model.errors import InputError, ParseError, TooCostlyError
from crawld.model.fetched import (
    GONE_STATUSES,
    Fetched,
    FetchFailed,
    Outcome,
    Purpose,
    Redirected,
    Request,
    Scope,
    Trouble,
)
from crawld.model.url import MAX_URL, origin_of, resolve
from crawld.model.web import Clock, Workers
from crawld.read.headers import if_none_match, media_type, plain_headers, retry_after
from crawld.read.page.digest import raw_hash
from crawld.read.robots import LIMITS as ROBOTS_LIMITS
from crawld.read.walls import turned_away

# Who we say we are: one set of headers on every request, with a way to reach the operator.


def user_agent(contact: str) -> str:
    """The User-Agent for a contact (a URL or an e-mail address)."""
    return check_user_agent(f"crawld/{__version__} (+{contact.strip()})")


def check_user_agent(text: str) -> str:
    """The User-Agent as it will be sent; InputError where a server's operator could not tell who asks."""
    text = text.strip()
    if not text:
        raise InputError("the user agent is empty: write one like crawld/1.0 (+https://example.org/bot)")
    if len(text) > 256:
        raise InputError(f"the user agent has {len(text)} characters: at most 256 are polite")
    if not text.isascii() or not text.isprintable():
        raise InputError("the user agent has characters that cannot be sent in a header: use printable ASCII")
    word = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
    if not re.match(rf"{word}(?:/{word})?(?:\s|$)", text):
        raise InputError(f"the user agent {text!r} does not begin with a name, like crawld/1.0")
    if not re.search(r"https?://[^\s/]+\.[^\s]+|[^\s@()<>]+@[^\s@()<>]+", text):
        raise InputError(
            f"the user agent {text!r} names no contact: add a URL or an e-mail address, like (+https://example.org/bot)"
        )
    return text


def product_token(agent: str) -> str:
    """The name that robots.txt groups are matched against: `crawld` of `crawld/1.0 (+…)`."""
    return re.split(r"[/\s]", agent, maxsplit=1)[0]


NO_CONTENT = {202, 204, 205, 207, 208, 226}
"""Successes without the page itself: accepted for later, nothing, nothing, WebDAV reports, a difference."""
COMPARED = {Purpose.PAGE, Purpose.SITEMAP, Purpose.FEED}
"""Purposes whose answers are compared with earlier ones; a WebSub hub may well answer 202."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for reaching a server, for the first bytes of its answer after that, and for the whole of it."""

    connect: float = 10.0
    first_byte: float = 20.0
    whole: float = 60.0


class HttpFetcher:
    """Sends requests: the `Fetcher` of the daemon."""

    def __init__(
        self,
        clock: Clock,
        user_agent: str,
        *,
        allow_private: Iterable[str | Network] = (),
        timeouts: Timeouts = Timeouts(),
        max_bytes: int = 10_000_000,
        resolver: AbstractResolver | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._clock = clock
        self.credentials = Credentials()
        self.signer: Signer | None = None
        self.may_send: Callable[[], bool] = lambda: True  # asked right before the first byte of a request leaves
        accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        self._headers = {"User-Agent": check_user_agent(user_agent), "Accept": accept} | ACCEPT_ENCODING
        self._guard = AddressGuard(allow_private)
        self._timeouts = timeouts
        self._first = Deadlines(timeouts.connect + timeouts.first_byte)
        self._whole = Deadlines(timeouts.whole)
        self._max_bytes = max_bytes
        self._given_resolver = resolver
        self._resolver: BoundedResolver | None = None
        self._loop_share = LoopShare()
        self._room = BodyMemory(self._whole)
        self._bodies = BodyReader(self._room, workers)
        self._connector: BoundedConnector | None = None
        self._exchange: Exchange | None = None

    def fetch(self, request: Request) -> Coroutine[Any, Any, Outcome]:
        """Send the request and read its answer to the end or to its limit; UnsentError where it may not be sent."""
        return self._fetch_redacted(request) if self.credentials.known else self._fetch(request)

    async def _fetch_redacted(self, request: Request) -> Outcome:
        return self.credentials.redact(request, await self._fetch(request))

    async def _fetch(self, request: Request) -> Outcome:
        began = self._clock.monotonic()
        try:
            target = target_of(request.url)
        except InputError as error:
            return self._failed(request, began, Trouble.FORBIDDEN_ADDRESS, Scope.PAGE, str(error))
        wait = self._whole.begin()
        self._first.begin(wait)
        try:
            exchange = self._exchange or self._open()
            headers = self._sent_headers(request, target.host)
            answer = await exchange.begin(request.host, target, headers, wait, request.form)
            self._first.end(wait)
            if answer.status == 304 and (request.etag is not None or request.last_modified is not None):
                answer.release()
                return self._fetched(request, answer, began)
            try:
                return await self._read(request, answer, began, wait)
            finally:
                answer.release()
        except TooCostlyError as error:
            return self._failed(request, began, Trouble.TOO_COSTLY, Scope.PAGE, str(error))
        except ParseError as error:
            return self._failed(request, began, Trouble.ENCODING, Scope.PAGE, str(error))
        except FAULTS as error:
            return self._failed(request, began, *classify(error, reused=wait.reused))
        except asyncio.CancelledError:
            if not expired(wait):
                raise
            late = aiohttp.SocketTimeoutError() if wait.expired_by is self._first else TimeoutError()
            return self._failed(request, began, *classify(late))
        finally:
            self._first.end(wait)
            self._whole.end(wait)

    async def close(self) -> None:
        """Let go of every connection."""
        self._first.close()
        self._whole.close()
        self._loop_share.close()
        self._room.close()
        if self._connector is not None:
            await self._connector.close()
        if self._resolver is not None:
            await self._resolver.close()

    def forget_names(self) -> None:
        """Look every name up anew."""
        if self._connector is not None:
            self._connector.clear_dns_cache()

    def _sent_headers(self, request: Request, host: str) -> Mapping[str, str]:
        """Who we are, the conditions of a request as the server sent them, cookies, credentials, a signature."""
        headers: MutableMapping[str, str] = {"Host": host, **self._headers}
        if request.cookie:
            headers["Cookie"] = request.cookie
        if request.etag:
            headers["If-None-Match"] = if_none_match(request.etag)
        if request.last_modified:
            headers["If-Modified-Since"] = request.last_modified
        if self.credentials.known:
            headers = CIMultiDict(headers)  # an operator may spell a name in any case
            self.credentials.add_to(headers, request)
        if self.signer is not None:
            headers.update(self.signer.headers(origin_of(request.url).partition("//")[2], self._clock.now()))
        return headers

    def _open(self) -> Exchange:
        """What sends requests, made at the first of them because it belongs to the running loop."""
        if self._exchange is None:
            self._resolver = BoundedResolver(self._given_resolver)
            self._connector = BoundedConnector(
                self._loop_share,
                self.may_send,
                limit=0,  # slots bound what is in flight; waiting here would be blamed on the host
                ttl_dns_cache=300,
                dns_cache_max_size=GUARD_LIMITS.cached_names,
                socket_factory=self._guard.open_socket,
                resolver=self._resolver,
            )
            self._exchange = Exchange(self._connector, self._timeouts.connect)
        return self._exchange

    async def _read(self, request: Request, response: Exchanged, began: float, whole: Wait) -> Outcome:
        status = response.status
        if status in {301, 302, 303, 307, 308}:
            return await self._redirected(request, response, began)
        if status == 304:
            detail = "304 to a request without conditions"
            return self._failed(request, began, Trouble.PROTOCOL, Scope.PAGE, detail, status=status)
        if status in GONE_STATUSES:
            await drain(response)
            return self._fetched(request, response, began)
        if not 200 <= status < 300 or status == 206 or (status in NO_CONTENT and request.purpose in COMPARED):
            return await self._refused(request, response, began)
        return await self._read_body(request, response, began, whole)

    async def _refused(self, request: Request, response: Exchanged, began: float) -> FetchFailed:
        """A status that brings no page, by name where the site turns us away."""
        status = response.status
        start = unpack_start(await drain(response), response.headers.get("Content-Encoding", ""))
        wait = retry_after(response.headers.get("Retry-After"), self._clock.now())
        asked = f", asked to wait {wait:.0f} s" if wait is not None else ""
        if (found := turned_away(status, plain_headers(response.headers.items()), start)) is not None:
            return self._failed(request, began, found[0], Scope.PAGE, found[1] + asked, status=status, wait=wait)
        scope = Scope.HOST if status == 429 or status >= 500 else Scope.PAGE
        return self._failed(request, began, Trouble.STATUS, scope, f"status {status}{asked}", status=status, wait=wait)

    async def _read_body(self, request: Request, response: Exchanged, began: float, whole: Wait) -> Outcome:
        kind = media_type(response.headers.get("Content-Type"))
        if request.purpose is Purpose.PAGE and kind and kind.startswith(("audio/", "video/")):
            response.close()
            detail = f"type {printable(kind)} is not kept"
            return self._failed(request, began, Trouble.WRONG_TYPE, Scope.PAGE, detail, status=response.status)
        cut = request.purpose is Purpose.ROBOTS  # of a long robots.txt the beginning counts; everything else is refused
        limit = request.max_bytes or (ROBOTS_LIMITS.max_robots if cut else self._max_bytes)
        body, wire = None, 0
        if (response.content_length or 0) <= limit or cut:
            try:
                body, wire = await self._bodies.read(response, limit, request.host, whole)
            except PackedTooLargeError:
                body = None
        if body is None or (len(body) > limit and not cut):
            response.close()
            detail = f"more than {limit:,} bytes"
            return self._failed(request, began, Trouble.TOO_LARGE, Scope.PAGE, detail, status=response.status)
        raw = None if request.copy is None or len(body) > BODY_LIMITS.hashed_in_place else raw_hash(body)
        answer = self._fetched(request, response, began, body[:limit], wire, raw)
        news = b"" if raw is not None and raw == request.copy else answer.body
        # Answers of these types may be a challenge in place of what was asked for.
        may_be_wall = kind in {None, "text/html", "application/xhtml+xml", "text/plain"}
        if may_be_wall and (found := turned_away(answer.status, answer.headers, news)) is not None:
            return self._failed(request, began, found[0], Scope.PAGE, found[1], status=answer.status)
        return answer

    async def _redirected(self, request: Request, response: Exchanged, began: float) -> Outcome:
        await drain(response)
        location = response.headers.get("Location", "")
        try:
            target = _absolute(request.url, location)
        except InputError as error:
            detail = f"redirect to {location[:100]!r}: {error}" if location else "redirect without a target"
            return self._failed(request, began, Trouble.BAD_REDIRECT, Scope.PAGE, detail, status=response.status)
        cookies = tuple(response.headers.getall("Set-Cookie", ())[: COOKIES_LIMITS.max_lines])
        return Redirected(request.url, response.status, target, self._clock.monotonic() - began, cookies)

    def _fetched(
        self,
        request: Request,
        response: Exchanged,
        began: float,
        body: bytes = b"",
        wire: int = 0,
        raw: bytes | None = None,
    ) -> Fetched:
        duration, headers = self._clock.monotonic() - began, plain_headers(response.headers.items())
        return Fetched(request.url, response.status, body, headers, wire, duration, raw)

    def _failed(
        self,
        request: Request,
        began: float,
        trouble: Trouble,
        scope: Scope,
        detail: str,
        *,
        status: int | None = None,
        wait: float | None = None,
    ) -> FetchFailed:
        duration = self._clock.monotonic() - began
        return FetchFailed(request.url, trouble, scope, detail, status=status, retry_after=wait, duration=duration)


def _absolute(base: str, location: str) -> str:
    """The target of a redirect; bytes beyond ASCII are escaped one by one, as browsers do, whatever their charset."""
    if len(location) > MAX_URL:
        raise InputError(f"target of {len(location):,} characters (at most {MAX_URL:,})")
    raw = location.encode("utf-8", "surrogateescape").strip()
    if not raw:
        raise InputError("no target")
    return resolve("".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in raw), base)
