"""Access to the listener: who may ask what, how much may come, and how a refusal reads.

A page in a browser can reach a listener on loopback by a name that it lets point there, so a request for a
name that is not ours is refused whatever it asks (421). Everything else needs the token, but for what proves itself.
The doors for strangers (IndexNow, WebSub) are open only where there is a public address. They, and all that changes
something, are refused to pages of other sites (403). Programs send the token; a browser exchanges a code that is good
once at /login for a cookie, which steers only from our own pages.

Connections, bodies and requests without the token are bounded; a request that is refused gets a status and a sentence.
"""

import asyncio
import hmac
import html
import math
import os
import re
import secrets
import stat
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from crawld.fetch.signing import DIRECTORY_PATH
from crawld.model.errors import CrawldError, StoreError
from crawld.model.usage import PageUse
from crawld.show.api.listener import PROOF


@dataclass(frozen=True)
class AccessLimits:
    """Numbers that bound and tune this module."""

    token_bytes: int = 32
    """Random bytes of a new token: 256 bits cannot be guessed."""
    min_token: int = 16
    """Characters that a token written by hand has at least; a shorter one is refused rather than trusted."""
    max_token: int = 1024
    """Characters of a token file that are read: a file that is no token is not taken into memory."""
    code_seconds: float = 600.0
    """For which a code is good: time enough to forward a port, or to carry the link to another machine."""
    cookie_seconds: int = 30 * 86400
    max_connections: int = 256
    """Open at once: few of the 1,024 files of the smallest limit, and more than programs on one machine need."""
    max_per_address: int = 64
    """Of one address: a proxy in front of the listener comes from one address and needs no more."""
    max_readers: int = 2_048
    """Open at once where files are plenty: readers who wait for a fresh copy keep their connections."""
    files_share: float = 0.25
    loopback_share: float = 0.75
    """Of the files that the system allows, what connections may take; of those, what programs on this machine may."""
    head_seconds: float = 15.0
    """From the opening of a connection, or the last answer, until a request's headers are whole."""
    grace_seconds: float = 1.0
    """For which a connection may be idle where its address has more than strangers may have."""
    send_seconds: float = 60.0
    """For which a client may take an answer out of the buffers."""
    sweep_seconds: float = 1.0
    """Between two looks at all connections."""
    parsing_share: float = 0.1
    """Of the loop's time that all connections together may take to parse: bytes can be sent that cost much."""
    parsing_credit: float = 0.05
    """Seconds of waiting that are forgiven: ordinary requests never come near it."""
    max_pause: float = 5.0
    """Seconds for which a connection is not read at the most; others wait behind it less."""
    body_seconds: float = 30.0
    """In which a request's body has to arrive: megabytes over a slow line, and no place held for longer."""
    strangers_rate: float = 20.0
    strangers_burst: float = 40.0
    """Requests a second, and at once, of one address without the token: a hub or a site that publishes sends far
    fewer."""
    all_rate: float = 100.0
    all_burst: float = 200.0
    """The same of all addresses together: at a fifth of a millisecond each they cost the loop a fiftieth of its
    time."""
    max_addresses: int = 4096
    """Addresses whose requests are counted; beyond it the one that was silent longest is forgotten (some 1 MB)."""
    refused_seconds: float = 1.0
    """Until a request too many is answered: a connection that floods gets one answer a second."""


LIMITS = AccessLimits()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def errors_are_sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors into a status with their own words: 400, or 503 where the database is in trouble.

    What was refused unread closes its connection, with the rest of what was sent.
    """
    try:
        return await handler(request)
    except RefusedError as error:
        if shows_pages(request):
            refused = web.Response(text=_page(str(error)), content_type="text/html", **error.answer)
        else:
            refused = web.json_response({"error": str(error)}, **error.answer)
        refused.force_close()
        return refused
    except web.HTTPException as error:  # what aiohttp itself answers, such as 404 and 405
        if error.status < 400:
            raise
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        sentence = f"{error.reason}: {request.method} {request.path}"
        return web.json_response({"error": sentence}, status=error.status, headers=headers)
    except StoreError as error:
        return web.json_response({"error": str(error)}, status=503)
    except CrawldError as error:
        return web.json_response({"error": str(error)}, status=400)


def actor_of(request: web.Request) -> str:
    """In whose name a request acts: how it proved itself, and where it came from."""
    if not request.remote:
        return "control socket"
    return f"{'token' if 'Authorization' in request.headers else 'browser'} at {request.remote}"


def shows_pages(request: web.Request) -> bool:
    """Tells whether a person waits for the answer in a browser, rather than a program."""
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _page(sentence: str) -> str:
    """A page that says the sentence, words between backquotes as code."""
    parts = html.escape(sentence).split("`")
    said = "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return f'<!doctype html><html lang="en"><title>crawld</title><h1>crawld</h1><p>{said}.</p></html>\n'


class RefusedError(CrawldError):
    """A request that is answered with a status and a sentence, after which its connection is closed."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def answer(self) -> dict[str, Any]:
        """Status and headers, as a response takes them."""
        return {"status": self.status, "headers": self.headers}


def use_denied(use: PageUse) -> RefusedError:
    """The refusal of a page to a consumer whose use its site denies."""
    return RefusedError(403, f"its site denies the use of this page for {use.value} (docs/usage.md)")


async def read_body(request: web.Request, most: int, *, in_chunks: bool = True) -> bytes:
    """The body of a request; RefusedError where it is longer than `most` bytes, compressed, or too slow.

    Without `in_chunks` it has to say its length: chunks of a byte each cost the loop a thousand times their size.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise RefusedError(415, "send the body without Content-Encoding")
    if request.content_length is None and not in_chunks:
        raise RefusedError(411, "say the length of the body with Content-Length")
    too_large = RefusedError(413, f"the body is larger than the {most:,} bytes that are taken here: send it in parts")
    if request.content_length is not None and request.content_length > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(LIMITS.body_seconds):
            async for some in request.content.iter_any():
                body += some
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {LIMITS.body_seconds:g} s") from None
    return bytes(body)


@dataclass(slots=True)
class _Bucket:
    """Requests that may still come now, as of a time."""

    left: float
    at: float

    def take(self, now: float, rate: float, burst: float) -> bool:
        """Count one request; False where it is one too many."""
        self.left = min(burst, self.left + (now - self.at) * rate)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(slots=True)
class Strangers:
    """Counts requests that come without the token, by address (of IPv6 the /64 network) and in all."""

    monotonic: Callable[[], float]
    _all: _Bucket = field(default_factory=lambda: _Bucket(LIMITS.all_burst, 0.0))
    _by_address: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._by_address)

    def admit(self, address: str) -> bool:
        """Tells whether one more request of this address is answered."""
        now, network = self.monotonic(), network_of(address)
        bucket = self._by_address.setdefault(network, _Bucket(LIMITS.strangers_burst, now))
        self._by_address.move_to_end(network)
        if len(self._by_address) > LIMITS.max_addresses:
            self._by_address.popitem(last=False)
        return bucket.take(now, LIMITS.strangers_rate, LIMITS.strangers_burst) and self._all.take(
            now, LIMITS.all_rate, LIMITS.all_burst
        )


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def network_of(address: str) -> str:
    """Returns whom an address belongs to: of IPv6 the /64, which one machine may have whole."""
    parsed = _parsed(address)
    return address if parsed is None else str(parsed) if parsed.version == 4 else parsed.exploded[:19]


LOOPBACK = frozenset({network_of("127.0.0.1"), network_of("::1")})


class Connection(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol, and knows since when no request is being answered."""

    def __init__(self, inner: asyncio.Protocol, among: "Connections") -> None:
        self._inner = inner
        self._among = among
        self._admitted = False
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.since = 0.0
        self.busy = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find a place, or close."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = network_of(str(peer[0])) if isinstance(peer, tuple) else ""
        self._admitted = self._among.admit(self)
        if self._admitted:
            self._inner.connection_made(transport)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        if self._admitted:
            self._among.forget(self)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand on, and read no more for a while where parsing has cost more than its share."""
        if not self._admitted:
            return
        began = self._among.monotonic()
        self._inner.data_received(data)
        pause = self._among.parsed(began, self._among.monotonic())
        if pause > 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(pause, self._read_on)

    def _read_on(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> bool | None:
        """Hand on."""
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        """Hand on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        self._inner.resume_writing()


@dataclass(slots=True)
class Connections:
    """Every connection of one listener."""

    monotonic: Callable[[], float]
    most: int = LIMITS.max_connections
    most_per_address: int = LIMITS.max_per_address
    most_here: int = LIMITS.max_per_address  # of a loopback address
    _paid_until: float = 0.0  # when what was parsed has had its share of the time
    _open: dict[asyncio.BaseTransport, Connection] = field(default_factory=dict)
    _by_address: Counter[str] = field(default_factory=Counter)

    @classmethod
    def by_files(cls, monotonic: Callable[[], float], files: int) -> "Connections":
        """As many as a process with so many files can spare; programs on this machine may have most of them."""
        most = max(LIMITS.max_connections, min(int(LIMITS.files_share * files), LIMITS.max_readers))
        here = int(LIMITS.loopback_share * most) if most > LIMITS.max_connections else LIMITS.max_per_address
        return cls(monotonic, most, most_here=here)

    def __len__(self) -> int:
        return len(self._open)

    def _most_of(self, address: str) -> int:
        return self.most_here if address in LOOPBACK else self.most_per_address

    def admit(self, new: Connection) -> bool:
        """Give a connection a place, where need be that of the one that has waited longest without a request."""
        held = self._by_address[new.address]
        own = [one for one in self._open.values() if one.address == new.address]
        if held >= self._most_of(new.address):
            room = self._close_idlest(own)
        else:
            if held >= self.most_per_address:
                self._close_idlest(own, LIMITS.grace_seconds)
            room = len(self._open) < self.most or self._close_idlest(list(self._open.values()))
        if not room or new.transport is None:
            return False
        new.since = self.monotonic()
        self._open[new.transport] = new
        self._by_address[new.address] += 1
        return True

    def forget(self, gone: Connection) -> None:
        """A connection has ended, or is being ended."""
        if gone.transport is not None and self._open.pop(gone.transport, None) is not None:
            self._by_address[gone.address] -= 1
            if not self._by_address[gone.address]:
                del self._by_address[gone.address]

    def parsed(self, began: float, ended: float) -> float:
        """Count time spent parsing; for how many seconds whose bytes they were is not to be read."""
        self._paid_until = max(self._paid_until, began) + (ended - began) / LIMITS.parsing_share
        pause = self._paid_until - ended
        return min(pause, LIMITS.max_pause) if pause > LIMITS.parsing_credit else 0.0

    def _close_idlest(self, among: list[Connection], seconds: float = 0.0) -> bool:
        """Close the one that has waited longest without a request, for at least so long; False where there is none."""
        before = self.monotonic() - seconds
        idle = min(
            (one for one in among if not one.busy and one.since <= before), key=lambda one: one.since, default=None
        )
        if idle is None:
            return False
        self._abort(idle)
        return True

    def _abort(self, one: Connection) -> None:
        if one.transport is not None:
            one.transport.abort()
        self.forget(one)

    def sweep(self) -> None:
        """Close what has waited too long."""
        now = self.monotonic()
        for transport, one in list(self._open.items()):
            waited = now - one.since
            sending = one.transport is not None and one.transport.get_write_buffer_size() > 0
            if not one.busy and waited > (LIMITS.send_seconds if sending else LIMITS.head_seconds):
                assert transport is one.transport  # noqa: S101 - that is its key
                self._abort(one)
            elif (
                self._by_address[one.address] > self.most_per_address and not one.busy and waited > LIMITS.grace_seconds
            ):
                self._abort(one)

    async def keep_sweeping(self) -> None:
        """Do so until cancelled."""
        while True:
            await asyncio.sleep(LIMITS.sweep_seconds)
            self.sweep()

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware that tells when a request is being answered."""
        one = None if request.transport is None else self._open.get(request.transport)
        if one is None:
            return await handler(request)
        one.busy += 1
        try:
            return await handler(request)
        finally:
            one.busy -= 1
            one.since = self.monotonic()


def login_code(token: str, now: float) -> str:
    """A code that lets one browser in."""
    claim = f"{now + LIMITS.code_seconds:.0f}.{secrets.token_hex(8)}"
    return f"{claim}.{_proof(token, claim)}"


def code_expiry(token: str, code: str) -> float:
    """Until when a code is good; minus infinity for what was not made from the token."""
    claim, _, proof = code.rpartition(".")
    until = claim.partition(".")[0]
    if not hmac.compare_digest(proof.encode("utf-8", "surrogateescape"), _proof(token, claim).encode()):
        return -math.inf
    return float(until)


def _proof(token: str, claim: str) -> str:
    text = f"a browser that may come in: {claim}".encode("utf-8", "surrogateescape")
    return hmac.new(token.encode(), text, "sha256").hexdigest()


def make_token(file: Path) -> str:
    """The token of the file, which is made with mode 0600 where there is none; StoreError where it cannot be used."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token(file)
    except OSError as error:
        raise _unusable(file, str(error.strerror)) from None
    token = secrets.token_urlsafe(LIMITS.token_bytes)
    try:
        with open(descriptor, "w", encoding="ascii") as opened:
            opened.write(f"{token}\n")
    except OSError as error:
        file.unlink(missing_ok=True)  # an empty one would be met at every later start
        raise _unusable(file, str(error.strerror)) from None
    return token


def read_token(file: Path) -> str:
    """Returns the token of the file; our own file that others may read is closed to them first."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(file, str(error.strerror)) from None
    with open(descriptor, encoding="ascii", errors="replace") as opened:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or (about.st_uid not in {0, os.geteuid()} and os.geteuid() != 0):
            raise _unusable(file, "it belongs to another user")
        if about.st_mode & 0o077 and about.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        token = opened.read(LIMITS.max_token).strip()
    if len(token) < LIMITS.min_token or not all("!" <= character <= "~" for character in token):
        raise _unusable(file, f"it holds no token of {LIMITS.min_token} characters or more")
    return token


def _unusable(file: Path, why: str) -> StoreError:
    return StoreError(f"the token file {file} cannot be used: {why}. Remove it, or set `api.token_file`.")


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+)(?::\d{1,5})?")
PORT = re.compile(r":\d{1,5}$")


LOGIN = "/login"
"""Where a browser that brings a code gets its cookie."""


class Right(Enum):
    """Right that a request needs."""

    NONE = "none"  # it proves itself, or says nothing worth hiding
    READ = "read"
    STEER = "steer"


def is_door(path: str) -> bool:
    """Tells whether strangers send something there: sites that publish, and hubs."""
    return path == "/indexnow" or path.startswith("/websub/")


def right_of(method: str, path: str) -> Right:
    """Right that a request needs: paths not named here need the token, and nothing that reads changes anything."""
    if path in {"/healthz", LOGIN, PROOF, DIRECTORY_PATH} or is_door(path):
        return Right.NONE
    return Right.READ if method in {"GET", "HEAD"} else Right.STEER


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one listener."""

    token: str
    hosts: Collection[str] = ()
    """Names, besides localhost and the address that was connected to, under which the listener answers."""
    open_reading: bool = False
    """True where reading needs no token on loopback."""
    public_url: str | None = None
    """The address under which strangers reach the listener; without one its doors for them are shut."""
    started: float = field(default_factory=time.time)
    _used: dict[str, float] = field(default_factory=dict)  # codes that let a browser in, and until when they are kept

    def refusal(self, request: web.Request) -> RefusedError | None:
        """Returns why a request is not answered; None where it is."""
        host, own = host_named(request), _address(request, "sockname")
        if host is None or not self._ours(host, own):
            shown = "no host" if host is None else f"the host {host[:100]!r}"
            return RefusedError(421, f"{shown} is not answered for here: add it to `api.hosts` if it is yours")
        right, door = right_of(request.method, request.path), is_door(request.path)
        if (right is Right.STEER or door) and not self._same_origin(request, own):
            return RefusedError(403, "a page of another site may not ask this")
        if door and self.public_url is None:
            return RefusedError(404, "nothing is pushed here: `api.public_url` is not set")
        if right is Right.NONE or self.knows(request) or (right is Right.READ and self._open_to(request, host)):
            return None
        if right is Right.READ and self._opens_feed(request):
            return None
        if self._has_cookie(request):
            if right is Right.READ or _from_our_page(request):
                return None
            return RefusedError(403, "a browser may ask this from our own pages alone")
        sentence = (
            "this needs the token that `crawld token` prints, sent as `Authorization: Bearer TOKEN`; "
            "`crawld dashboard` prints the link that opens it in a browser"
        )
        return RefusedError(401, sentence, WWW_Authenticate='Bearer realm="crawld"')

    def knows(self, request: web.Request) -> bool:
        """Tells whether a request brings the token; how long that takes tells nothing of it."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.opens(given.strip())

    def opens(self, token: str) -> bool:
        """Tells whether this is the token; how long the answer takes tells nothing of it."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self.token.encode())

    def redeem(self, code: str, now: float) -> bool:
        """Tells whether a code lets a browser in; it does so once, and none from before a restart does."""
        until = code_expiry(self.token, code)
        for old in [one for one, end in self._used.items() if end < now]:
            del self._used[old]
        made = until - LIMITS.code_seconds
        if now > until or made > now + 1.0 or made + 1.0 < self.started or code in self._used:
            return False
        self._used[code] = until
        return True

    def give_cookie(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the browser that gets this response in from now on. What it gets is not the token."""
        response.set_cookie(
            _cookie_name(request),
            self._cookie,
            max_age=LIMITS.cookie_seconds,
            httponly=True,
            samesite="Strict",
            path="/",
            secure=self._by_https(request),
        )

    def _by_https(self, request: web.Request) -> bool:
        """Tells whether the browser comes by https: at the public address, or as a trusted proxy says."""
        public = urlsplit(self.public_url or "")
        if public.scheme == "https" and host_named(request) == _plain_host(public.netloc):
            return True
        trusted = public.scheme == "https" or _is_loopback(_address(request, "peername"))
        return trusted and request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"

    @property
    def feed_key(self) -> str:
        """Key that opens the feed of changes alone: feed readers send no token, and keep what they are given."""
        return hmac.new(self.token.encode(), b"a reader of the feed", "sha256").hexdigest()

    def _opens_feed(self, request: web.Request) -> bool:
        given = request.query.get("key", "") if request.path == "/v1/feed" else ""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.feed_key.encode())

    @property
    def _cookie(self) -> str:
        return hmac.new(self.token.encode(), b"a browser that brought the token", "sha256").hexdigest()

    def _has_cookie(self, request: web.Request) -> bool:
        given = request.cookies.get(_cookie_name(request), "")
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._cookie.encode())

    def _ours(self, host: str, own: str) -> bool:
        return host == "localhost" or host in self.hosts or host == own

    def _same_origin(self, request: web.Request, own: str) -> bool:
        """Tells whether a request comes from no page or from one of our own: at this port, or by a proxy's name."""
        if request.headers.get("Sec-Fetch-Site", "none").lower() not in {"none", "same-origin"}:
            return False
        origin = request.headers.get("Origin")
        if origin is None:
            return True
        place = urlsplit(origin).netloc
        host = _plain_host(place) or ""
        port, asked = (PORT.search(one) for one in (place, request.headers.get("Host", "")))
        return host in self.hosts or (self._ours(host, own) and (port and port[0]) == (asked and asked[0]))

    def _open_to(self, request: web.Request, host: str) -> bool:
        """Tells whether reading is open to this request: it comes from this machine, to this machine, by no proxy."""
        ends = (_address(request, "peername"), _address(request, "sockname"))
        local = host == "localhost" or _is_loopback(host)
        # Headers of a proxy: what it hands on from elsewhere arrives from loopback all the same.
        by_proxy = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")
        proxied = any(name in request.headers for name in by_proxy)
        return self.open_reading and local and not proxied and all(map(_is_loopback, ends))


def _cookie_name(request: web.Request) -> str:
    """The name of the cookie, by the port: browsers send a host's cookies to all of its ports."""
    found = None if request.transport is None else request.transport.get_extra_info("sockname")
    return f"crawld-{found[1]}" if isinstance(found, tuple) else "crawld"


def _from_our_page(request: web.Request) -> bool:
    """Tells whether a browser says that the page which asks is from here, port included."""
    if request.headers.get("Sec-Fetch-Site", "same-origin").lower() != "same-origin":
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return "Sec-Fetch-Site" in request.headers
    return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()


def host_named(request: web.Request) -> str | None:
    """The host that the request's one Host header names, without its port; None where there is no such."""
    given = request.headers.getall("Host", [])
    return _plain_host(given[0]) if len(given) == 1 else None


def _plain_host(text: str) -> str | None:
    """A host as it is compared: lower case, no port, no last dot, addresses in their one spelling."""
    match = _HOST.fullmatch(text.strip())
    if match is None:
        return None
    name = match[1].strip("[]").lower().removesuffix(".")
    address = _parsed(name)
    return name if address is None else str(address)


def _address(request: web.Request, end: str) -> str:
    """The address of one end of the request's connection."""
    found = None if request.transport is None else request.transport.get_extra_info(end)
    address = _parsed(str(found[0])) if isinstance(found, tuple) else None
    return "" if address is None else str(address)


def _is_loopback(text: str) -> bool:
    address = _parsed(text)
    return address is not None and address.is_loopback


async def log_in(access: Access, request: web.Request) -> web.StreamResponse:
    """Exchange the code in the link for a cookie and lead on; the code is worth nothing from then on."""
    if not access.redeem(request.query.get("code", ""), time.time()):
        raise RefusedError(401, "this link was used, or is too old: `crawld dashboard` prints another")
    headers = {"Location": "/", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    response = web.Response(status=303, headers=headers)
    access.give_cookie(request, response)
    return response


def guarded_by(access: Access, strangers: Strangers) -> Middleware:
    """Returns the middleware that asks the rules and slows down clients that send too much without the token."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = access.refusal(request)
        stranger = refusal is not None or right_of(request.method, request.path) is Right.NONE
        if stranger and not access.knows(request) and not strangers.admit(_address(request, "peername")):
            await asyncio.sleep(LIMITS.refused_seconds)
            raise RefusedError(429, "too many requests without the token: try again later", Retry_After="5")
        if refusal is not None:
            raise refusal
        return await handler(request)

    return guard
