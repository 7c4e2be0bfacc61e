"""What reaches a worker and concerns pages or feeds that others hold: it is left for whoever does."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from crawld.errors import StoreError
from crawld.fleet.shard_set import ShardSet
from crawld.interfaces import Clock
from crawld.interfaces.fleet import SIGNALS, WEBSUB, Ledger, Mail, ShardStore
from crawld.model.signal import Claimed
from crawld.model.url import host_of_target
from crawld.signals.files import File, restored
from crawld.signals.websub import acceptance, confirmation, feed_of, is_token

log = logging.getLogger("crawld.fleet")

AT_ONCE = 500
"""Signals in one message."""
LATER = (503, "try again later")
"""What a hub is answered while the database is out of reach."""


class Outbox:
    """Implements `daemon.pushes.Others`: writes messages to the holders of other shards."""

    def __init__(self, ledger: Ledger, store: ShardStore, shard_set: ShardSet, clock: Clock) -> None:
        self._ledger, self._store, self._shard_set, self._clock = ledger, store, shard_set, clock

    async def pass_on(self, changes: Sequence[Claimed]) -> None:
        """Tell of changes that a ping, a sitemap or a feed named."""
        by_shard: dict[int, list[tuple[str, str, float, float | None]]] = defaultdict(list)
        for url, source, claimed_at in changes:
            shard = self._shard_set.shard(host_of_target(url))
            if shard not in self._shard_set.loaded:
                by_shard[shard].append((url, source.value, self._clock.now(), claimed_at))
        mail = [
            Mail(shard, SIGNALS, {"signals": signals[start : start + AT_ONCE]})
            for shard, signals in by_shard.items()
            for start in range(0, len(signals), AT_ONCE)
        ]
        try:
            await self._ledger.send(mail)
        except StoreError as error:  # a hint is not worth waiting for
            lost = sum(map(len, by_shard.values()))
            log.warning("signals for pages of other workers were lost", extra={"signals": lost, "reason": str(error)})

    async def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str] | None:
        """Answer a hub that asks about a subscription of another worker, by what the database knows of it."""
        try:
            file = await self._theirs(token)
            if file is None:
                return None
            answer = confirmation(file, query, self._clock.now())
            if answer[0] == 200:
                await self._tell(file, {"token": token, "query": dict(query)})
        except StoreError:
            return LATER
        return answer

    async def deliver(self, token: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Answer a hub that delivers a feed of another worker, and have that one poll it: messages are small."""
        try:
            file = await self._theirs(token)
            if file is None:
                return None
            status, text, wanted = acceptance(file, body, headers, self._clock.now())
            if wanted:
                await self._tell(file, {"feed": file.url})
        except StoreError:
            return LATER
        return status, text

    async def _theirs(self, token: str) -> File | None:
        """The feed of a callback, where another worker holds it."""
        url = feed_of(token)
        found = None if url is None else await self._store.source(url)
        if found is None or self._shard_set.shard(found.host) in self._shard_set.loaded:
            return None
        file = restored(found)
        return file if is_token(token, file) else None

    async def _tell(self, file: File, body: Mapping[str, Any]) -> None:
        await self._ledger.send([Mail(self._shard_set.shard(file.host), WEBSUB, body)])
