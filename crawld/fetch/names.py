"""Names to addresses: within a deadline, few addresses each, and never in a thread that others need."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import AsyncResolver, DefaultResolver

LOOKUP_SECONDS = 10.0
"""A lookup is given up after this, although whoever wanted it may be gone already: as long as connecting may take."""
MOST_ADDRESSES = 8
"""Addresses of a name that are tried, of both families: honest names have fewer, a hostile one could have thousands."""
CACHED_NAMES = 4_096
"""Names whose addresses are remembered, at most; the one not used longest is forgotten first."""
LOOKUP_THREADS = 16
"""Threads for lookups where the asynchronous resolver is not installed; they do nothing else."""


class BoundedResolver(AbstractResolver):
    """Another resolver within bounds: the asynchronous one where it is installed, else one with its own threads."""

    def __init__(self, inner: AbstractResolver | None = None, seconds: float = LOOKUP_SECONDS) -> None:
        self._owned = inner is None
        self._inner = inner or (DefaultResolver() if DefaultResolver is AsyncResolver else ThreadResolver())
        self._seconds = seconds

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The first addresses of a name; OSError where there are none in time."""
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._inner.resolve(host, port, family)
        except TimeoutError:
            raise OSError(None, "the name servers did not answer in time") from None
        return few(found)

    async def close(self) -> None:
        """Close the resolver, unless somebody else has made it."""
        if self._owned:
            await self._inner.close()


class ThreadResolver(AbstractResolver):
    """Lookups by the operating system, in threads of their own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Every address of a name."""
        loop = asyncio.get_running_loop()
        infos = await loop.run_in_executor(self._threads, _look_up, host, port, family)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=0, flags=flags)
            for kind, address in infos
        ]

    async def close(self) -> None:
        """Begin no further lookup; one under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: int) -> list[tuple[int, tuple[object, ...]]]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(kind, address) for kind, _, _, _, address in found if kind in {socket.AF_INET, socket.AF_INET6}]


def few(found: list[ResolveResult]) -> list[ResolveResult]:
    """The first addresses in the order they came; where one family would take all places, the other gets half."""
    six = sum(":" in one["host"] for one in found)
    half = MOST_ADDRESSES // 2
    places = {True: max(half, MOST_ADDRESSES - (len(found) - six)), False: max(half, MOST_ADDRESSES - six)}
    kept = []
    for one in found:
        family = ":" in one["host"]
        if places[family]:
            places[family] -= 1
            kept.append(one)
    return kept
