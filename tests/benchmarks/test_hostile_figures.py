"""The benchmark of attacks: what it counts, and that it stays on loopback."""

from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

import pytest

from tests.support.attacks.figures import oldest_uncommitted, share_of
from tests.support.attacks.site import ATTACKS, good_urls, web_of
from tests.support.attacks.watch import Watched

URL = "http://127.1.0.1:80/page/1"


@pytest.mark.parametrize(
    ("asked", "crawls", "expected"),
    [
        pytest.param([10.0], [(URL, 9.99, 0.02, 10.15)], 0.14, id="from the end of the crawl to the row"),
        pytest.param([10.0, 11.0], [(URL, 9.99, 1.02, 11.1)], 0.09, id="of a visit with two requests"),
        pytest.param([10.0, 15.0], [(URL, 9.99, 0.02, 10.1)], 5.0, id="a request without a row waits to the end"),
        pytest.param([10.0], [("http://127.1.0.2:80/page/2", 9.99, 0.02, 19.0)], 10.0, id="rows of other pages"),
        pytest.param([], [], 0.0, id="nothing asked"),
    ],
)
def test_uncommitted_time(asked: list[float], crawls: list[tuple[str, float, float, float]], expected: float) -> None:
    """The time runs from the end of a crawl until it is visible; a request without a crawl waits until the run ends."""
    watched = Watched(crawls=crawls)
    assert oldest_uncommitted([(at, URL) for at in asked], watched, 20.0) == pytest.approx(expected)


def test_requests_are_compared_with_the_seconds_before_and_memory_with_the_calm_run() -> None:
    """What is left of the good requests, and what memory came on top."""
    attacked = {"good_per_second": 60.0, "calm_per_second": 80.0, "memory_mb": 130.5}
    found = share_of(attacked, {"good_per_second": 90.0, "calm_per_second": 95.0, "memory_mb": 100.0})
    assert (found["good_share"], found["extra_memory_mb"]) == (0.75, 30.5)


def test_every_page_is_on_loopback_and_on_its_attacks_own_hosts() -> None:
    """No attack shares a host with another one or with the good pages, and none leaves this machine."""
    seen = {urlsplit(url).hostname for url in good_urls(80, 1000, 200)}
    for name, attack in ATTACKS.items():
        hosts = {urlsplit(url).hostname for url in attack.pages(web_of(name, (80, 81), "127.1.0.1:80"))}
        assert hosts or attack.push is not None
        assert not hosts & seen
        assert all(ip_address(host or "") in ip_network("127.0.0.0/8") for host in hosts)
        seen |= hosts
