"""The connection an answer comes in on: what it may cost, and what it may bring besides the body.

aiohttp parses whatever has arrived in one go, up to 256 KB of it, on the event loop. A server that sends nothing but
framing (interim answers, chunks of one byte, headers, trailers) keeps the loop busy for tens of milliseconds with each
read. Here the parser gets its bytes in small pieces, framing has a budget for each answer, and an answer that costs
more than others waits for turns (see `LoopShare`).

What this relies on: `TCPConnector._factory` makes the protocol of a connection; `set_response_params` readies the
parser for one answer; `feed_data` gets each parsed head with its body's reader; a reader counts its bytes in
`total_bytes`.
`tests/integration/test_fetch_floods.py` fails where one of these changes.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import Any, Protocol, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import BadHttpMessage
from yarl import URL

from crawld.model.errors import UnsentError


@dataclass(frozen=True)
class ConnectionLimits:
    """Numbers that bound and tune this module."""

    share: float = 0.2
    """Share of the loop's time that all costly connections get together: most of a core stays for the others."""
    min_gap: float = 0.002
    """Seconds between two turns at least: waking up costs more than the smallest reads."""
    min_wait: float = 0.02
    """Seconds between two turns of one connection at least: small segments gather in the kernel meanwhile."""
    unseen: float = 2.0
    """A turn costs this many times what parsing took: the waiting task reads what was parsed, and wakes up for it."""
    max_interim: int = 8
    """1xx answers before the answer itself: honest servers send one or two."""
    framing_bytes: int = 65_536
    """Bytes of one answer that are not body: heads, interim ones too, chunk sizes, extensions and trailers."""
    framing_share: float = 0.25
    """Framing allowed beyond that for each byte of body: chunks may have 24 bytes on average, however many they are."""
    piece: int = 8_192
    """Bytes given to the parser at once: the worst of them, chunks of one byte, take it some milliseconds."""
    first_piece: int = 1_024
    min_piece: int = 512
    """Pieces begin small, shrink where a step takes long, and grow while it does not."""
    step_seconds: float = 0.001
    """What one step of parsing should take; then the loop serves others."""
    free_seconds: float = 0.003
    """An answer that costs no more is parsed as it arrives, without turns: some fifty small reads."""
    free_seconds_per_byte: float = 5e-9
    """What a byte of body may cost beyond that: four times what a long body costs that arrives in large reads."""
    slow_byte: float = 2e-7
    """An answer with a piece that takes longer per byte has no free seconds left: honest heads take a quarter of
    that."""
    worst_byte: float = 5e-7
    """What a byte of a short first read of an answer is taken to cost: as much as the worst one does."""
    wake_seconds: float = 0.00005
    """What each read costs besides parsing: the loop wakes up, and so does the task that waits for the answer."""
    received_at_once: int = 65_536
    """Bytes taken from a socket at once; they may have to wait for their turn in memory."""
    kept_seconds: float = 60.0
    """Seconds for which an idle connection is kept where its host comes round that soon; most servers close it
    before."""
    closing_seconds: float = 1.0
    """A connection is not used again this long before its server closed the last idle one: it might be closing."""
    max_idle_hosts: int = 1_000
    """Hosts to which idle connections are kept. An idle connection with TLS takes some 50 KB."""
    max_known_hosts: int = 10_000
    """Hosts of which it is remembered when they were asked last."""
    max_idle: int = 1_000
    """Idle connections that hosts share evenly: one host alone may be asked many things at once, and keeps them all,"""
    max_idle_per_host: int = 4
    """but each may keep so many."""


LIMITS = ConnectionLimits()


# LoopShare for connections whose bytes cost much to read: together they get a share of the event loop, and no more.


class WaitingConnection(Protocol):
    """A connection that waits for its turn."""

    host: str

    def take_turn(self) -> float:
        """Read on for one step; return the seconds it took."""


class LoopShare:
    """A queue of hosts, each with a queue of connections."""

    def __init__(self) -> None:
        self._hosts: dict[str, deque[tuple[float, WaitingConnection]]] = {}
        self._order: deque[str] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many connections wait."""
        return sum(map(len, self._hosts.values()))

    def wait(self, connection: WaitingConnection) -> None:
        """Give the connection a turn when those before it have had theirs."""
        loop = asyncio.get_running_loop()
        queue = self._hosts.get(connection.host)
        if queue is None:
            queue = self._hosts[connection.host] = deque()
            self._order.append(connection.host)
        queue.append((loop.time() + LIMITS.min_wait, connection))
        if self._timer is None:
            self._timer = loop.call_later(LIMITS.min_wait, self._serve)

    def close(self) -> None:
        """Stop serving."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hosts.clear()
        self._order.clear()

    def _serve(self) -> None:
        """Serve the first host whose first connection has waited long enough, then rest for as long as that cost."""
        loop = asyncio.get_running_loop()
        self._timer = None
        gap = LIMITS.min_gap
        connection = self._next(loop.time())
        if connection is not None:
            gap = max(gap, connection.take_turn() * LIMITS.unseen * (1 / LIMITS.share - 1))
        if self._order and self._timer is None:
            self._timer = loop.call_later(gap, self._serve)

    def _next(self, now: float) -> WaitingConnection | None:
        for _ in range(len(self._order)):
            host = self._order.popleft()
            queue = self._hosts[host]
            ready, connection = queue[0]
            if ready > now:
                self._order.append(host)
                continue
            queue.popleft()
            if queue:
                self._order.append(host)
            else:
                del self._hosts[host]
            return connection
        return None


class _Valve(asyncio.Transport):
    """A transport that reads only where both the parser and the connection's turn allow it, and closes at once."""

    def __init__(self, inner: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__()
        self._inner, self._resumed = inner, resumed
        self.wanted, self._held, self._reading = True, False, True  # first, whether the parser takes more

    def pause_reading(self) -> None:
        """The parser has enough for now."""
        self.wanted = False
        self._set()

    def resume_reading(self) -> None:
        """The parser takes more."""
        if not self.wanted:
            self.wanted = True
            self._resumed()
            self._set()

    def hold(self, held: bool) -> None:
        """Read nothing while the connection waits for its turn."""
        self._held = held
        self._set()

    def _set(self) -> None:
        reading = self.wanted and not self._held
        if reading == self._reading or self._inner.is_closing():
            return
        self._reading = reading
        if reading:
            self._inner.resume_reading()
        else:
            self._inner.pause_reading()

    def is_reading(self) -> bool:
        """Whether bytes are being received."""
        return self._reading and not self._inner.is_closing()

    def close(self) -> None:
        """Let go of the connection without a farewell: a server could keep a closing handshake open for ever."""
        self._inner.abort()

    def abort(self) -> None:
        """The same."""
        self._inner.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the inner transport knows of itself."""
        return self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol."""
        self._inner.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who receives the bytes."""
        return self._inner.get_protocol()

    def write(self, data: Any) -> None:
        """Send bytes."""
        self._inner.write(data)

    def writelines(self, list_of_data: Any) -> None:
        """Send bytes."""
        self._inner.writelines(list_of_data)

    def get_write_buffer_size(self) -> int:
        """Bytes not sent yet."""
        return self._inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When writing pauses."""
        self._inner.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """When writing pauses."""
        return self._inner.get_write_buffer_limits()

    def can_write_eof(self) -> bool:
        """Whether one direction can be closed."""
        return self._inner.can_write_eof()

    def write_eof(self) -> None:
        """Close our direction."""
        self._inner.write_eof()


class BoundedConnection(ResponseHandler):
    """A connection whose answers are parsed in small steps, within a budget of framing and a share of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: LoopShare) -> None:
        super().__init__(loop)
        self._loop_share = turns
        self.host = ""
        self._valve: _Valve | None = None
        self._waiting = b""  # received, not parsed yet
        self._in_line = self._enough = False
        self.idle: Callable[[], None] | None = None  # called where a kept connection ends without another answer
        self._lost: tuple[BaseException | None] | None = None  # why the connection ended, told after `_waiting`
        self._piece = LIMITS.first_piece
        self._received, self._interim, self._spent = 0, 0, 0.0
        self._body: aiohttp.StreamReader | None = None
        self.lent: Connection | None = None  # the client's hold on it, kept while it is open: to make one costs much

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put a valve between the transport and the parser."""
        transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):
            transport.max_size = LIMITS.received_at_once
        limits = getattr(transport, "set_read_buffer_limits", None)  # only TLS transports have one
        if limits is not None:
            limits(high=LIMITS.received_at_once)
        self._valve = _Valve(transport, self._go_on)
        super().connection_made(self._valve)

    def begin(self, host: str, request: bytes, reading: Mapping[str, Any]) -> None:
        """Sends a request whose answer is read in that way; `host` pays for what it costs."""
        self.host = host
        self._received, self._interim, self._spent, self._body = 0, 0, 0.0, None
        self._piece = max(LIMITS.first_piece, self._piece // 2)  # half of what the answer before came to
        self.set_response_params(**reading)
        if self.transport is None:
            raise aiohttp.ServerDisconnectedError
        self.transport.write(request)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a parsed head and the reader of its body; interim heads are counted here and kept from the client."""
        message, body = data
        if 100 <= message.code < 200 and message.code != 101:
            self._interim += 1
            return
        self._body = body
        super().feed_data(data, size)

    def pause_reading(self) -> None:
        """The reader of the body has enough for now."""
        self._enough = True
        super().pause_reading()

    def resume_reading(self, *given: Any, **named: Any) -> None:
        """The reader takes more. It says so with every chunk it takes, and only the first time means something."""
        if self._enough:
            self._enough = False
            super().resume_reading(*given, **named)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless this answer has cost so much that it waits for its turn."""
        if not data:  # the client asks the parser to go on after a pause
            super().data_received(data)
            return
        self.idle = None
        if self._body is not None and self._body.is_eof():
            self._end("bytes after the end of the answer")
            return
        if not self._received and len(data) <= LIMITS.first_piece:  # too little to be worth measuring
            self._received = len(data)
            self._spent = LIMITS.wake_seconds + LIMITS.worst_byte * len(data)
            super().data_received(data)
            if self._interim:
                self._within_bounds()
            return
        self._waiting = self._waiting + data if self._waiting else data
        if self._spent > LIMITS.free_seconds and self._spent > self._free_seconds():
            self._stand_in_line()
        elif not self._in_line:
            self._spent += LIMITS.wake_seconds
            self._step()

    def end(self) -> None:
        """Close it, and let the client forget it."""
        if self.lent is not None:
            lent, self.lent = self.lent, None
            lent.close()

    def take_turn(self) -> float:
        """Parse one step; return the seconds it took."""
        self._in_line = False
        if self._valve is not None:
            self._valve.hold(False)
        return LIMITS.wake_seconds + self._step()

    def close(self) -> None:
        """Let go of the connection, and of what was received on it."""
        self._waiting, self.idle = b"", None
        super().close()
        self._tell_lost()

    def abort(self) -> None:
        """The same."""
        self._waiting, self.idle = b"", None
        super().abort()
        self._tell_lost()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the client that the connection ended, after what was received before."""
        if self.idle is not None:
            self.idle()
        if self._waiting:
            self._lost = (exc,)
        else:
            super().connection_lost(exc)

    def _step(self) -> float:
        """Parse pieces until the step has taken its time; what is left over waits in line."""
        began = thread_time()
        spent = 0.0
        while self._waiting and spent < LIMITS.step_seconds and (self._valve is None or self._valve.wanted):
            piece, self._waiting = self._waiting[: self._piece], self._waiting[self._piece :]
            self._received += len(piece)
            before = spent
            super().data_received(piece)
            if (self._interim or self._received > LIMITS.framing_bytes) and not self._within_bounds():
                break
            spent = thread_time() - began
            if len(piece) >= self._piece or spent - before > LIMITS.step_seconds:
                self._size_pieces(spent - before)
            if len(piece) >= LIMITS.min_piece and spent - before > LIMITS.slow_byte * len(piece):
                self._spent += LIMITS.free_seconds
                break
        self._spent += spent
        if self._waiting:
            self._go_on()
        elif self._lost is not None:
            self._tell_lost()
        return spent

    def _tell_lost(self) -> None:
        if self._lost is not None:
            (exc,), self._lost = self._lost, None
            super().connection_lost(exc)

    def _size_pieces(self, seconds: float) -> None:
        """Smaller pieces where parsing is slow; larger again where it is quick."""
        if seconds > LIMITS.step_seconds:
            self._piece = max(LIMITS.min_piece, self._piece // 2)
        elif seconds < LIMITS.step_seconds / 4:
            self._piece = min(LIMITS.piece, self._piece * 2)

    def _go_on(self) -> None:
        """Wait in line with what is left, unless the parser takes nothing now: then until it does."""
        if self._waiting and self._valve is not None:
            if self._valve.wanted:
                self._stand_in_line()
            else:
                self._valve.hold(True)

    def _stand_in_line(self) -> None:
        if self._valve is not None:
            self._valve.hold(True)
        if not self._in_line:
            self._in_line = True
            self._loop_share.wait(self)

    @property
    def _body_bytes(self) -> int:
        return 0 if self._body is None else self._body.total_bytes

    def _free_seconds(self) -> float:
        """What this answer may cost before it waits for turns."""
        return LIMITS.free_seconds + LIMITS.free_seconds_per_byte * self._body_bytes

    def _within_bounds(self) -> bool:
        """Whether the answer keeps to its bounds so far; it is ended where it does not."""
        body = self._body_bytes
        if self._interim > LIMITS.max_interim:
            self._end(f"more than {LIMITS.max_interim} interim answers")
        elif self._received - body > LIMITS.framing_bytes + LIMITS.framing_share * body:
            self._end(f"more than {LIMITS.framing_bytes:,} bytes of headers and framing")
        else:
            return True
        return False

    def _end(self, reason: str) -> None:
        """Break the answer off; whoever waits for it is told why."""
        self._waiting = b""
        error = BadHttpMessage(reason)
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(aiohttp.ClientPayloadError(reason))
        self.set_exception(error)
        if self._valve is not None:
            self._valve.abort()


@dataclass(slots=True)
class _HostUse:
    """When a connection to a host was last used, and for how long idle ones are kept."""

    at: float
    kept_seconds: float


class BoundedConnector(aiohttp.TCPConnector):
    """Opens bounded connections, and keeps few of them open while idle, each until its host comes round again.

    A host that is asked less often than its idle connections last has none. How long they last is learnt from the
    server, which closes them.
    """

    def __init__(self, turns: LoopShare, may_send: Callable[[], bool], **given: Any) -> None:
        super().__init__(keepalive_timeout=LIMITS.kept_seconds, **given)
        self._may_send = may_send
        self._kept: dict[ConnectionKey, deque[tuple[BoundedConnection, float]]] = {}  # each until that time
        self._uses: OrderedDict[ConnectionKey, _HostUse] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        make: Callable[..., ResponseHandler] = BoundedConnection
        self._factory = partial(make, asyncio.get_running_loop(), turns)

    async def lend(self, key: ConnectionKey, origin: URL, bounds: aiohttp.ClientTimeout) -> BoundedConnection:
        """A connection to send one request on; UnsentError where that may not be sent any more."""
        connection = self._take(key)
        if connection is None:
            lent = await self.connect(ClientRequest("GET", origin, loop=self._loop), [], bounds)
            connection = cast("BoundedConnection", lent.protocol)
            connection.lent = lent
        if not self._may_send():
            connection.end()
            raise UnsentError("the right to send this request has ended")
        return connection

    def _take(self, key: ConnectionKey) -> BoundedConnection | None:
        """The connection to that origin that has been idle longest, if it can still be used."""
        kept = self._kept.get(key)
        while kept:
            connection, until = kept.popleft()
            if not kept:
                del self._kept[key]
            if until >= self._loop.time() and connection.is_connected():
                return connection
            connection.end()
        return None

    def take_back(self, key: ConnectionKey, connection: BoundedConnection) -> None:
        """Keep a connection for the next request to its host, unless enough are kept or it would not last."""
        kept, hosts = self._kept.get(key), len(self._kept)
        full = (
            hosts >= LIMITS.max_idle_hosts
            if kept is None
            else len(kept) >= max(LIMITS.max_idle_per_host, LIMITS.max_idle // hosts)
        )
        use, seldom = self._use(key)
        if full or seldom or connection.should_close or self.closed:
            connection.end()
            return
        connection.idle = partial(self._ended, use, use.at)
        if kept is None:
            kept = self._kept[key] = deque()
        kept.append((connection, use.at + use.kept_seconds))
        if self._timer is None:
            self._timer = self._loop.call_later(LIMITS.kept_seconds, self._end_old)

    def _end_old(self) -> None:
        """Close the connections that have been idle for too long, and look again while there are others."""
        self._timer = None
        now = self._loop.time()
        for key, kept in list(self._kept.items()):
            for connection, until in kept:
                if until < now or not connection.is_connected():
                    connection.end()
            self._kept[key] = deque(one for one in kept if one[0].lent is not None)
            if not self._kept[key]:
                del self._kept[key]
        if self._kept:
            self._timer = self._loop.call_later(LIMITS.kept_seconds, self._end_old)

    def close(self, **given: Any) -> Any:
        """Let go of every connection."""
        if self._timer is not None:
            self._timer.cancel()
        for kept in self._kept.values():
            for connection, _ in kept:
                connection.end()
        self._kept.clear()
        return super().close(**given)

    def _use(self, key: ConnectionKey) -> tuple[_HostUse, bool]:
        """The use of a host, now; True where it comes round too seldom for a connection to last."""
        now = self._loop.time()
        use = self._uses.get(key)
        if use is None:
            self._uses[key] = use = _HostUse(now, LIMITS.kept_seconds)
            if len(self._uses) > LIMITS.max_known_hosts:
                self._uses.popitem(last=False)
            return use, False
        self._uses.move_to_end(key)
        seldom, use.at = now - use.at > use.kept_seconds, now
        if seldom:  # a server that closed one early may have had a reason of that day
            use.kept_seconds = min(use.kept_seconds + LIMITS.closing_seconds / 20, LIMITS.kept_seconds)
        return use, seldom

    @staticmethod
    def _ended(use: _HostUse, since: float) -> None:
        """The server has closed a connection that was kept since then."""
        use.kept_seconds = min(
            max(asyncio.get_running_loop().time() - since - LIMITS.closing_seconds, 0.0), LIMITS.kept_seconds
        )
