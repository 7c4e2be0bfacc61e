"""A database of release 0.1.0 keeps what it remembers of pages."""

from alembic import command
from sqlalchemy import Connection, text

from crawld.model.crawl import Digest
from crawld.store.address import parse_address
from crawld.store.engine import writing_engine
from crawld.store.schema import alembic_config
from crawld.store.store import SqlStore
from crawld.store.versions import pack_hashes
from tests.support.store_builders import NOW


def _release_0_1_0(connection: Connection) -> None:
    command.upgrade(alembic_config(connection), "0003")
    connection.execute(text("INSERT INTO hosts (id, name) VALUES (1, 'example.org')"))
    page = "INSERT INTO pages (id, url, host_id, importance, state, origin, added_at) VALUES "
    connection.execute(text(page + "(1, 'https://example.org/', 1, 1.0, 'live', 'list', 1.0)"))
    connection.execute(
        text(
            "INSERT INTO versions (page_id, fetched_at, raw, text, blocks, content_type, volatile, streak, seen)"
            " VALUES (1, :at, :raw, :text, :blocks, 'text/html', :volatile, 3, :nothing)"
        ),
        {
            "at": NOW,
            "raw": b"r" * 16,
            "text": b"t" * 16,
            "blocks": pack_hashes((5, 6)),
            "volatile": pack_hashes((7,)),
            "nothing": b"",
        },
    )


async def test_memories_survive_and_old_places_are_dropped(empty_store_url: str) -> None:
    """The digest of the latest copy is there after the upgrade, without a scheme and without places."""
    engine = writing_engine(parse_address(empty_store_url))
    async with engine.begin() as connection:
        await connection.run_sync(_release_0_1_0)
    await engine.dispose()
    store = SqlStore(empty_store_url)
    await store.start()
    recalled = await store.recall(1)
    await store.close()
    assert recalled is not None
    assert recalled.digest == Digest(b"r" * 16, b"t" * 16, (5, 6))
    assert (recalled.places, recalled.streak, recalled.fetched_at) == ((), 3, NOW)
