"""Cookies within one chain of redirects: RFC 6265 for as long as the chain lasts, and never longer.

Some sites answer a first request with a cookie and a redirect, often to the same page, and redirect for ever unless
the cookie comes back. Nothing is kept after the chain, so no site can recognise us at the next visit.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from crawld.read.headers import http_date


@dataclass(frozen=True)
class CookiesLimits:
    """Numbers that bound and tune this module."""

    max_cookies: int = 50
    max_cookie: int = 4_096  # name and value
    max_header: int = 16_384
    max_lines: int = 100
    """Set-Cookie lines read of one answer."""
    max_attributes: int = 20
    """Attributes read of one Set-Cookie line; there are seven."""


LIMITS = CookiesLimits()


@dataclass(frozen=True, slots=True)
class _Cookie:
    """One cookie and where it belongs."""

    name: str
    value: str
    domain: str
    host_only: bool
    path: str
    secure: bool

    def belongs_to(self, scheme: str, host: str, path: str) -> bool:
        ours = host == self.domain or (not self.host_only and host.endswith(f".{self.domain}"))
        return ours and _within(path, self.path) and (scheme == "https" or not self.secure)


class ChainCookies:
    """The cookies that the redirects of one chain have set."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}

    def take(self, url: str, lines: Iterable[str], now: float) -> None:
        """Take over the Set-Cookie lines of an answer from `url`; what is malformed or foreign is ignored."""
        scheme, host, path = _parts(url)
        for line in islice(lines, LIMITS.max_lines):
            read = _read(line, scheme, host, path, now)
            if read is None:
                continue
            cookie, expired = read
            key = (cookie.domain, cookie.path, cookie.name)
            self._cookies.pop(key, None)
            if not expired and len(self._cookies) < LIMITS.max_cookies:
                self._cookies[key] = cookie

    def header(self, url: str) -> str:
        """The Cookie header for a request to `url`, empty where no cookie belongs to it."""
        place = _parts(url)
        matching = [cookie for cookie in self._cookies.values() if cookie.belongs_to(*place)]
        matching.sort(key=lambda cookie: -len(cookie.path))  # longer paths first; stable, so older ones first
        header = ""
        for cookie in matching:
            pair = f"{cookie.name}={cookie.value}"
            if len(header) + len(pair) + 2 > LIMITS.max_header:
                break
            header = f"{header}; {pair}" if header else pair
        return header


def _read(line: str, scheme: str, host: str, path: str, now: float) -> tuple[_Cookie, bool] | None:
    """The cookie a Set-Cookie line sets, and whether it is to be deleted."""
    pair, *attributes = line[: 2 * LIMITS.max_cookie].split(";", LIMITS.max_attributes)
    name, equals, value = (part.strip() for part in pair.partition("="))
    sendable = re.fullmatch(r"[^\s;,=\"]+", name) and not re.search("[\x00-\x1f\x7f\ud800-\udfff]", pair)
    if not equals or not sendable or len(pair) > LIMITS.max_cookie:
        return None
    given = {key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in attributes)}
    domain = given.get("domain", "").lower().removeprefix(".")
    if domain and not _may_speak_for(host, domain):
        return None
    secure = "secure" in given
    if secure and scheme != "https":
        return None
    given_path = given.get("path", "")
    cookie = _Cookie(
        name,
        value,
        domain or host,
        host_only=not domain,
        path=given_path if given_path.startswith("/") else path.rpartition("/")[0] or "/",
        secure=secure,
    )
    return cookie, _expired(given, now)


def _expired(given: dict[str, str], now: float) -> bool:
    if re.fullmatch(r"-?[0-9]{1,18}", given.get("max-age", "")):
        return int(given["max-age"]) <= 0
    expires = http_date(given["expires"]) if "expires" in given else None
    return expires is not None and expires <= now


def _may_speak_for(host: str, domain: str) -> bool:
    """Whether a host may set cookies for a domain: its own name, or one above it that is not a bare top level."""
    if host == domain:
        return True
    return host.endswith(f".{domain}") and "." in domain and not _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _within(path: str, prefix: str) -> bool:
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme, host without its port, and path of a normalised URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.path or "/"
