"""The listener's bounds as pure code: who is counted together, what is forgotten, what parsing may cost."""

import pytest

from crawld.model.errors import StoreError
from crawld.show.api import access
from crawld.show.api.access import Connections, Right, Strangers, network_of, right_of
from crawld.show.api.copies import plausible_type
from crawld.store.versions import compress, decompress_to


def test_addresses_of_one_machine_are_counted_together() -> None:
    """An IPv6 network of 64 bits is one; an IPv4 address is itself, however it is written."""
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2::1%eth0") != network_of("2001:db8:1:3::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")


def test_a_million_strangers_leave_nothing() -> None:
    """Addresses beyond the bound are forgotten, and what one sends too much of comes back with time."""
    now = [0.0]
    strangers = Strangers(lambda: now[0])
    for number in range(3 * access.LIMITS.max_addresses):
        strangers.admit(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(strangers) == access.LIMITS.max_addresses
    now[0] += 1e4
    admitted = [strangers.admit("192.0.2.1") for _ in range(100)]
    assert admitted == [True] * int(access.LIMITS.strangers_burst) + [False] * (
        100 - int(access.LIMITS.strangers_burst)
    )
    now[0] += 1.0
    assert sum(strangers.admit("192.0.2.1") for _ in range(100)) == access.LIMITS.strangers_rate


def test_parsing_takes_its_share_of_the_time_and_no_more() -> None:
    """Cheap requests are never held up; bytes that cost much are read no faster than their share allows."""
    open_ones = Connections(lambda: 0.0)
    assert all(open_ones.parsed(at / 100, at / 100 + 1e-4) == 0.0 for at in range(1000))
    at, spent = 100.0, 0.0
    while at < 200.0:
        pause = open_ones.parsed(at, at + 0.02)
        spent, at = spent + 0.02, at + 0.02 + pause
    assert spent <= 100 * access.LIMITS.parsing_share * 1.1
    assert open_ones.parsed(at, at + 60.0) == access.LIMITS.max_pause


@pytest.mark.parametrize(
    "given", [None, "", "html", "text/html\r\nX: y", "text/html; <script>", "a/b; c", "x/" + "y" * 500]
)
def test_a_type_that_is_none_is_not_passed_on(given: str | None) -> None:
    """What a server sent as a type stands in our own header only where it is one."""
    assert plausible_type(given) == "application/octet-stream"


@pytest.mark.parametrize("given", ["text/html", 'text/html; charset="utf-8"', "application/ld+json;charset=utf-8"])
def test_a_type_is_passed_on(given: str) -> None:
    """Real types stay as they are."""
    assert plausible_type(given) == given


def test_a_copy_is_unpacked_to_its_stored_size_and_no_further() -> None:
    """Neither a row that says less than is there nor a damaged one gives bytes."""
    packed = compress(b"x" * 1_000_000)
    assert len(decompress_to(packed, 1_000_000)) == 1_000_000
    for bad, size in ((packed, 999_999), (packed, 1_000_001), (packed[:-5], 1_000_000), (b"nonsense", 8)):
        with pytest.raises(StoreError, match="the stored copy is damaged"):
            decompress_to(bad, size)


def test_what_is_not_named_needs_the_token() -> None:
    """A route added later is closed until somebody opens it."""
    assert right_of("POST", "/anything") is right_of("POST", "/copy") is right_of("PUT", "/websub") is Right.STEER
    assert right_of("HEAD", "/copy") is right_of("GET", "/anything") is right_of("GET", "/websub") is Right.READ
    assert right_of("POST", "/websub/abc") is right_of("GET", "/healthz") is Right.NONE
