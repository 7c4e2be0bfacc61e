"""Keeps the crawler out of the networks it runs in, whatever URL lists, redirects or name servers say.

The check sits where a socket is about to be opened, so it sees the address that is really connected to: of a
literal, of a name, of a redirect's target, and of a name whose answer changed since it was last looked up.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import AsyncResolver, DefaultResolver

from crawld.model.errors import InputError


@dataclass(frozen=True)
class GuardLimits:
    """Numbers that bound and tune this module."""

    lookup_seconds: float = 10.0
    """A lookup is given up after this, although whoever wanted it may be gone already: as long as connecting may
    take."""
    max_addresses: int = 8
    """Addresses of a name that are tried, of both families: honest names have fewer, a hostile one could have
    thousands."""
    cached_names: int = 4_096
    """Names whose addresses are remembered, at most; the one not used longest is forgotten first."""
    lookup_threads: int = 16
    """Threads for lookups where the asynchronous resolver is not installed; they do nothing else."""


LIMITS = GuardLimits()


# Names to addresses: within a deadline, few addresses each, and never in a thread that others need.


class BoundedResolver(AbstractResolver):
    """Another resolver within bounds: the asynchronous one where it is installed, else one with its own threads."""

    def __init__(self, inner: AbstractResolver | None = None, seconds: float = LIMITS.lookup_seconds) -> None:
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
        self._threads = ThreadPoolExecutor(LIMITS.lookup_threads, thread_name_prefix="lookup")

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
    half = LIMITS.max_addresses // 2
    places = {True: max(half, LIMITS.max_addresses - (len(found) - six)), False: max(half, LIMITS.max_addresses - six)}
    kept = []
    for one in found:
        family = ":" in one["host"]
        if places[family]:
            places[family] -= 1
            kept.append(one)
    return kept


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        # IPv4: every unicast block is given out, 1.0.0.0 to 223.255.255.255
        "1.0.0.0/8", "2.0.0.0/7", "4.0.0.0/6", "8.0.0.0/7", "11.0.0.0/8", "12.0.0.0/6", "16.0.0.0/4", "32.0.0.0/3",
        "64.0.0.0/3", "96.0.0.0/4", "112.0.0.0/5", "120.0.0.0/6", "124.0.0.0/7", "126.0.0.0/8", "128.0.0.0/2",
        "192.0.0.0/3",
        # IPv6: what the regional registries have been given to hand out
        "2001::/16", "2003::/18", "2400::/11", "2600::/12", "2610::/23", "2620::/23", "2630::/12", "2800::/12",
        "2a00::/11", "2c00::/12",
    )
)  # fmt: skip
"""What is public: nothing else is connected to. A block given out later can be named in `allow_private`."""
# Everything inside those blocks that is not public, and the best known blocks outside of them, with the reason shown to
# the operator; the first that fits counts. Listed here because Python's own tables differ between releases and miss
# some of them.
_NOT_PUBLIC: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared address space"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud platform"),  # Azure answers here for the virtual machine's own platform
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112"),
        ("192.52.193.0/24", "AMT"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "AS112"),
        ("3fff::/20", "documentation"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        (str(_NAT64), "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)


BAD_PORTS = frozenset(
    (
        1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
        110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530,
        531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190,
        5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    )
)  # fmt: skip
"""Ports of other services (mail, name servers, chat, files) that no browser speaks HTTP to: a redirect could make us
send them commands. Addresses in `allow_private` may have any port."""


class ForbiddenAddressError(OSError):
    """A connection that was not opened. Its text is always the same, so that several of them count as one."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__("address refused by the guard")
        self.address = address
        self.reason = reason


def parse_network(text: str) -> Network:
    """A network as an operator writes it: `10.0.0.0/8`, `fd00::/8` or a single address."""
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise InputError(f"{text!r} is not a network: {error}; write it like 10.0.0.0/8 or fd00::/8") from None


def _embedded(address: Address) -> Address | None:
    """The IPv4 address that a translated IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


@lru_cache(maxsize=4096)
def _kind(address: Address) -> str | None:
    """Why an address is not one of the public internet; None where it is."""
    for network, reason in _NOT_PUBLIC:
        if address in network:
            return reason
    return None if any(address in network for network in _PUBLIC) else "reserved"


class AddressGuard:
    """Says which addresses may be connected to: public ones, and those inside the networks the operator allows."""

    def __init__(self, allow_private: Iterable[str | Network] = ()) -> None:
        self.allowed = tuple(parse_network(n) if isinstance(n, str) else n for n in allow_private)

    def refusal(self, text: str) -> str | None:
        """Why the address is refused; None where it may be connected to.

        A translated address (NAT64, 6to4, mapped) inside an allowed network must also lead to an IPv4 address
        that may be connected to: allowing a NAT64 prefix does not open the private networks behind it.
        """
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return "unreadable"
        kind = _kind(address)
        if kind is None:
            return None
        if not any(address in network for network in self.allowed):
            return kind
        inner = _embedded(address)
        return None if inner is None else self.refusal(str(inner))

    def port_refusal(self, text: str, port: int) -> str | None:
        """Why the port of an address is refused; None where it may be connected to."""
        if port not in BAD_PORTS:
            return None
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(address in network for network in self.allowed):
            return None
        return f"port {port} belongs to another service"

    def open_socket(self, addr_info: Any) -> socket.socket:
        """Open a socket for one resolved address, or raise ForbiddenAddressError: aiohttp's `socket_factory`."""
        family, kind, protocol, _, address = addr_info
        reason = self.refusal(str(address[0])) or self.port_refusal(str(address[0]), address[1])
        if reason is not None:
            raise ForbiddenAddressError(str(address[0]), reason)
        return socket.socket(family=family, type=kind, proto=protocol)
