"""Taking over lists in a fleet: ids by shard, one transaction at a time, and mail to the holders of the shards."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import count
from typing import Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.store.making import Mail, MailKind, leave_mail, next_changes, next_ids
from crawld.model.shards import shard_of_host, shard_of_id


class FleetNumbering:
    """The `Numbering` of a fleet of so many shards."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    async def begin(self, connection: AsyncConnection) -> None:
        """Wait for others who take a list over: two would give one page two ids."""
        key = 0x6372_6177_6C64_6C73  # "crawldls"
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    async def host_ids(self, connection: AsyncConnection, names: Sequence[str]) -> Sequence[int]:
        """The next ids of the hosts' shards."""
        return await self._ids(connection, "hosts", names)

    async def page_ids(self, connection: AsyncConnection, hosts: Sequence[str]) -> Sequence[int]:
        """The next ids of the shards of these hosts."""
        return await self._ids(connection, "pages", hosts)

    async def tell(self, connection: AsyncConnection, pages: Collection[int]) -> None:
        """Leave mail to the holders of the pages' shards; it is there when the pages are."""
        by_shard: dict[int, list[int]] = defaultdict(list)
        for page in pages:
            by_shard[shard_of_id(page)].append(page)
        await leave_mail(
            connection, [Mail(shard, MailKind.PAGES, {"ids": ids}) for shard, ids in sorted(by_shard.items())]
        )

    async def first_change(self, connection: AsyncConnection, count: int) -> int:
        """The next numbers of the fleet's counter, which is ours until the transaction ends."""
        return await next_changes(connection, count)

    async def _ids(
        self, connection: AsyncConnection, kind: Literal["pages", "hosts"], hosts: Sequence[str]
    ) -> Sequence[int]:
        shards = [shard_of_host(host, self._shards) for host in hosts]
        first = await next_ids(connection, kind, Counter(shards))
        following = {shard: count(number) for shard, number in first.items()}
        return [next(following[shard]) for shard in shards]
