"""WebSub: subscribing where a feed offers a hub, so that changes are pushed. Pure: requests and answers as values.

The life of a subscription: a poll finds a hub; `subscribe` gives the request to send it; the hub calls back and is
answered by `confirm`; from then on it delivers: `accept` checks the signature and says how to read the content, and
`take` hands what was read to the polled sources, as if it had been polled. Before the lease ends `renewals` asks for
another one. Any feed may name any address as its hub, so the feeds of a host have one hub; a hub's host is asked once
a day until it confirms something, and only a few such hosts a day.
"""

import base64
import binascii
import hashlib
import hmac
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from crawld.model.fetched import Fetched, Purpose, Request
from crawld.model.url import host_of
from crawld.signals.poll_signals import Slices
from crawld.signals.polled_sources import PolledSources, PollResult
from crawld.signals.reading import PollReading
from crawld.signals.schedule import File
from crawld.store.sources import Poll


@dataclass(frozen=True)
class WebsubLimits:
    """Numbers that bound and tune this module."""

    lease: float = 10 * 86_400.0
    max_lease: float = 30 * 86_400.0
    renew_before: float = 86_400.0
    ask_again: float = 86_400.0
    max_unconfirmed: int = 5
    """Hosts of hubs that never confirmed anything which are asked in a day."""
    max_delivered: int = 4 * 2**20


LIMITS = WebsubLimits()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A feed that a hub delivered: `read(now)` reads it; it can run in a worker."""

    url: str
    host: str
    read: Callable[[float], Any]


class Subscriptions:
    """The polled feeds that hubs push to us.

    `callback` is the public address the hubs are told; `keep` takes every change of a subscription for the store.
    """

    def __init__(
        self, sources: PolledSources, callback: str, new_secret: Callable[[], str], keep: Callable[[Poll], None]
    ) -> None:
        self._sources = sources
        self._callback = callback.rstrip("/")
        self._new_secret = new_secret
        self._keep = keep
        self._by_token: dict[str, str] = {}  # how callbacks name feeds -> the feed's address
        self._restores = 0  # as of which of the sources' the tokens are known
        self._hub_of: dict[str, tuple[str, float]] = {}  # by host of feeds: the host of their hub, asked when
        self._asked: dict[str, float] = {}  # hosts of hubs that have yet to confirm anything, asked when
        self._confirmed: set[str] = set()  # hosts of hubs that did

    def subscribe(self, url: str, hubs: Sequence[str], topic: str | None, now: float) -> Request | None:
        """The request to send where a poll of the feed at `url` found hubs; None where there is nothing to ask."""
        file = self._sources.schedule.get(url)
        if file is None or not hubs:
            return None
        if now < max(file.hub_asked_at + LIMITS.ask_again, file.hub_until - LIMITS.renew_before):
            return None
        self._tokens()
        if not self._may_ask(file.host, host_of(hubs[0]), now):
            return None
        file.hub, file.topic = hubs[0], topic or url
        return self._ask(file, now)

    def _may_ask(self, feed_host: str, hub_host: str, now: float) -> bool:
        """Tells whether the hub is the one of the feed's host, and has confirmed something or is one of today's few."""
        other, at = self._hub_of.get(feed_host, (hub_host, now))
        if other != hub_host and (other in self._confirmed or now < at + LIMITS.ask_again):
            return False
        if hub_host in self._confirmed:
            return True
        self._asked = {host: asked for host, asked in self._asked.items() if now < asked + LIMITS.ask_again}
        return hub_host not in self._asked and len(self._asked) < LIMITS.max_unconfirmed

    def renewals(self, now: float) -> Sequence[Request]:
        """Requests for the leases that are about to end."""
        tokens, schedule = self._tokens(), self._sources.schedule
        for token in [token for token, url in tokens.items() if url not in schedule]:
            del tokens[token]
        files = [file for url in tokens.values() if (file := schedule.get(url)) is not None and file.hub_until]
        ending = [f for f in files if now >= max(f.hub_until - LIMITS.renew_before, f.hub_asked_at + LIMITS.ask_again)]
        return [self._ask(file, now) for file in ending]

    def _ask(self, file: File, now: float) -> Request:
        file.hub_secret = file.hub_secret or self._new_secret()
        file.hub_asked_at = now
        self._tokens()[_token(file)] = file.url
        self._note(file)
        self._keep(Poll(file.exported(), polls=0))
        named = base64.urlsafe_b64encode(file.url.encode()).decode().rstrip("=")
        form = {
            "hub.mode": "subscribe",
            "hub.topic": file.topic or file.url,
            "hub.callback": f"{self._callback}/{_token(file)}.{named}",
            "hub.lease_seconds": f"{LIMITS.lease:.0f}",
        }
        if urlsplit(file.hub or "").scheme == "https":  # a secret in the clear is none
            form["hub.secret"] = file.hub_secret
        hub = file.hub or ""
        return Request(hub, host_of(hub), Purpose.WEBSUB, max_bytes=65_536, form=tuple(form.items()))

    def confirm(self, token: str, query: Mapping[str, str], now: float) -> tuple[int, str]:
        """The hub asks whether we meant it: the challenge where we did, 404 where we did not."""
        file = self._file(token)
        status, text = confirmation(file, query, now)
        if file is None or status != 200:
            return status, text
        if query.get("hub.mode") == "denied":
            file.hub_until = 0.0
        else:
            self._confirmed.add(host_of(file.hub or ""))
            file.hub_until = now + min(_seconds(query.get("hub.lease_seconds", "")), LIMITS.max_lease)
        self._keep(Poll(file.exported(), polls=0))
        return status, text

    def accept(
        self, token: str, body: bytes, headers: Mapping[str, str], now: float
    ) -> tuple[int, str, Delivery | None]:
        """The hub delivers the feed: 410 where we want none, else 202, and what to read where the signature is right.

        A wrong signature is answered like a right one, as the protocol asks: the forger learns nothing.
        """
        file = self._file(token)
        status, text, wanted = acceptance(file, body, headers, now)
        if file is None or not wanted:
            return status, text, None
        read = partial(self._sources.reader_of(file.url), Fetched(file.url, 200, body, {}))
        return status, text, Delivery(file.url, file.host, read)

    def take(self, url: str, reading: PollReading, now: float) -> Slices[PollResult]:
        """Take in what a delivery for the feed at `url` was read as."""
        return self._sources.take_delivery(url, reading, now)

    def _file(self, token: str) -> File | None:
        url = feed_of(token) or self._tokens().get(token)
        file = None if url is None else self._sources.schedule.get(url)
        return file if file is not None and is_token(token, file) else None

    def _tokens(self) -> dict[str, str]:
        """The feeds by their tokens; those of the last run, or of another worker before, are looked up once."""
        if self._restores != self._sources.restores:
            self._restores = self._sources.restores
            asked = [file for file in self._sources.schedule if file.hub_secret]
            self._by_token |= {_token(file): file.url for file in asked}
            self._confirmed |= {host_of(file.hub) for file in asked if file.hub and file.hub_until}
            for file in sorted(asked, key=lambda one: one.hub_asked_at):
                self._note(file)
        return self._by_token

    def _note(self, file: File) -> None:
        """Remember whose hub was asked, and when."""
        hub_host = host_of(file.hub or "")
        self._hub_of[file.host] = (hub_host, file.hub_asked_at)
        if hub_host not in self._confirmed:
            self._asked[hub_host] = file.hub_asked_at


def confirmation(file: File | None, query: Mapping[str, str], now: float) -> tuple[int, str]:
    """Status and text to answer a hub that asks whether we meant to subscribe to the file."""
    if file is None or query.get("hub.topic") != (file.topic or file.url):
        return 404, "no such subscription"
    mode = query.get("hub.mode")
    if mode == "denied":
        return 200, ""
    if mode != "subscribe" or "hub.challenge" not in query or now > file.hub_asked_at + LIMITS.ask_again:
        return 404, "not asked for"
    return 200, query["hub.challenge"]


def acceptance(file: File | None, body: bytes, headers: Mapping[str, str], now: float) -> tuple[int, str, bool]:
    """Status and text to answer a delivery of the file, and whether it is to be taken in."""
    if file is None or now > file.hub_until:
        return 410, "no such subscription", False
    if len(body) > LIMITS.max_delivered:
        return 413, "too large", False
    signed = urlsplit(file.hub or "").scheme == "https"
    return 202, "", not signed or _signature_holds(headers.get("x-hub-signature", ""), file.hub_secret or "", body)


def feed_of(token: str) -> str | None:
    """The feed that the last segment of a callback names; older callbacks name none."""
    named = token.partition(".")[2]
    try:
        url = base64.urlsafe_b64decode(named + "=" * (-len(named) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return url if url and "\0" not in url else None


def is_token(token: str, file: File) -> bool:
    """Tells whether the last segment of a callback is the file's."""
    return file.hub_secret is not None and hmac.compare_digest(token.partition(".")[0].encode(), _token(file).encode())


def _token(file: File) -> str:
    """A name for the callback that only the hub can know."""
    secret = (file.hub_secret or "").encode()
    return hmac.new(secret, f"callback {file.url}".encode(), hashlib.sha256).hexdigest()[:32]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return LIMITS.lease
    return seconds if math.isfinite(seconds) and seconds > 0 else LIMITS.lease


def _signature_holds(header: str, secret: str, body: bytes) -> bool:
    name, _, given = header.partition("=")
    if name not in {"sha1", "sha256", "sha384", "sha512"}:
        return False
    expected = hmac.new(secret.encode(), body, name).hexdigest()
    return hmac.compare_digest(expected.encode(), given.strip().lower().encode("utf-8", "replace"))
