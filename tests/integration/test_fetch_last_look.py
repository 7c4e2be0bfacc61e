"""The last look: a request whose right to be sent has ended costs a connection at most, and no byte."""

import pytest

from crawld.fetch.http import HttpFetcher
from crawld.model.clock import SystemClock
from crawld.model.errors import UnsentError
from crawld.model.fetched import Fetched, Request
from tests.support.site import LOOPBACK, Site


async def test_a_request_that_may_not_be_sent_reaches_no_server() -> None:
    """On a new connection and on a kept one; the next request that may be sent is answered."""
    async with Site() as site:
        fetcher = HttpFetcher(SystemClock(), "test/1 (+https://example.org/bot)", allow_private=[LOOPBACK])
        allowed = [True]
        fetcher.may_send = lambda: allowed[0]
        request = Request(site.url("/ok/1"), site.host())
        try:
            for _ in range(2):
                allowed[0] = False
                with pytest.raises(UnsentError):
                    await fetcher.fetch(request)
                allowed[0] = True
                assert isinstance(await fetcher.fetch(request), Fetched)
        finally:
            await fetcher.close()
        assert len(site.visits()) == 2
