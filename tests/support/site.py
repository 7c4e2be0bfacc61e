"""A real server on loopback that behaves, or misbehaves, by name.

The first segment of a path names the behaviour: `/ok/17` is a page that stays, `/cue/17` changes when told to,
`/slow/3?seconds=2` answers late. Every request is logged when its head has been read. Hosts differ by address:
127.0.0.1, 127.0.0.2, … all on one port, so one site can be a whole web.

    async with Site(hosts=3) as site:
        outcome = await fetcher.fetch(Request(site.url("/ok/1", host=2), host=site.host(2)))
        assert site.visits("/ok/1")
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

Behaviour = Callable[["Visit"], Awaitable[None]]
LOOPBACK = "127.0.0.0/8"
STALL = 0.01  # seconds for which the server may stand still before that is noted


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of the access log."""

    monotonic: float
    wall: float
    method: str
    target: str  # path and query as asked
    host: str  # the Host header
    headers: Mapping[str, str]
    body: bytes = b""
    peer: object = None  # the client's end of the connection

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


@dataclass(slots=True)
class Visit:
    """One request being answered: what was asked, and the raw connection to answer on."""

    site: "Site"
    seen: Seen
    writer: asyncio.StreamWriter
    query: Mapping[str, str]
    keep: bool = True  # whether the connection may serve another request

    async def write(self, data: bytes) -> None:
        """Send raw bytes."""
        if self.writer.is_closing():
            raise ConnectionResetError("the client went away")  # over TLS neither of the next two would say so
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, body: bytes | str = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a proper answer, HTML unless the headers say otherwise."""
        data = body.encode() if isinstance(body, str) else body
        lines = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(data)), **(headers or {})}
        if status in {204, 304}:
            lines, data = dict(headers or {}), b""
        head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.write(head.encode("latin-1") + b"\r\n" + (b"" if self.seen.method == "HEAD" else data))

    async def reply_cached(self, body: bytes | str, etag: str) -> None:
        """Send a page with an ETag, or 304 where the client holds that very version."""
        if self.seen.headers.get("if-none-match") == etag:
            await self.reply(status=304, headers={"ETag": etag})
        else:
            await self.reply(body, headers={"ETag": etag})


@dataclass
class Site:
    """The server. Behaviours are looked up by exact path first, then by the first segment of the path."""

    hosts: int = 1
    addresses: Sequence[str] = ()  # instead of the first `hosts` of loopback
    tls: ssl.SSLContext | None = None
    seed: int = 0
    log: list[Seen] = field(default_factory=list)
    pages: dict[str, Behaviour] = field(default_factory=dict)  # exact path -> behaviour
    robots: dict[str, str | Behaviour] = field(default_factory=dict)  # address -> robots.txt; 404 where there is none
    versions: dict[str, int] = field(default_factory=dict)  # `/cue/…` pages: how often they changed
    port: int = 0
    began: float = 0.0
    stall: float = STALL
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when the machine kept the server waiting
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> "Site":
        self.began = time.monotonic()
        for opened in self._listen():
            self._servers.append(await asyncio.start_server(self._accept, sock=opened, limit=1 << 20, ssl=self.tls))
        self._tasks.add(asyncio.create_task(self._watch_lag()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # a task that is cancelled before it ran closes nothing
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    async def _watch_lag(self) -> None:
        while True:
            asleep = time.monotonic()
            await asyncio.sleep(self.stall / 4)
            woke = time.monotonic()
            if woke - asleep > self.stall:
                self.stalls.append((asleep, woke))

    @property
    def lag(self) -> float:
        """The longest this machine kept the server waiting: so far may a time in the log be off."""
        return max((end - start for start, end in self.stalls), default=self.stall)

    def most(self, rate: float, width: float) -> float:
        """The most requests that may be logged in a window where `rate` is promised: both its ends may be off."""
        return rate * (width + 2 * self.lag) + 1

    def address(self, host: int = 1) -> str:
        """The address of a host, counted from 1."""
        return self.addresses[host - 1] if self.addresses else f"127.0.{(host - 1) // 250}.{(host - 1) % 250 + 1}"

    def host(self, host: int = 1) -> str:
        """A host as `crawld.model.url.host_of` names it."""
        address = self.address(host)
        return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"

    def url(self, path: str, host: int = 1) -> str:
        """The absolute URL of a path on a host."""
        return f"{'https' if self.tls else 'http'}://{self.host(host)}{path}"

    def visits(self, path: str | None = None) -> list[Seen]:
        """What was asked, in order: everything, or one path with any query."""
        return [seen for seen in self.log if path is None or seen.path == path]

    def change(self, path: str) -> None:
        """Let a `/cue/…` page have a new version."""
        self.versions[path] = self.versions.get(path, 0) + 1

    def _listen(self) -> list[socket.socket]:
        """One socket per host, all on the first free port."""
        while True:
            opened: list[socket.socket] = []
            self.port = 0
            try:
                for host in range(1, (len(self.addresses) or self.hosts) + 1):
                    address = self.address(host)
                    family = socket.AF_INET6 if ":" in address else socket.AF_INET
                    opened.append(socket.create_server((address, self.port), family=family, backlog=1024))
                    self.port = opened[0].getsockname()[1]
            except OSError:
                for one in opened:
                    one.close()
                if not opened:
                    raise
            else:
                return opened

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; one that comes while the site closes is closed, since nothing would cancel its task."""
        if not self._servers[0].is_serving():
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client went away, as it may
        except asyncio.CancelledError:
            pass  # the site closes
        finally:
            writer.transport.abort() if self.tls else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if first == b"\x16":  # a TLS handshake: we speak none here, and say so as servers do
            writer.write(b"HTTP/1.1 400 This is plain HTTP\r\n\r\n")
            return False
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        asked, *lines = head[:-4].split("\r\n")
        method, target, _ = asked.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        peer = writer.get_extra_info("peername")
        seen = Seen(time.monotonic(), time.time(), method, target, headers.get("host", ""), headers, body, peer)
        self.log.append(seen)
        parts = urlsplit(target)
        visit = Visit(self, seen, writer, dict(parse_qsl(parts.query)))
        await self._behaviour(parts.path, visit)(visit)
        return visit.keep

    def _behaviour(self, path: str, visit: Visit) -> Behaviour:
        from tests.support.behaviours import BEHAVIOURS, not_found, robots_txt

        if path in self.pages:
            return self.pages[path]
        if path == "/robots.txt":
            answer = self.robots.get(visit.seen.host.rpartition(":")[0], not_found)
            return robots_txt(answer) if isinstance(answer, str) else answer
        return BEHAVIOURS.get(path.split("/")[1], not_found)
