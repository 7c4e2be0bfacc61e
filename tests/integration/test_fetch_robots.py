"""robots.txt over a real connection: what each kind of answer allows."""

from functools import partial

import pytest

from crawld.fetch.http import HttpFetcher
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch, RobotsCache
from crawld.model.fetched import Purpose, Request
from tests.support.behaviours import answer, drop, hang_up, raw
from tests.support.site import Behaviour, Site

AGENT = "crawld-test/1.0 (+https://example.org/bot)"
FORBID = "User-agent: *\nDisallow: /"


ANSWERS: list[tuple[str, str | Behaviour, bool]] = [
    ("forbids", FORBID, False),
    ("allows", "User-agent: *\nAllow: /", True),
    ("for us", "User-agent: *\nAllow: /\nUser-agent: crawld-test\nDisallow: /", False),
    ("byte order mark", "\ufeff" + FORBID, False),
    ("empty", "", True),
    ("a web page", answer("<html><p>no such page</p></html>"), True),
    ("beyond the limit", "#" * 600_000 + "\n" + FORBID, True),
    ("before the limit", FORBID + "\n" + "#" * 600_000, False),
    ("401", answer(status=401), True),
    ("404", answer(status=404), True),
    ("429", answer(status=429), False),
    ("500", answer(status=500), False),
    ("503", answer(status=503), False),
    ("hangs up", hang_up, False),
    ("breaks off", drop, False),
    ("not HTTP", partial(raw, data=b"junk\r\n\r\n"), False),
    ("bytes of no charset", answer(b"User-agent: *\nDisallow: /\xff\xfe", content_type="text/plain"), True),
]


@pytest.mark.parametrize(("behaviour", "allowed"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_answers(behaviour: str | Behaviour, allowed: bool, site: Site, fetcher: HttpFetcher) -> None:
    """Each kind of answer allows or forbids the site's pages as the RFC has it, after one request."""
    site.robots[site.address()] = behaviour
    cache, page = RobotsCache(AGENT), site.url("/ok")
    needed = cache.verdict(page, 0.0)
    assert isinstance(needed, NeedsFetch)
    outcome = await fetcher.fetch(Request(needed.url, site.host(), Purpose.ROBOTS))
    cache.learn(needed.url, outcome, 0.0)
    assert isinstance(cache.verdict(page, 0.0), Allowed if allowed else Disallowed)
    assert [seen.path for seen in site.visits()] == ["/robots.txt"]
