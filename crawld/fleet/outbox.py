"""Signals that reach a worker which does not hold their pages: they are left for whoever does."""

import logging
from collections import defaultdict
from collections.abc import Sequence

from crawld.errors import StoreError
from crawld.fleet.shard_set import ShardSet
from crawld.interfaces import Clock
from crawld.interfaces.fleet import SIGNALS, Ledger, Mail
from crawld.model.signal import Source
from crawld.model.url import host_of_target

log = logging.getLogger("crawld.fleet")

AT_ONCE = 500
"""Signals in one message."""


class Outbox:
    """Writes messages to the holders of other shards."""

    def __init__(self, ledger: Ledger, shard_set: ShardSet, clock: Clock) -> None:
        self._ledger, self._shard_set, self._clock = ledger, shard_set, clock

    async def pass_on(self, pinged: Sequence[tuple[str, float | None]]) -> None:
        """Tell of URLs that a ping named, with the times it claims."""
        by_shard: dict[int, list[tuple[str, str, float, float | None]]] = defaultdict(list)
        for url, claimed_at in pinged:
            shard = self._shard_set.shard(host_of_target(url))
            if shard not in self._shard_set.loaded:
                by_shard[shard].append((url, Source.PING.value, self._clock.now(), claimed_at))
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
