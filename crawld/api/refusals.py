"""Requests that are refused: by whom they claim to be for, who sends them, how many come, and how large they are."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from aiohttp import web

from crawld.errors import CrawldError
from crawld.model.usage import PageUse

BODY_SECONDS = 30.0
"""In which a request's body has to arrive: megabytes over a slow line, and no place held for longer."""
STRANGERS_RATE, STRANGERS_BURST = 20.0, 40.0
"""Requests a second, and at once, of one address without the token: a hub or a site that publishes sends far fewer."""
ALL_RATE, ALL_BURST = 100.0, 200.0
"""The same of all addresses together: at a fifth of a millisecond each they cost the loop a fiftieth of its time."""
MOST_ADDRESSES = 4096
"""Addresses whose requests are counted; beyond it the one that was silent longest is forgotten (some 1 MB)."""
REFUSED_SECONDS = 1.0
"""Until a request too many is answered: a connection that floods gets one answer a second."""


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
        async with asyncio.timeout(BODY_SECONDS):
            async for some in request.content.iter_any():
                body += some
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
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
    _all: _Bucket = field(default_factory=lambda: _Bucket(ALL_BURST, 0.0))
    _by_address: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._by_address)

    def admit(self, address: str) -> bool:
        """Whether one more request of this address is answered."""
        now, network = self.monotonic(), network_of(address)
        bucket = self._by_address.setdefault(network, _Bucket(STRANGERS_BURST, now))
        self._by_address.move_to_end(network)
        if len(self._by_address) > MOST_ADDRESSES:
            self._by_address.popitem(last=False)
        return bucket.take(now, STRANGERS_RATE, STRANGERS_BURST) and self._all.take(now, ALL_RATE, ALL_BURST)


def network_of(address: str) -> str:
    """Whom an address belongs to: of IPv6 the /64, which one machine may have whole."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else parsed.exploded[:19]
