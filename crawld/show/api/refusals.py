"""Requests that are refused: by whom they claim to be for, who sends them, how many come, and how large they are."""

import asyncio
import html
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from aiohttp import web

from crawld.model.errors import CrawldError, StoreError
from crawld.model.usage import PageUse
from crawld.show.actions import Control


@dataclass(frozen=True)
class RefusalsLimits:
    """Numbers that bound and tune this module."""

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


LIMITS = RefusalsLimits()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONTROL = web.AppKey("control", Control)


@web.middleware
async def errors_are_sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What crawld raises on purpose becomes a status with its own words: 400, or 503 where the database is in trouble.

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


def network_of(address: str) -> str:
    """Returns whom an address belongs to: of IPv6 the /64, which one machine may have whole."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else parsed.exploded[:19]
