"""The shards that a worker's store writes to, by their epochs, and the fence before every write."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.store.fence import HELD, holding
from crawld.fleet.store.numbering import FleetNumbering
from crawld.fleet.store.statements import WRITE_CHANGES
from crawld.model.errors import StoreError
from crawld.model.fetched import RobotsState
from crawld.model.host import FrameChange, HostState
from crawld.model.shards import first_id, shard_of_host, shard_of_id
from crawld.model.signal import Signal, SignalGain
from crawld.store.batch import FreshnessPoint, Item, Record
from crawld.store.bulk import Part, Returned
from crawld.store.pages import Sums
from crawld.store.sources import Poll

log = logging.getLogger("crawld.fleet")

T = TypeVar("T")


class ShardsLostError(Exception):
    """Some shards of a write have another owner: nothing of it was written."""

    def __init__(self, shards: set[int]) -> None:
        super().__init__(f"{len(shards)} shards have another owner")
        self.shards = shards


class HeldCalibration:
    """Counts of the day that all workers add to the same few rows: written now and then, so that none waits for others.

    A worker that is killed loses those of the last seconds, which are a sample anyway.
    """

    def __init__(self) -> None:
        self._held: Sums = {}
        self._next: Sums = {}
        self._written_at = -math.inf

    def due(self, news: Sums, now: float) -> Sums:
        """Returns the sums to write with a batch that brings these; they count once the batch is `settled`."""
        sums = {key: list(numbers) for key, numbers in self._held.items()}
        for key, numbers in news.items():
            before = sums.get(key, [0.0] * len(numbers))
            sums[key] = [old + new for old, new in zip(before, numbers, strict=True)]
        if now - self._written_at < 5.0:  # seconds between two commits of a worker that add to the counts of the day
            self._next = sums
            return {}
        self._next, self._written_at = {}, now
        return sums

    def settled(self) -> None:
        """The batch was committed."""
        self._held = self._next


class ShardScope:
    """The `WriteScope` of a worker: the shards that it holds.

    A store that holds no shard may still take over lists and steer: those writes need no lease.
    """

    def __init__(self) -> None:
        self._shards = 0
        self.held: Mapping[int, int] = {}  # epochs by shard
        self.last: dict[int, int] = {}  # the same, also of shards that we do not hold any more
        self._calibration = HeldCalibration()
        self.stale = 0  # rows dropped because their shard had another owner

    @property
    def shards(self) -> int:
        """Number of the fleet's shards, known once the store is open."""
        if not self._shards:
            raise StoreError("the store is not open")
        return self._shards

    @property
    def numbering(self) -> FleetNumbering:
        """The fleet's numbering of new pages and hosts."""
        return FleetNumbering(self.shards)

    def made_of(self, shards: int) -> None:
        """The fleet has so many shards."""
        self._shards = shards

    def hold(self, epochs: Mapping[int, int]) -> set[int]:
        """From now on these are ours and no others; the shards that others may have written since we had them."""
        news = {shard for shard, epoch in epochs.items() if self.last.get(shard) != epoch}
        self.held = dict(epochs)
        self.last |= epochs
        return news

    def of_host(self, name: str) -> int:
        """The shard of a host."""
        return shard_of_host(name, self.shards)

    def of_page(self, page_id: int) -> int:
        """The shard of a page."""
        return shard_of_id(page_id)

    def holds(self, page_id: int) -> bool:
        """Tells whether a page is ours."""
        return shard_of_id(page_id) in self.held

    def of_item(self, item: Item) -> int | None:
        """The shard that an item is about; None where it is about the whole fleet."""
        match item:
            case Record():
                return shard_of_id(item.crawl.page_id)
            case Signal():
                return shard_of_id(item.page_id)
            case HostState():
                return self.of_host(item.name)
            case RobotsState():
                return self.of_host(item.origin.partition("//")[2])
            case Poll():
                return self.of_host(item.file.host)
            case FrameChange() | SignalGain():
                return self.of_host(item.host)
            case FreshnessPoint():
                return None

    def fence(self, epochs: Mapping[int, int]) -> Part:
        """Asks for these shards by their epochs; none is claimed until the commit. See `check_fence`."""
        return Part(HELD, list(epochs.items()))

    def check_fence(self, epochs: Mapping[int, int], found: Returned) -> None:
        """ShardsLostError where the fence has not found one of these shards: it has another epoch by now."""
        if lost := set(epochs) - set(found.get(HELD, ())):
            raise ShardsLostError(lost)

    async def still_held(self, connection: AsyncConnection, shards: Iterable[int]) -> set[int]:
        """Those of the shards that are ours, for the rest of the transaction."""
        return await holding(connection, {shard: self.held[shard] for shard in set(shards) if shard in self.held})

    async def ranges_held(self, connection: AsyncConnection) -> list[tuple[int, int]]:
        """The ids of the shards that are held, which stay ours for the rest of the transaction."""
        return ranges(await self.still_held(connection, self.held))

    async def ours(self, connection: AsyncConnection, rows: Sequence[T], shard: Callable[[T], int]) -> list[T]:
        """Those of the rows whose shards are ours for the rest of the transaction; the others are counted and told."""
        shards = [shard(row) for row in rows]
        held = await self.still_held(connection, shards)
        kept = [row for row, of in zip(rows, shards, strict=True) if of in held]
        self.drop(len(rows) - len(kept), set(shards) - held)
        return kept

    def drop(self, rows: int, shards: Iterable[int]) -> None:
        """Count rows that were not written, and tell of the first and of every hundredth."""
        if rows and (self.stale == 0 or self.stale // 100 < (self.stale + rows) // 100):
            told = {"rows": self.stale + rows, "shards": sorted(shards)}
            log.warning("rows were dropped so far because another worker holds their shards", extra=told)
        self.stale += rows

    async def write_changes(
        self, connection: AsyncConnection, changes: Sequence[tuple[Any, ...]], copies: Sequence[tuple[Any, ...]]
    ) -> None:
        """Number and write them in one statement: others wait for the counter until the transaction ends."""
        columns = [list(column) for column in zip(*changes, strict=True)]
        columns += [list(column) for column in zip(*copies, strict=True)] if copies else [[]] * 6
        await connection.exec_driver_sql(WRITE_CHANGES, tuple(columns))

    def due_calibration(self, news: Sums, now: float) -> Sums:
        """Counts of the day to write with a batch that brings these."""
        return self._calibration.due(news, now)

    def settle_calibration(self) -> None:
        """The batch was committed."""
        self._calibration.settled()

    def ranges(self) -> list[tuple[int, int]]:
        """The ids of the shards that are held, from the first on up to the one that follows the last."""
        return ranges(self.held)


def ranges(shards: Iterable[int]) -> list[tuple[int, int]]:
    """The ids of these shards, from the first on up to the one that follows the last."""
    return [(first_id(shard), first_id(shard + 1)) for shard in sorted(shards)]
