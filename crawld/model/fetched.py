"""Outcomes of one HTTP request: an answer, a redirect, or trouble. Trouble is a value, never an exception."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

GONE_STATUSES = frozenset({404, 410})


class Purpose(StrEnum):
    """Purpose of a request; every one spends a slot and passes the same gate."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    WEBSUB = "websub"
    PING = "ping"  # the key file that vouches for a pushed ping


class Use(StrEnum):
    """Use of a slot: the purpose of its request, or for a further request of a visit what that was for."""

    PAGE = "page"
    AUDIT = "audit"
    REDIRECT = "redirect"  # a hop, whatever led to it
    SECOND_LOOK = "second_look"
    CHECK = "check_304"  # whether the old validators would have hidden a change
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    WEBSUB = "websub"
    PING = "ping"


PERMANENT_REDIRECTS = frozenset({301, 308})
IDLE, SKIPPED = "idle", "skipped"
"""Fate of a slot that no request left in."""


class Trouble(StrEnum):
    """Every named way in which a request can go wrong."""

    DNS = "dns"
    REFUSED = "refused"  # connection refused or reset before an answer
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # not HTTP, broken chunks, headers too large, body cut short
    FORBIDDEN_ADDRESS = "forbidden_address"  # the guard said no
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_REDIRECT = "bad_redirect"
    TOO_LARGE = "too_large"
    ENCODING = "encoding"  # a body that does not decompress
    STATUS = "status"  # an HTTP status that brings no page
    ROBOTS = "robots"  # forbidden by robots.txt
    WRONG_TYPE = "wrong_type"
    NOINDEX = "noindex"  # a page that only links lead to asks not to be indexed
    ERROR_PAGE = "error_page"  # an error served as a page: the same text at many addresses at once
    HOST_NOT_READY = "host_not_ready"  # a redirect to a host that may not be asked soon
    OVER_SHARE = "over_share"  # further requests beyond what its site may send before other pages
    TOO_COSTLY = "too_costly"  # reading the answer took more time or memory than one page may have
    BOT_WALL = "bot_wall"  # a challenge for bots in place of the page
    PAYMENT_REQUIRED = "payment_required"  # 402
    LOGIN_REQUIRED = "login_required"  # 401, or a redirect to a login page
    FORBIDDEN = "forbidden"  # 403 by the site itself
    GEO_BLOCKED = "geo_blocked"  # 451, or refused in this country


TURNED_AWAY = (
    Trouble.BOT_WALL,
    Trouble.PAYMENT_REQUIRED,
    Trouble.LOGIN_REQUIRED,
    Trouble.FORBIDDEN,
    Trouble.GEO_BLOCKED,
)
"""Troubles of a site that answers well and lets us not in."""


class Scope(StrEnum):
    """Extent of trouble: the page alone, or everything its host serves."""

    PAGE = "page"
    HOST = "host"


class Request(NamedTuple):
    """One request about to be sent."""

    url: str
    host: str
    purpose: Purpose = Purpose.PAGE
    etag: str | None = None
    last_modified: str | None = None
    max_bytes: int | None = None
    form: tuple[tuple[str, str], ...] = ()  # sent as a POST where there is one
    cookie: str = ""  # what the redirects that led here have set
    use: Use | None = None  # of its slot, where that is not its purpose
    bare: bool = False  # no credentials go along: another origin led here
    copy: bytes | None = None  # the hash of the page's copy: what has the same bytes was looked at before


class Validators(NamedTuple):
    """Validators that an address sent with a copy, to ask that very address whether it is still the same."""

    url: str
    etag: str | None
    last_modified: str | None


class Fetched(NamedTuple):  # one is made for every visit: a tuple is the cheapest form
    """A complete answer: 2xx with its body, 304 without, or a 404/410 that says the page is gone."""

    url: str
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})  # lower-case names
    wire_bytes: int = 0
    duration: float = 0.0
    raw: bytes | None = None  # the hash of the body, where the request named a copy


class Redirected(NamedTuple):
    """A redirect to follow with a request of its own; `location` is a target."""

    url: str
    status: int
    location: str
    duration: float = 0.0
    set_cookies: tuple[str, ...] = ()  # the Set-Cookie lines


class FetchFailed(NamedTuple):
    """Trouble, whom it concerns, and when to come back (seconds from now): as the server asked, or as planned."""

    url: str
    trouble: Trouble
    scope: Scope
    detail: str = ""
    status: int | None = None
    retry_after: float | None = None
    duration: float = 0.0


Outcome = Fetched | Redirected | FetchFailed
ABORTED = "aborted"
"""The outcome of a request that was given up before it had one, as at a stop."""
OUTCOMES = ("ok", "not_modified", "gone", "redirected", *(trouble.value for trouble in Trouble), ABORTED)
"""Every outcome of a request by name."""


@dataclass(frozen=True, slots=True)
class RobotsReading:
    """Rules of one robots.txt for one crawler."""

    crawl_delay: float | None
    sitemaps: Sequence[str]
    rules: bytes | None  # packed by content.robots_pack; None: there are none, everything is allowed
    usage: str | None = None  # what pages may be used for, as `content.usage` reads it


@dataclass(frozen=True, slots=True)
class RobotsState:
    """Memory of one robots.txt, over a restart too. Times are UTC seconds."""

    origin: str
    agent: str  # the product token that the rules are for
    fresh_until: float
    good_until: float = 0.0  # how long the rules may be obeyed while the file is unavailable
    rules: bytes | None = None
    crawl_delay: float | None = None
    failures: int = 0
    reason: str = ""  # why the last fetch failed
    usage: str | None = None  # what pages may be used for
