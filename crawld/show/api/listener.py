"""The address of dashboard and API, and proof that this daemon answers there.

A program that may ask the control socket gets, for a nonce of its own, what only this process can answer to it at its
address. So a token or a login is handed to no other program that has taken the port.
"""

import asyncio
import hmac
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from aiohttp import web

from crawld.model.errors import InputError
from crawld.show.report import ListenerStatus

PROOF = "/listener"
"""The route of the proof: open at the listener, and with where that is over the control socket."""


class Listener:
    """State of the listener: not known yet, open at an address, or closed for a reason."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._known, self._control = asyncio.Event(), asyncio.Event()
        self.address: str | None = None
        self.trouble: str | None = None

    def opened(self, address: str) -> None:
        """It answers at the address."""
        self.address = address
        self._known.set()

    def closed(self, trouble: str | None = None) -> None:
        """It does not answer; `trouble` says why where that is not as the settings want it."""
        self.address, self.trouble = None, trouble
        self._known.set()

    def control_is_open(self) -> None:
        """Say that commands reach this process over the control socket."""
        self._control.set()

    async def known(self) -> str | None:
        """The address, as soon as it is known whether there is one and commands reach this process."""
        await self._control.wait()
        await self._known.wait()
        return self.address

    def standing(self) -> ListenerStatus:
        """Returns the address, or why there is none."""
        return ListenerStatus(self.address, self.trouble)

    def proof(self, nonce: str) -> str:
        """Returns what only this process can say to a nonce; InputError unless it is 32 to 64 hexadecimal digits."""
        if not re.fullmatch("[0-9a-f]{32,64}", nonce):
            raise InputError("give ?nonce=…, 32 to 64 hexadecimal digits")
        return hmac.new(self._secret, nonce.encode(), "sha256").hexdigest()


LISTENER = web.AppKey("listener", Listener)
BACKLOG = 1_024
"""Connections that the system keeps until they are looked at: many readers may come at once."""


@asynccontextmanager
async def answering(app: web.Application, **bounds: Any) -> AsyncIterator[web.Server]:
    """Makes what answers connections by an application, which is cleaned up in the end."""
    # A packed body would be unpacked on the loop.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, auto_decompress=False, **bounds)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - made by setup
    try:
        yield runner.server
    finally:
        await runner.cleanup()


async def prove(request: web.Request) -> web.Response:
    """Answer a nonce at the listener itself."""
    return web.json_response({"proof": request.app[LISTENER].proof(request.query.get("nonce", ""))})


async def vouch(request: web.Request) -> web.Response:
    """Say over the control socket where the listener is, and what it answers to a nonce."""
    listener = request.app[LISTENER]
    await listener.known()
    return web.json_response(asdict(listener.standing()) | {"proof": listener.proof(request.query.get("nonce", ""))})
