"""What is remembered of pages' copies: packed for its table, kept at hand, and read many at once."""

import asyncio
import json
import logging
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.crawl import Digest, Memory, Place
from crawld.model.errors import StoreError
from crawld.model.host import HostPage
from crawld.model.page import NOT_LISTED
from crawld.model.usage import PageUse, SaidIn, Statement, usage_of
from crawld.store import tables
from crawld.store.bulk import fetch, fetch_on_sqlite, storable
from crawld.store.engine import choice, chosen

if TYPE_CHECKING:
    from crawld.store.batch import Body


@dataclass(frozen=True)
class VersionsLimits:
    """Numbers that bound and tune this module."""

    level: int = 3
    max_cached: int = 1_000_000  # block hashes: some 40 MB
    looked_at: int = 4_096


LIMITS = VersionsLimits()


# Copies of pages, compressed.

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def compress(body: bytes) -> bytes:
    """A body as it is stored."""
    return zstd.compress(body, LIMITS.level)


def decompress(packed: bytes) -> bytes:
    """A body as it was fetched."""
    return zstd.decompress(packed)


def decompress_to(packed: bytes, size: int) -> bytes:
    """A body of which its row says the size; StoreError where it is not that, without unpacking more."""
    unpacking = zstd.ZstdDecompressor()
    try:
        body = unpacking.decompress(packed, max_length=size + 1)
    except zstd.ZstdError as error:
        raise StoreError(f"the stored copy is damaged ({error})") from None
    if len(body) != size or not unpacking.eof:
        raise StoreError(f"the stored copy is damaged (it is not of its {size} bytes)")
    return body


class StoredBody(NamedTuple):
    """A copy as it is stored, with the change that brought it, as an index of its batch's, in place of its version."""

    page_id: int
    at: float
    content_type: str | None
    size: int
    zstd: bytes
    change: int | None


def stored_bodies(bodies: Sequence["Body"], *, only_latest: bool) -> list[StoredBody]:
    """The bodies, compressed; with `only_latest`, one for each page."""
    if only_latest:
        bodies = list({body.page_id: body for body in bodies}.values())
    return [
        StoredBody(one.page_id, one.at, one.content_type, len(one.body), compress(one.body), one.change)
        for one in bodies
    ]


def pack_hashes(hashes: tuple[int, ...]) -> bytes:
    """Unsigned 64-bit numbers, little endian."""
    return struct.pack(f"<{len(hashes)}Q", *hashes)


def unpack_hashes(packed: bytes) -> tuple[int, ...]:
    """The inverse of `pack_hashes`."""
    return struct.unpack(f"<{len(packed) // 8}Q", packed)


def pack_digests(digests: tuple[bytes, ...]) -> bytes:
    """Digests of up to 255 bytes, each behind its length."""
    return b"".join([bytes([len(digest)]) + digest for digest in digests])


def unpack_digests(packed: bytes) -> tuple[bytes, ...]:
    """The inverse of `pack_digests`."""
    digests = []
    at = 0
    while at < len(packed):
        end = at + 1 + packed[at]
        digests.append(packed[at + 1 : end])
        at = end
    return tuple(digests)


def pack_times(times: tuple[tuple[int, int, tuple[int, ...]], ...]) -> bytes:
    """Blocks that name times, as numbers one after the other."""
    numbers = [number for index, block, moments in times for number in (index, block, len(moments), *moments)]
    return pack_hashes(tuple(numbers))


def unpack_times(packed: bytes | None) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """The inverse of `pack_times`."""
    numbers = iter(unpack_hashes(packed or b""))
    return tuple((index, next(numbers), _take(numbers, next(numbers))) for index in numbers)


def pack_places(places: tuple[Place, ...]) -> bytes:
    """Places, as numbers one after the other."""
    numbers: list[int] = []
    for place in places:
        counts = place.fewest | place.most << 16 | place.still << 32 | place.adrift[0] << 40 | place.adrift[1] << 42
        counts |= place.unchecked << 44 | place.fresh << 49 | place.agreed << 53 | len(place.variants) << 56
        numbers += [place.left, place.right, counts, len(place.blocks), len(place.common), *place.common]
        numbers += place.variants
        for block in place.blocks:
            numbers += [len(block), *block]
    return pack_hashes(tuple(numbers))


def unpack_places(packed: bytes | None) -> tuple[Place, ...]:
    """The inverse of `pack_places`."""
    numbers = iter(unpack_hashes(packed or b""))
    places = []
    for left in numbers:
        right, counts, blocks, commons = _take(numbers, 4)
        common, variants = _take(numbers, commons), _take(numbers, counts >> 56 & 31)
        words = tuple(_take(numbers, next(numbers)) for _ in range(blocks))
        adrift = counts >> 40 & 3, counts >> 42 & 3
        bounds = counts & 0xFFFF, counts >> 16 & 0xFFFF
        seen = counts >> 49 & 15, counts >> 53 & 7, counts >> 44 & 31
        places.append(Place(left, right, words, *bounds, common, counts >> 32 & 0xFF, adrift, variants, *seen))
    return tuple(places)


def pack_said(said: tuple[Statement, ...]) -> str | None:
    """What a site says of a page's use, as JSON."""
    return storable(json.dumps([(place.value, text) for place, text in said]))


def unpack_said(packed: str | None) -> tuple[Statement, ...]:
    """The inverse of `pack_said`."""
    return tuple((SaidIn(place), text) for place, text in json.loads(packed)) if packed else ()


def usage_document(packed: str | None) -> dict[str, object] | None:
    """What a page may be used for, as others are told it; None where nothing is said."""
    return None if packed is None else usage_of(unpack_said(packed)).document()


def allows(use: PageUse) -> ColumnElement[bool]:
    """Whether the page of a row of `versions` may be put to that use."""
    denies = tables.versions.c.denies
    return denies.is_(None) | ~denies.contains(f" {use.value} ")


def pack_denied(said: tuple[Statement, ...]) -> str | None:
    """The uses that are denied, each between spaces."""
    denied = usage_of(said).denied
    return f" {' '.join(denied)} " if denied else None


def _take(numbers: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(islice(numbers, count))


def version_row(memory: Memory) -> tuple[Any, ...]:
    """The row of `versions`, in the order of its columns; what is empty is NULL."""
    digest = memory.digest
    return (
        memory.page_id,
        memory.fetched_at,
        digest.raw,
        digest.text,
        pack_hashes(digest.blocks),
        None if memory.etag is None else memory.etag.encode("utf-8", "surrogateescape"),
        None if memory.last_modified is None else memory.last_modified.encode("utf-8", "surrogateescape"),
        storable(memory.content_type),
        memory.streak,
        pack_digests(memory.seen),
        digest.scheme,
        pack_times(digest.times) if digest.times else None,
        pack_places(memory.places) if memory.places else None,
        memory.answered,
        memory.canonical,
        pack_hashes((int(digest.in_main), *digest.title)) if digest.in_main or digest.title else None,
        pack_hashes(memory.varying) if memory.varying else None,
        *((pack_said(memory.said), pack_denied(memory.said)) if memory.said else (None, None)),
    )


def memory_of(row: Any) -> Memory:
    """What a row of `versions` says."""
    in_main, *title = unpack_hashes(row.title) if row.title else (0,)
    blocks, times = unpack_hashes(row.blocks), unpack_times(row.times)
    return Memory(
        page_id=row.page_id,
        fetched_at=row.fetched_at,
        digest=Digest(row.raw, row.text, blocks, times, row.scheme, tuple(title), bool(in_main)),
        etag=_header_text(row.etag),
        last_modified=_header_text(row.last_modified),
        content_type=row.content_type,
        places=unpack_places(row.places),
        streak=row.streak,
        seen=unpack_digests(row.seen),
        answered=row.answered,
        canonical=row.canonical,
        varying=unpack_hashes(row.varying or b""),
        said=unpack_said(row.said),
    )


def _header_text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("utf-8", "surrogateescape")


class RecentVersions:
    """The latest memories by page, bounded by weight. Those not yet committed stay whatever the bound says."""

    def __init__(self, heaviest: int = LIMITS.max_cached) -> None:
        self._heaviest = heaviest
        self._weight = 0
        self._recent: OrderedDict[int, Memory] = OrderedDict()
        self._queued: dict[int, Memory] = {}
        self._being_read: set[int] = set()

    def get(self, page_id: int) -> Memory | None:
        """The memory, where it is at hand."""
        memory = self._queued.get(page_id)
        if memory is not None:
            return memory
        memory = self._recent.get(page_id)
        if memory is not None:
            self._recent.move_to_end(page_id)
        return memory

    def queue(self, memory: Memory) -> None:
        """A memory is about to be written: from now on it is what is remembered."""
        self._being_read.discard(memory.page_id)
        self._queued[memory.page_id] = memory

    def committed(self, memory: Memory) -> None:
        """A memory was written; a later one of the same page may be queued already."""
        if self._queued.get(memory.page_id) is memory:
            del self._queued[memory.page_id]
            self._keep(memory)

    def dropped(self, memory: Memory) -> None:
        """A memory was not written, because another worker writes the page's now."""
        if self._queued.get(memory.page_id) is memory:
            del self._queued[memory.page_id]

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Forget the committed memories of pages that others may have written since."""
        for page_id in [page_id for page_id in self._recent if gone(page_id)]:
            self._weight -= _weight(self._recent.pop(page_id))

    def reading(self, page_id: int) -> None:
        """The database is about to be asked for this page."""
        self._being_read.add(page_id)

    def read(self, page_id: int, memory: Memory | None) -> Memory | None:
        """What the database answered, unless something newer was queued meanwhile."""
        if page_id not in self._being_read:
            return self.get(page_id) or memory
        self._being_read.discard(page_id)
        if memory is not None:
            self._keep(memory)
        return memory

    def _keep(self, memory: Memory) -> None:
        before = self._recent.pop(memory.page_id, None)
        self._weight += _weight(memory) - (_weight(before) if before else 0)
        self._recent[memory.page_id] = memory
        while self._weight > self._heaviest and self._recent:
            _, oldest = self._recent.popitem(last=False)
            self._weight -= _weight(oldest)


def _weight(memory: Memory) -> int:
    digest, weight = memory.digest, 25 + 2 * len(memory.seen) + len(memory.varying)
    for place in memory.places:
        weight += 10 + len(place.common) + len(place.variants) + sum(map(len, place.blocks))
    return weight + len(digest.blocks) + len(digest.title) + 4 * len(digest.times)


class VersionReader:
    """Reads memories from the database: whatever is asked while one query runs is answered by the next.

    On SQLite a connection is kept for it, and the statement goes to the driver as it is: to lend a connection and to
    build a result of SQLAlchemy's costs four times as much. A query that takes longer than `seconds` is given up with a
    TimeoutError, and the next one is sent.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._asked: dict[int, asyncio.Future[Memory | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._kept: AsyncConnection | None = None

    async def read(self, reading: AsyncEngine, page_id: int) -> Memory | None:
        """What the database remembers of a page."""
        answer = self._asked.get(page_id)
        if answer is None:
            answer = self._asked[page_id] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._answer(reading), name="store recall")
        return await asyncio.shield(answer)  # a caller that stops waiting must not cancel it for others

    async def finish(self) -> None:
        """Return once no query runs."""
        if self._task is not None:
            await self._task
        await self._drop()

    async def _answer(self, reading: AsyncEngine) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                try:
                    async with asyncio.timeout(self._seconds):
                        rows = await self._rows(reading, list(asked))
                    found = {row[0]: memory_of(SimpleNamespace(**dict(zip(_COLUMNS, row)))) for row in rows}
                except Exception as error:  # noqa: BLE001  raised by each caller
                    await self._drop()
                    for answer in asked.values():
                        answer.set_exception(error)
                        answer.exception()  # marked as retrieved, also where no caller waits any longer
                else:
                    for page_id, answer in asked.items():
                        answer.set_result(found.get(page_id))
        finally:
            self._task = None

    async def _rows(self, reading: AsyncEngine, page_ids: list[int]) -> Iterable[Sequence[Any]]:
        if reading.dialect.name != "sqlite":
            async with reading.connect() as connection:
                return await fetch(connection, _of_pages("postgresql"), choice("postgresql", page_ids))
        if self._kept is None:
            self._kept = await reading.connect()
        if len(page_ids) == 1:
            return await fetch_on_sqlite(self._kept, _OF_PAGE, page_ids)
        return await fetch_on_sqlite(self._kept, _OF_PAGES, list(choice("sqlite", page_ids).values()))

    async def _drop(self) -> None:
        if self._kept is not None:
            connection, self._kept = self._kept, None
            await connection.close()


@lru_cache
def _of_pages(dialect: str) -> Select[Any]:
    return select(tables.versions).where(chosen(dialect, tables.versions.c.page_id))


_COLUMNS = tables.versions.columns.keys()
_OF_PAGE = f"SELECT {', '.join(_COLUMNS)} FROM versions WHERE page_id = ?"
_OF_PAGES = _OF_PAGE.replace("= ?", "IN (SELECT value FROM json_each(?))")


# Reading what the frame of a host is learnt from: the blocks of its pages, and their copies.

log = logging.getLogger(__name__)


async def read_recent_pages(connection: AsyncConnection, host: str, limit: int) -> Sequence[HostPage]:
    """What is remembered of the pages of a host that were fetched most recently, oldest first.

    Of a host of very many pages only some are looked at, so that the query stays short.
    """
    page, version, hosts = tables.pages.c, tables.versions.c, tables.hosts.c
    some = (
        select(page.id, page.url)
        .where(page.host_id == select(hosts.id).where(hosts.name == host).scalar_subquery())
        .where(page.state.not_in(NOT_LISTED), page.last_success.is_not(None))
        .limit(LIMITS.looked_at)
        .subquery()
    )
    query = (
        select(tables.versions, some.c.url)
        .join_from(some, tables.versions, version.page_id == some.c.id)
        .where(version.text.is_not(None))
        .order_by(version.fetched_at.desc())
        .limit(limit)
    )
    rows = (await connection.execute(query)).all()
    memories = ((row.url, memory_of(row)) for row in reversed(rows))
    return [HostPage(memory.page_id, memory.digest.blocks, url, memory) for url, memory in memories]


async def latest_copy(connection: AsyncConnection, page_id: int) -> bytes | None:
    """The latest copy of a page, where one is kept; it is unpacked beside the loop."""
    body = tables.bodies.c
    query = select(body.zstd, body.size).where(body.page_id == page_id).order_by(body.id.desc()).limit(1)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    try:
        return await asyncio.to_thread(decompress_to, row.zstd, row.size)
    except StoreError as error:  # the next change replaces it; until then the page is crawled as one without a copy
        log.error("a stored copy cannot be read", extra={"page": page_id, "reason": str(error)})  # noqa: TRY400
        return None
