"""Values for the store's tests, with everything that does not matter filled in."""

from typing import Any

from sqlalchemy import text

from crawld.model.crawl import Crawl, Digest, Memory, Verdict
from crawld.model.estimate import Estimate
from crawld.model.page import PageState, Wanted
from crawld.model.signal import SOURCES, Signal, Source
from crawld.store.address import parse_address
from crawld.store.batch import FreshnessPoint, Record
from crawld.store.engine import reading_engine

NOW = 1_700_000_000.0


def wanted(*paths: str, importance: float = 1.0) -> list[Wanted]:
    """Lines of a URL list on one host."""
    return [Wanted(f"https://example.org/{path}", importance) for path in paths]


def memory(page_id: int, *, at: float = NOW, raw: bytes = b"r" * 16, etag: str | None = None) -> Memory:
    """What a first copy leaves behind."""
    return Memory(page_id, at, Digest(raw, b"t" * 16, (1, 2**64 - 1)), etag=etag, content_type="text/html")


def record(page_id: int, verdict: Verdict = Verdict.UNCHANGED, **fields: object) -> Record:
    """A finished attempt at NOW unless told otherwise; `fields` are the crawl's or the record's."""
    own = {
        key: fields.pop(key)
        for key in ("state", "failures", "memory", "body", "host", "alias", "title", "language")
        if key in fields
    }
    own.setdefault("state", PageState.FAILING if verdict is Verdict.FAILED else PageState.LIVE)
    crawl = Crawl(**{"page_id": page_id, "at": NOW, "verdict": verdict} | fields)  # type: ignore[arg-type]
    return Record(crawl=crawl, **own)  # type: ignore[arg-type]


def by_source(**given: float) -> tuple[Any, ...]:
    """One value per source, in the order of `SOURCES`; 0 where none is given."""
    return tuple(given.get(source.value, 0) for source in SOURCES)


def signal(page_id: int, *, at: float, source: Source = Source.SITEMAP, stale: bool = False) -> Signal:
    """A hint seen at `at`."""
    return Signal(page_id, source, at, stale=stale)


def estimate(page_id: int, *, at: float, **fields: object) -> Estimate:
    """A belief of one change a day."""
    return Estimate(**{"page_id": page_id, "at": at, "shape": 2.0, "rate": 172_800.0} | fields)  # type: ignore[arg-type]


def point(at: float, **fields: object) -> FreshnessPoint:
    """A minute of the freshness history."""
    empty = dict.fromkeys(("predicted", "measured", "measured_low", "measured_high", "level", "changed_share"))
    numbers = {"bandwidth": 1.0, "request_rate": 1.0, "pages": 1, "skipped_slots": 0}
    return FreshnessPoint(**{"at": at} | empty | numbers | fields)  # type: ignore[arg-type]


async def rows(url: str, query: str) -> list[tuple[object, ...]]:
    """What a query returns, seen from outside the store."""
    engine = reading_engine(parse_address(url))
    async with engine.begin() as connection:
        found = [tuple(row) for row in await connection.execute(text(query))]
    await engine.dispose()
    return found
