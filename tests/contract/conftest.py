"""What tests of both databases share."""

from collections.abc import AsyncIterator

import pytest

from crawld.store.store import SqlStore


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A started store on an empty database."""
    store = SqlStore(store_url)
    await store.start()
    yield store
    await store.close()
