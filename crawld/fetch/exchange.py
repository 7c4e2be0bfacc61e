"""One request and its answer over a connection of the connector, and how long it may take.

This is what the client's session does for a request, without cookies, redirects, retries, proxies, middleware and
traces, of which crawld uses none: they take a third of the processor time of a 304. What it relies on beside what
`connection.py` does: `ResponseHandler.read` returns a parsed head with its body, and `_serialize_headers` refuses line
breaks.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
from aiohttp import hdrs
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.http_writer import _serialize_headers
from multidict import CIMultiDictProxy
from yarl import URL

from crawld.fetch.connection import LIMITS as CONNECTION_LIMITS
from crawld.fetch.connection import BoundedConnection, BoundedConnector
from crawld.model.url import normalise

ORIGINS = 4096
"""Size of the cache of origins that can be asked."""
READING: dict[str, Any] = {
    "read_until_eof": True,
    "auto_decompress": False,  # see body.py
    "max_line_size": 32_768,
    "max_field_size": 32_768,
    "max_headers": 256,
    "read_bufsize": CONNECTION_LIMITS.received_at_once,
}
"""How the client's parser reads answers."""
ACCEPT_ENCODING = {hdrs.ACCEPT_ENCODING: ClientRequest.DEFAULT_HEADERS[hdrs.ACCEPT_ENCODING]}


class Target(NamedTuple):
    """Where a request goes: the origin, as the client names it, and the path with its query."""

    origin: URL
    key: ConnectionKey
    host: str
    path: str


def target_of(url: str) -> Target:
    """Where a URL is asked; InputError where it cannot be. The path is sent byte for byte, with an empty query too."""
    scheme, _, host, path = normalise(url).split("/", 3)
    return Target(*_origin(scheme, host), f"/{path}")


@lru_cache(ORIGINS)
def _origin(scheme: str, host: str) -> tuple[URL, ConnectionKey, str]:
    origin = URL.build(scheme=scheme.removesuffix(":"), authority=host, path="/", encoded=True)
    key = ConnectionKey(origin.raw_host or "", origin.port, origin.scheme == "https", True, None, None, None)
    return origin, key, origin.host_port_subcomponent or ""


@dataclass(slots=True)
class Exchanged:
    """An answer whose head has come; its connection serves again once its body has come too."""

    status: int
    headers: CIMultiDictProxy[str]
    content: aiohttp.StreamReader
    _key: ConnectionKey
    _connection: BoundedConnection | None
    _connector: BoundedConnector

    @property
    def content_length(self) -> int | None:
        """The length that the head tells."""
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        return None if length is None else int(length)

    def release(self) -> None:
        """Let others have the connection, which is closed where the body has not come to its end."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._connector.take_back(self._key, connection)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.end()


class Exchange:
    """Sends requests over a connector."""

    def __init__(self, connector: BoundedConnector, connect_seconds: float) -> None:
        self._connector = connector
        self._bounds = aiohttp.ClientTimeout(total=None, connect=connect_seconds, sock_connect=connect_seconds)

    async def begin(
        self, host: str, target: Target, headers: Mapping[str, str], wait: "Wait", form: Any = ()
    ) -> Exchanged:
        """Sends a request, with a form as a POST, and waits for the head of its answer; raises what the client raises.

        `host` is the one that pays for what the answer costs.
        """
        body = b""
        if form:
            body = urlencode(form).encode()
            form_type = "application/x-www-form-urlencoded"
            headers = {**headers, "Content-Length": str(len(body)), "Content-Type": form_type}
        method = "POST" if form else "GET"
        head = _serialize_headers(f"{method} {target.path} HTTP/1.1", headers)  # type: ignore[arg-type]  # items() is all it asks for
        try:
            connection = await self._connector.lend(target.key, target.origin, self._bounds)
        except aiohttp.ClientError:
            raise
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {target.host}") from error
        except OSError as error:
            raise aiohttp.ClientOSError(*error.args) from error
        try:
            wait.reused = connection.host != ""
            connection.begin(host, head + body, READING)
            message, content = await connection.read()
        except BaseException:
            connection.end()
            raise
        answer = Exchanged(message.code, message.headers, content, target.key, connection, self._connector)
        content.on_eof(answer.release)
        return answer


# Deadlines of many requests at once: one timer for all of them, where one each would cost a tenth of a request.


@dataclass(slots=True, eq=False)
class Wait:
    """What a task waits for, the deadline that has passed, if one has, and whether the connection is a kept one."""

    task: "asyncio.Task[object]"
    expired_by: "Deadlines | None" = None
    reused: bool = False


class Deadlines:
    """Cancels tasks whose wait takes longer than so many seconds. All wait equally long: who began first ends first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Wait, float] = {}  # until a moment of the loop's time
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait: Wait | None = None) -> Wait:
        """The running task waits from now on, until `end`; one wait may have several deadlines."""
        loop = asyncio.get_running_loop()
        if wait is None:
            wait = Wait(asyncio.current_task(loop))  # type: ignore[arg-type]  # there is one
        self._waits[wait] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)
        return wait

    def end(self, wait: Wait) -> None:
        """What was waited for has come, or is not wanted any more."""
        self._waits.pop(wait, None)

    def expire(self, wait: Wait) -> None:
        """Let the deadline of a wait pass now."""
        if self._waits.pop(wait, None) is not None and wait.expired_by is None:
            wait.expired_by = self
            wait.task.cancel()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._waits:
            wait, until = next(iter(self._waits.items()))
            if until > loop.time():
                self._timer = loop.call_at(until, self._look)
                return
            self.expire(wait)


def expired(wait: Wait) -> bool:
    """Whether a cancellation that has come is that of a deadline alone: it is then taken back."""
    return wait.expired_by is not None and not wait.task.uncancel()
