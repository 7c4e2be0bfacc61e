"""What tests against real servers share."""

from collections.abc import AsyncIterator, Callable

import pytest

from crawld.fetch.http import HttpFetcher
from crawld.model.clock import SystemClock
from tests.support.site import LOOPBACK, Site

AGENT = "crawld-test/1.0 (+https://example.org/bot)"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with two hosts."""
    async with Site(hosts=2) as opened:
        yield opened


@pytest.fixture
async def make_fetcher() -> AsyncIterator[Callable[..., HttpFetcher]]:
    """Makes fetchers that may talk to loopback, or have other options; all are closed however the test ends."""
    made: list[HttpFetcher] = []

    def make(**options: object) -> HttpFetcher:
        given: dict[str, object] = {"allow_private": [LOOPBACK]} | options
        made.append(HttpFetcher(SystemClock(), AGENT, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for fetcher in made:
        await fetcher.close()
