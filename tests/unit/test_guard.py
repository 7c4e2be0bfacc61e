"""Which addresses may be connected to."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.fetch.guard import AddressGuard, ForbiddenAddressError, parse_network
from crawld.model.errors import InputError

FORBIDDEN = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd12:3456::1", "fec0::1",
    "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "192.0.0.9", "192.0.0.170", "192.88.99.1", "168.63.129.16",
    "192.31.196.1", "192.52.193.1", "192.175.48.1", "2001:1::1", "2001:20::1", "2620:4f:8000::1", "3fff::1",
    "3fff:fff::1", "4000::1", "100::1", "5f00::1", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
    "100:0:0:1::1", "2001:2::1", "2001:4:112::1", "2d00::1", "3000::1", "2004::1", "2640::1", "::8.8.8.8",
    "not an address", "",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "168.63.129.17",
    "192.0.1.1",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2001:67c:4e8:f004::9",
    "2003:8::1",
    "2409:8000::1",
    "2620:0:2d0:200::7",
    "2801::1",
    "2c0f:fb50:4002::1",
    "1.0.0.1",
    "9.9.9.9",
    "11.0.0.1",
    "126.0.0.1",
    "128.0.0.1",
    "223.255.255.254",
    "2a00:1450:4001:800::200e",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_forbidden(address: str) -> None:
    """Private, local, reserved, multicast and translated addresses are refused with a reason."""
    assert AddressGuard().refusal(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    """Addresses of the public internet may be connected to."""
    assert AddressGuard().refusal(address) is None


def test_allowed_networks_and_nothing_else() -> None:
    """An allowed network opens itself alone."""
    guard = AddressGuard(["10.0.0.0/8", "::1"])
    assert guard.refusal("10.9.9.9") is None
    assert guard.refusal("::1") is None
    assert guard.refusal("192.168.1.1") == "private"
    assert guard.refusal("::ffff:10.9.9.9") == "IPv4-mapped"


def test_a_translating_network_opens_public_addresses_only() -> None:
    """Allowing the NAT64 prefix lets us reach the public internet through it, not the private networks behind it."""
    guard = AddressGuard(["64:ff9b::/96"])
    assert guard.refusal("64:ff9b::808:808") is None
    assert guard.refusal("64:ff9b::7f00:1") == "loopback"


def test_a_refused_socket_is_never_opened() -> None:
    """The factory raises for a forbidden address and opens a socket for an allowed one."""
    guard = AddressGuard(["127.0.0.0/8"])
    with pytest.raises(ForbiddenAddressError) as caught:
        guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80)))
    assert (caught.value.address, caught.value.reason) == ("10.0.0.1", "private")
    guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))).close()


@pytest.mark.parametrize("port", [22, 25, 53, 110, 143, 465, 587, 993, 2049, 6000, 6667, 10080])
def test_ports_of_other_services_are_refused(port: int) -> None:
    """No socket is opened to a port that browsers refuse, unless the operator has named the network."""
    with pytest.raises(ForbiddenAddressError, match="refused") as caught:
        AddressGuard().open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port)))
    assert caught.value.reason == f"port {port} belongs to another service"
    assert AddressGuard(["8.8.8.0/24"]).port_refusal("8.8.8.8", port) is None


@pytest.mark.parametrize("port", [80, 443, 3000, 5000, 8000, 8080, 8443, 49152])
def test_ordinary_ports_are_not_refused(port: int) -> None:
    """Ports that web servers use are open, the odd ones too."""
    assert AddressGuard().port_refusal("8.8.8.8", port) is None


@pytest.mark.parametrize("text", ["10.0.0.1/8", "nonsense", "10.0.0.0/33", ""])
def test_networks_that_are_none(text: str) -> None:
    """A network that cannot be read is named in a sentence."""
    with pytest.raises(InputError, match="is not a network"):
        parse_network(text)


@given(st.ip_addresses())
def test_what_is_let_through_is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Nothing that is let through is private, local or multicast."""
    if AddressGuard().refusal(str(address)) is None:
        assert address.is_global
        assert not any((address.is_private, address.is_loopback, address.is_multicast, address.is_link_local))


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    """What is not an address is refused, whatever it is."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        assert AddressGuard(["0.0.0.0/0", "::/0"]).refusal(text) == "unreadable"
