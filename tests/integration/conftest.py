"""What tests against real servers share."""

from collections.abc import AsyncIterator

import pytest

from tests.support.site import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with two hosts."""
    async with Site(hosts=2) as opened:
        yield opened
