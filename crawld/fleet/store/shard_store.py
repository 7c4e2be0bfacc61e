"""The store of a worker, or of a command that steers a fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from crawld.fleet.store.fleet_store import FleetDatabase
from crawld.fleet.store.scope import ShardScope, ShardsLostError, ranges
from crawld.model.estimate import AgeCurve, Ints
from crawld.model.fetched import RobotsState
from crawld.model.host import HostState
from crawld.model.shards import shard_of_id
from crawld.store import estimates, hosts
from crawld.store.batch import Item, Record
from crawld.store.commit_queue import QueuedItem
from crawld.store.database import Database
from crawld.store.restoring import StoredPages
from crawld.store.sources import Poll, SourceFile, read_source, read_sources
from crawld.store.store import Options, SqlStore, retried, retried_with_timeout


@dataclass(frozen=True, slots=True)
class StoredShards:
    """Everything that is known of some shards: what their worker needs in memory."""

    pages: StoredPages
    hosts: Sequence[HostState]
    robots: Sequence[RobotsState]
    sources: Sequence[SourceFile]  # by the shard of the host that they are on
    age_curves: Mapping[str, AgeCurve]


class SqlShardStore(SqlStore):
    """Shares the database with other workers: what it writes is fenced by the epochs of its shards.

    A record is written under the epoch that its shard had when it was queued, so one that a lost lease outlived is
    written only where no other worker has held the shard since.
    """

    max_answer_seconds = 15.0  # a cut connection may never say so, and all that follows would wait

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self._held = ShardScope()
        super().__init__(url, scope=self._held, **options)

    def _make_database(self, url: str) -> Database:
        return FleetDatabase(url, self._held)

    @property
    def shards(self) -> int:
        """Number of the fleet's shards."""
        return self._held.shards

    @property
    def stale(self) -> int:
        """Number of rows dropped so far because their shard had another owner."""
        return self._held.stale

    def hold(self, epochs: Mapping[int, int]) -> None:
        """From now on these shards are ours, by their epochs, and no others.

        A transaction drops, counts and logs rows of shards that have another epoch by now, or are not held. Dirty and
        crawled pages, where they are asked for, are those of the shards held.
        """
        news = self._held.hold(epochs)
        if news:
            self._memories.forget(lambda page: shard_of_id(page) in news)
            self._dirty.forget(lambda page: shard_of_id(page) in news)

    async def load(self, shards: Sequence[int]) -> StoredShards:
        """Everything about these shards; from now on their dirty pages are known."""
        of_these = ranges(shards)
        pages = await self._load_pages(of_these)
        return await self._load_rest(pages, of_these)

    @retried
    async def _load_pages(self, of_these: Sequence[tuple[int, int]]) -> StoredPages:
        return await self._restore(of_these)

    @retried
    async def _load_rest(self, pages: StoredPages, of_these: Sequence[tuple[int, int]]) -> StoredShards:
        async with self._database.reading.connect() as connection:
            return StoredShards(
                pages=pages,
                hosts=await hosts.read_hosts(connection, self._clock.now(), of_these),
                robots=await hosts.read_robots(connection, of_these),
                sources=await read_sources(connection, of_these),
                age_curves=await estimates.read_age_curves(self._database.reading, of_these),
            )

    @retried_with_timeout
    async def source(self, url: str) -> SourceFile | None:
        """Reads the row of a source file, whichever worker watches it."""
        async with self._database.reading.connect() as connection:
            return await read_source(connection, url)

    @retried_with_timeout
    async def crawled_in(self, shards: Sequence[int], after: int, limit: int) -> Ints:
        """As `crawled_pages`, of these shards alone."""
        return await estimates.crawled_pages(self._database.reading, after, limit, ranges(shards))

    @retried
    async def prune_own(self) -> int:
        """Delete some surplus rows of this worker's pages; `prune` is one worker's duty."""
        async with self._database.writing.transaction() as connection:
            return await self._pruning.prune_grown(connection)

    def _put(self, item: Item) -> bool:
        shard = self._held.of_item(item)
        if shard is None:
            return self._writer.put(item)
        epoch = self._held.last.get(shard)
        if epoch is not None:
            return self._writer.put(item, (shard, epoch))
        # Hosts of other workers are known by redirects, and by files that a robots.txt of this one's names.
        if not isinstance(item, HostState | RobotsState | Poll):
            self._held.drop(1, [shard])
        return False

    async def _commit(self, queued: Sequence[QueuedItem]) -> None:
        """Write what is ours; what was lost since it was queued is dropped, and the rest is written without it."""
        epochs: dict[int, int] = {}
        for shard, epoch in {one.lease for one in queued if one.lease is not None}:
            epochs[shard] = max(epoch, epochs.get(shard, 0))
        while True:
            kept, others = _parted(queued, epochs)
            try:
                await self._write(kept, epochs)
            except ShardsLostError as error:
                epochs = {shard: epoch for shard, epoch in epochs.items() if shard not in error.shards}
            else:
                break
        self._dropped(others)

    def _dropped(self, queued: Sequence[QueuedItem]) -> None:
        for one in queued:
            if isinstance(one.item, Record) and one.item.memory is not None:
                self._memories.dropped(one.item.memory)
        self._held.drop(len(queued), {one.lease[0] for one in queued if one.lease is not None})


def _parted(queued: Sequence[QueuedItem], epochs: Mapping[int, int]) -> tuple[list[QueuedItem], list[QueuedItem]]:
    """Splits the queue into what may be written under these epochs and what may not."""
    kept: list[QueuedItem] = []
    others: list[QueuedItem] = []
    for one in queued:
        ours = one.lease is None or epochs.get(one.lease[0]) == one.lease[1]
        (kept if ours else others).append(one)
    return kept, others
