"""A change sent by POST to a receiver of the operator's, signed so that the receiver knows who sent it.

The signature is HMAC-SHA256 over the timestamp, a dot and the body. Sendings are no crawling: they spend no slot
(docs/decisions/hooks.md), but they pass the address guard and say who we are.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
from yarl import URL

from crawld.fetch.faults import FAULTS, classify, printable
from crawld.fetch.guard import AddressGuard, BoundedResolver
from crawld.model.web import Clock
from crawld.read.headers import retry_after
from crawld.store.hooks import HookDelivery, NotDelivered


@dataclass(frozen=True)
class WebhookLimits:
    """Numbers that bound and tune this module."""

    read_bytes: int = 2_048
    """Of an answer: its status counts, and a refusal shows its first line."""
    max_connections: int = 16


LIMITS = WebhookLimits()


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """The value of the signature header."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Webhook:
    """Posts one change at a time; any status from 200 to 299 means that it was taken."""

    at_once = 1

    def __init__(
        self, url: str, secret: bytes, *, user_agent: str, guard: AddressGuard, clock: Clock, seconds: float
    ) -> None:
        self._url, self._secret, self._clock, self._guard = URL(url, encoded=True), secret, clock, guard
        self._agent, self._seconds = user_agent, seconds
        self._resolver: BoundedResolver | None = None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Post the change."""
        body = deliveries[0].document.encode()
        timestamp = str(int(self._clock.now()))
        headers = {
            "Content-Type": "application/json",
            "X-Crawld-Delivery": str(deliveries[0].change),
            "X-Crawld-Timestamp": timestamp,
            "X-Crawld-Signature": sign(self._secret, timestamp, body),
        }
        try:
            async with self._open().post(self._url, data=body, headers=headers, allow_redirects=False) as response:
                said = await response.content.read(LIMITS.read_bytes)
                return self._judge(response, said)
        except FAULTS as error:
            return NotDelivered(classify(error)[2])

    async def close(self) -> None:
        """Let go of every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._resolver is not None:
            await self._resolver.close()

    def _judge(self, response: aiohttp.ClientResponse, said: bytes) -> NotDelivered | None:
        status = response.status
        if 200 <= status < 300:
            return None
        if 300 <= status < 400:
            return NotDelivered(f"the receiver answered {status}: redirects are not followed, set the address it names")
        line = printable(said.decode("utf-8", "replace").strip().partition("\n")[0].strip())[:200]
        wait = retry_after(response.headers.get("Retry-After"), self._clock.now())
        return NotDelivered(f"the receiver answered {status}" + (f": {line}" if line else ""), wait)

    def _open(self) -> aiohttp.ClientSession:
        """The session, made at the first sending because it belongs to the running loop."""
        if self._session is None:
            self._resolver = BoundedResolver()
            connector = aiohttp.TCPConnector(
                limit=LIMITS.max_connections,
                keepalive_timeout=4,
                socket_factory=self._guard.open_socket,
                resolver=self._resolver,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._agent},
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                auto_decompress=False,
            )
        return self._session
