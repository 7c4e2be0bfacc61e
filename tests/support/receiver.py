"""A receiver of webhooks on loopback that checks signatures and fails by name: half of the time, always, slowly."""

import asyncio
import hashlib
import hmac
import json
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

SECRET = "a secret of the test's own"


class Receiver:
    """Keeps every change that it took, in the order in which it took them."""

    def __init__(self, answers: Callable[[], int] = lambda: 204) -> None:
        self.answers = answers
        self.taken: list[dict[str, Any]] = []
        self.refused = 0
        self.requests: list[web.BaseRequest] = []
        self.delay = 0.0
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        self.port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where changes are to be posted."""
        return f"http://127.0.0.1:{self.port}/changed"

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        self.requests.append(request)
        await asyncio.sleep(self.delay)
        if not verified(request, body):
            return web.Response(status=401, text="bad signature")
        status = self.answers()
        if status < 300:
            self.taken.append(json.loads(body))
        else:
            self.refused += 1
        return web.Response(status=status)


def verified(request: web.BaseRequest, body: bytes) -> bool:
    """Whether whoever sent it knows the secret and sent it just now."""
    stamp = request.headers.get("X-Crawld-Timestamp", "0")
    expected = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    good = hmac.compare_digest(request.headers.get("X-Crawld-Signature", ""), f"sha256={expected}")
    return good and abs(time.time() - int(stamp)) < 300


def half_of_the_time(seed: int) -> Callable[[], int]:
    """Answers that are 503 half of the time."""
    luck = random.Random(seed)
    return lambda: 503 if luck.random() < 0.5 else 200


def hook(receiver: Receiver, **more: object) -> dict[str, object]:
    """The settings of a webhook to the receiver."""
    return {
        "name": "receiver",
        "webhook": receiver.url,
        "secret": SECRET,
        "allow_private": ["127.0.0.1"],
        "verdicts": ["new", "changed", "gone", "back"],
        "rate": "1000/s",
    } | more
