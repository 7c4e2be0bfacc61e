"""Files made to be dear cost no more than an honest large one, in time and in memory."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from crawld.model.errors import InputError
from crawld.read.dates import LIMITS as DATES_LIMITS
from crawld.read.dates import DateReader, Unusable
from crawld.read.listing import LIMITS as LISTING_LIMITS
from crawld.read.listing import Addresses, Unreadable, UnreadableError, load_json
from crawld.read.sitemap import read_sitemap
from tests.support.hostile_files import HOSTILE, entry, wrapped

NOW = 1_790_000_000.0
URL = "https://a.org/s.xml"
WORST = [
    "long hosts",
    "links in one item",
    "growing addresses",
    "padding after a member",
    "padding in the second layer",
    "broken entries",
    "json of objects",
    "blank lines",
    "siblings of parents",
]
MEASURE = """
import json, sys, time
from pathlib import Path
from crawld.read.listing import UnreadableError
from crawld.read.sitemap import read_sitemap
from tests.support.hostile_files import HOSTILE, honest_sitemap

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

name, = sys.argv[1:]
body = HOSTILE[name]() if name in HOSTILE else honest_sitemap()
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
before, began = peak(), time.process_time()
try:
    outcome = len(read_sitemap(body, "https://a.org/s.xml", 1_790_000_000.0).entries)
except UnreadableError as error:
    outcome = error.reason
print(json.dumps([time.process_time() - began, peak() - before, outcome]))
"""


def measured(name: str) -> tuple[float, int, object]:
    """Processor seconds and KB of memory that reading the file took in a process of its own, and what came of it."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", MEASURE, name], cwd=root, capture_output=True, text=True, check=True)
    seconds, kilobytes, outcome = json.loads(done.stdout)
    return seconds, kilobytes, outcome


@pytest.fixture(scope="module")
def honest() -> tuple[float, int, object]:
    """What an honest file of 50,000 entries costs."""
    return measured("honest")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells a process its peak memory")
@pytest.mark.parametrize("name", WORST)
def test_a_hostile_file_costs_no_more_than_an_honest_one(name: str, honest: tuple[float, int, object]) -> None:
    """No file takes several times the processor time of an honest large one, or 100 MB."""
    seconds, kilobytes, _ = measured(name)
    assert seconds < 4 * honest[0]
    assert kilobytes < 100_000
    assert honest[1] < 100_000
    assert honest[2] == 150_000 - 50_000  # every entry, and as many addresses in other languages


def test_every_layer_of_gzip_is_bounded() -> None:
    """What lies behind a member is not read, and no layer unpacks to more than a file may have."""
    inner = gzip.compress(wrapped(entry(1).encode()))
    assert len(read_sitemap(inner + bytes(1_000_000), URL, NOW).entries) == 1
    assert len(read_sitemap(gzip.compress(inner + bytes(1_000_000)), URL, NOW).entries) == 1
    nothing = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * (11 * 2**20)  # blocks of no bytes
    assert refusal(gzip.compress(nothing, 1)) is Unreadable.TOO_LARGE


def refusal(body: bytes) -> Unreadable | None:
    """Why a file is refused; None where it is read."""
    try:
        read_sitemap(body, URL, NOW)
    except UnreadableError as error:
        return error.reason
    return None


def test_an_encoded_host_is_encoded_once() -> None:
    """Addresses of one host in another script are all found; of thousands of hosts only the first are."""
    addresses = Addresses(URL)
    for written in ("https://münchen.example/ä?b#c", "HTTPS://m%C3%BCnchen.example:443/ä?b", "//münchen.example/ä?b"):
        assert addresses.locate(written) == "https://xn--mnchen-3ya.example/%C3%A4?b"
    assert addresses.locate("/ä", "http://b.org/x") == "http://b.org/%C3%A4"
    assert addresses.locate("https:ä") is None
    found = [addresses.locate(f"http://ä{i}.example/") for i in range(2 * LISTING_LIMITS.max_encoded_hosts)]
    assert sum(one is not None for one in found) == LISTING_LIMITS.max_encoded_hosts - 2
    assert addresses.locate("http://ä0.example/again") == "http://xn--0-zfa.example/again"


def test_a_file_has_so_many_addresses_and_no_more() -> None:
    """Where a file has had its share of addresses, the rest is left out and the listing is not complete."""
    addresses = Addresses(URL)
    assert (
        sum(addresses.locate("/x") is not None for _ in range(LISTING_LIMITS.max_addresses + 5))
        == LISTING_LIMITS.max_addresses
    )
    assert addresses.exhausted
    listing = read_sitemap(HOSTILE["growing addresses"]()[:30_000_000] + b"</loc></url></urlset>", URL, NOW)
    assert not listing.complete
    assert sum(len(one.loc) for one in listing.entries) < 21_000_000


def test_dates_that_say_nothing_are_tried_so_often_and_no_more() -> None:
    """After thousands of unusable dates the rest counts as unreadable, and still tells a change by its text."""
    dates = DateReader(NOW)
    assert [dates.read("some day").reason for _ in range(DATES_LIMITS.max_unusable)][-1] is Unusable.GARBLED
    late = dates.read("2026-01-01")
    assert (late.reason, late.raw) == (Unusable.GARBLED, "2026-01-01")


def test_json_is_counted_before_it_is_parsed() -> None:
    """JSON of many small values is refused before it takes memory; deep JSON is not JSON."""
    assert load_json("[1, 2]", 3) == [1, 2]
    for text in ("[1, 2, 3]", '{"a": [1, 2]}', "[" * 1000):
        with pytest.raises(InputError):
            load_json(text, 2)
    with pytest.raises(InputError, match="not JSON"):
        load_json("[" * 100_000, 10**6)
