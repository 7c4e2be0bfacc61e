"""Keeps the crawler out of the networks it runs in, whatever URL lists, redirects or name servers say.

The check sits where a socket is about to be opened, so it sees the address that is really connected to: of a
literal, of a name, of a redirect's target, and of a name whose answer changed since it was last looked up.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

from crawld.errors import InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")


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


def _kind(address: Address) -> str | None:
    """Why an address is not one of the public internet; None where it is."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return "IPv4-mapped"
        if address in _NAT64 or address in _NAT64_LOCAL:
            return "NAT64"
        if address.sixtofour is not None:
            return "6to4"
        if address.teredo is not None:
            return "Teredo"
        if address.is_site_local:
            return "site-local"
    for kind in ("unspecified", "loopback", "link_local", "multicast", "private", "reserved"):
        if getattr(address, f"is_{kind}"):
            return kind.replace("_", "-")
    return None if address.is_global else "not global"


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

    def open_socket(self, addr_info: Any) -> socket.socket:
        """Open a socket for one resolved address, or raise ForbiddenAddressError: aiohttp's `socket_factory`."""
        family, kind, protocol, _, address = addr_info
        reason = self.refusal(str(address[0]))
        if reason is not None:
            raise ForbiddenAddressError(str(address[0]), reason)
        return socket.socket(family=family, type=kind, proto=protocol)
