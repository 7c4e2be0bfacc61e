"""What tests against real servers share."""

from collections.abc import AsyncIterator, Callable

import pytest

from crawld.fetch.http import HttpFetcher
from crawld.model.clock import SystemClock
from crawld.read.workers import pool
from tests.support import warm
from tests.support.site import LOOPBACK, Site

AGENT = "crawld-test/1.0 (+https://example.org/bot)"


@pytest.fixture(autouse=True)
def _shared_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that read for daemons are forks of one that has imported the readers, which saves a second each."""
    monkeypatch.setattr(pool, "started_template", warm.shared_readers(warm.TEMPLATE.open))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with two hosts."""
    async with Site(hosts=2) as opened:
        yield opened


@pytest.fixture
async def fetcher() -> AsyncIterator[HttpFetcher]:
    """A fetcher that may talk to loopback."""
    opened = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK])
    yield opened
    await opened.close()


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
