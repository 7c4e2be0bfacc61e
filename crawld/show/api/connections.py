"""The listener's connections: how many there may be, and how long one may say nothing that can be answered.

Each takes a file of the daemon, which asks servers with the same files. Where a bound is met, the connection that has
waited longest without a request gives way; where every one is being answered, the new one is closed.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web

from crawld.show.api.refusals import network_of
from crawld.show.api.sentences import Handler

MOST_CONNECTIONS = 256
"""Open at once: few of the 1,024 files of the smallest limit, and more than programs on one machine need."""
MOST_PER_ADDRESS = 64
"""Of one address: a proxy in front of the listener comes from one address and needs no more."""
MOST_READERS = 2_048
"""Open at once where files are plenty: readers who wait for a fresh copy keep their connections."""
FILES_SHARE, LOOPBACK_SHARE = 0.25, 0.75
"""Of the files that the system allows, what connections may take; of those, what programs on this machine may."""
HEAD_SECONDS = 15.0
"""From the opening of a connection, or the last answer, until a request's headers are whole."""
GRACE_SECONDS = 1.0
"""For which a connection may be idle where its address has more than strangers may have."""
SEND_SECONDS = 60.0
"""For which a client may take an answer out of the buffers."""
SWEEP_SECONDS = 1.0
"""Between two looks at all connections."""
RECEIVE_BYTES = 16_384
"""The kernel's buffer of a connection, which Linux doubles: what one turn of the loop parses of it at the most."""
PARSING_SHARE = 0.1
"""Of the loop's time that all connections together may take to parse: bytes can be sent that cost much."""
PARSING_CREDIT = 0.05
"""Seconds of waiting that are forgiven: ordinary requests never come near it."""
LONGEST_PAUSE = 5.0
"""Seconds for which a connection is not read at the most; others wait behind it less."""
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
    most: int = MOST_CONNECTIONS
    most_per_address: int = MOST_PER_ADDRESS
    most_here: int = MOST_PER_ADDRESS  # of a loopback address
    _paid_until: float = 0.0  # when what was parsed has had its share of the time
    _open: dict[asyncio.BaseTransport, Connection] = field(default_factory=dict)
    _by_address: Counter[str] = field(default_factory=Counter)

    @classmethod
    def by_files(cls, monotonic: Callable[[], float], files: int) -> "Connections":
        """As many as a process with so many files can spare; programs on this machine may have most of them."""
        most = max(MOST_CONNECTIONS, min(int(FILES_SHARE * files), MOST_READERS))
        here = int(LOOPBACK_SHARE * most) if most > MOST_CONNECTIONS else MOST_PER_ADDRESS
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
                self._close_idlest(own, GRACE_SECONDS)
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
        self._paid_until = max(self._paid_until, began) + (ended - began) / PARSING_SHARE
        pause = self._paid_until - ended
        return min(pause, LONGEST_PAUSE) if pause > PARSING_CREDIT else 0.0

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
            if not one.busy and waited > (SEND_SECONDS if sending else HEAD_SECONDS):
                assert transport is one.transport  # noqa: S101 - that is its key
                self._abort(one)
            elif self._by_address[one.address] > self.most_per_address and not one.busy and waited > GRACE_SECONDS:
                self._abort(one)

    async def keep_sweeping(self) -> None:
        """Do so until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
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
