"""Access rules of the listener: the Host and Origin a request names, and the token it brings.

A page in a browser can reach a listener on loopback by a name that it lets point there, so a request for a
name that is not ours is refused whatever it asks (421). Everything else needs the token, but for what proves itself.
The doors for strangers (IndexNow, WebSub) are open only where there is a public address. They, and all that changes
something, are refused to pages of other sites (403). Programs send the token; a browser exchanges a code that is good
once at /login for a cookie, which steers only from our own pages.
"""

import asyncio
import hmac
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from crawld.fetch.signing import DIRECTORY_PATH
from crawld.model.errors import StoreError
from crawld.show.api.listener import PROOF
from crawld.show.api.refusals import LIMITS as REFUSALS_LIMITS
from crawld.show.api.refusals import Handler, RefusedError, Strangers


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


LIMITS = AccessLimits()


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


FEED = "/v1/feed"
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
        given = request.query.get("key", "") if request.path == FEED else ""
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
    """By the port: browsers send a host's cookies to all of its ports."""
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


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


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
            await asyncio.sleep(REFUSALS_LIMITS.refused_seconds)
            raise RefusedError(429, "too many requests without the token: try again later", Retry_After="5")
        if refusal is not None:
            raise refusal
        return await handler(request)

    return guard
