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
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""The only part of the IPv6 space that is given out for the public internet."""
# Everything inside the public space that is not public, with the reason shown to the operator; the first that fits
# counts. Listed here because Python's own tables differ between releases and miss some of them.
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
        (str(_MAPPED), "IPv4-mapped"),
        (str(_NAT64), "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)


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
    for network, reason in _NOT_PUBLIC:
        if address in network:
            return reason
    return None if address.version == 4 or address in _PUBLIC_V6 else "reserved"


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
