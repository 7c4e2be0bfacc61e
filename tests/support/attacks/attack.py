"""What an attack is: pages that a list may name, how their hosts answer, and what is sent to the daemon meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.site import Behaviour, Visit

FIRST_NETWORK = 100  # 127.100.0.0/16 is the first attack's; good pages live far below
HOSTS_PER_ROW = 250


@dataclass(frozen=True, slots=True)
class Web:
    """The addresses of one attack: a network of loopback for itself, and the good host it may try to harm."""

    network: int
    port: int
    silent_port: int  # connections are taken by the kernel and never served
    victim: str  # a good host with its port

    def host(self, number: int = 0) -> str:
        """A host with its port; there are 60,000."""
        return f"127.{self.network}.{number // HOSTS_PER_ROW}.{number % HOSTS_PER_ROW + 1}:{self.port}"

    def url(self, path: str, host: int = 0) -> str:
        """The URL of a path on a host."""
        return f"http://{self.host(host)}{path}"

    def silent_url(self, path: str, host: int = 0) -> str:
        """The URL of a path on a host that never answers."""
        return f"http://{self.host(host).partition(':')[0]}:{self.silent_port}{path}"


@dataclass(frozen=True, slots=True)
class Door:
    """Where the daemon listens for pings, and the token that it asks for where it has one."""

    port: int
    token_file: Path

    def head(self, method: str, path: str, length: int) -> bytes:
        """The head of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Content-Length: {length}"]
        lines += ["Content-Type: application/json", "Connection: close"]
        if self.token_file.exists():
            lines.append(f"Authorization: Bearer {self.token_file.read_text().strip()}")
        return "\r\n".join([*lines, "", ""]).encode()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send one request; the status line of its answer, empty where the daemon hung up."""
        reader, writer = await self.open()
        try:
            writer.write(self.head(method, path, len(body)) + body)
            await writer.drain()
            return await reader.readline()
        except ConnectionError:
            return b""
        finally:
            writer.close()


Answers = Callable[[Web], Mapping[str, Behaviour]]
Push = Callable[[Door], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. Its sentence says what the hostile side does."""

    name: str
    sentence: str
    pages: Callable[[Web], Sequence[str]] = lambda _: ()
    answers: Answers = lambda _: {}  # by the first segment of the path; anything else is a small page or 404
    push: Push | None = None  # runs beside the daemon until cancelled
    least_seconds: float = 0.0  # attacks that fill something up need time to do so


def long_name(characters: int) -> str:
    """A URL whose host is one label of so many combining marks, which nobody can look up but a parser may encode."""
    return "http://a" + "".join(chr(0x300 + number % 50) for number in range(characters)) + ".example/"


def one_page_each(hosts: int, path: str = "/p/0") -> Callable[[Web], Sequence[str]]:
    """Pages: one on each of so many hosts."""
    return lambda web: [web.url(path, host) for host in range(hosts)]


def in_turn(behaviours: Sequence[Behaviour]) -> Behaviour:
    """Another behaviour at each request, over and over."""
    count = -1

    async def behave(visit: Visit) -> None:
        nonlocal count
        count += 1
        await behaviours[count % len(behaviours)](visit)

    return behave
