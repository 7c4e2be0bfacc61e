"""What other workers and commands tell of pages and hosts that are ours: pages that came or went, signals, steering."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from crawld.daemon.control import Steering
from crawld.daemon.pages.page_set import PageSet
from crawld.daemon.slots.asked_pages import Claim
from crawld.errors import DamagedError, StoreError
from crawld.fleet.shard_set import ShardSet
from crawld.interfaces import Clock, Hubs
from crawld.interfaces.fleet import HOST, MARKS, PAGES, REFRESH, SIGNALS, WEBSUB, Mail

log = logging.getLogger("crawld.fleet")

RETRY_SECONDS = 1.0
PAGES_AT_ONCE = 2_000


class Mailbox:
    """Does what messages ask for; those to a shard that is still to be loaded wait for it."""

    def __init__(
        self,
        shard_set: ShardSet,
        page_set: PageSet,
        held: Callable[[int], bool],
        clock: Clock,
        steering: Steering,
        hubs: Callable[[], Hubs | None],
    ) -> None:
        self._shard_set, self._page_set, self._held, self._clock = shard_set, page_set, held, clock
        self._steering, self._hubs = steering, hubs
        self._waiting: list[Mail] = []
        self._come = asyncio.Event()

    def take(self, mail: Sequence[Mail]) -> None:
        """Take messages in, and look again at those that wait; they are dealt with beside the beats."""
        self._waiting.extend(mail)
        if self._waiting:
            self._come.set()

    async def run(self) -> None:
        """Deal with messages until cancelled."""
        while True:
            await self._come.wait()
            self._come.clear()
            mail, self._waiting = self._waiting, []
            ready = [one for one in mail if one.shard in self._shard_set.loaded]
            self._waiting += [one for one in mail if one.shard not in self._shard_set.loaded and self._held(one.shard)]
            try:
                await self._deal(ready)
            except DamagedError:
                raise
            except StoreError as error:
                log.warning("mail waits for the database", extra={"reason": str(error)})
                self._waiting += ready
                await asyncio.sleep(RETRY_SECONDS)

    async def _deal(self, mail: Sequence[Mail]) -> None:
        """Do what messages to loaded shards ask for; doing it twice does no harm."""
        pages = list(dict.fromkeys(page for one in mail if one.kind == PAGES for page in one.body["ids"]))
        for start in range(0, len(pages), PAGES_AT_ONCE):
            await self._page_set.renew(pages[start : start + PAGES_AT_ONCE], self._clock.now())
        for one in mail:
            if one.kind == HOST:
                self._shard_set.steer_host(**one.body)
            elif one.kind == SIGNALS:
                self._shard_set.hear(one.body["signals"])
            elif one.kind == WEBSUB and "query" in one.body and (hubs := self._hubs()) is not None:
                hubs.confirm(one.body["token"], one.body["query"], self._clock.now())
            elif one.kind == WEBSUB and "feed" in one.body:
                self._shard_set.sources.poll_soon(one.body["feed"], self._clock.now())
            elif one.kind == REFRESH:
                claim = Claim.INSIST if one.body.get("read") else Claim.ORDER
                for page_id in one.body["ids"]:
                    self._steering.ask_now(page_id, claim)
        if any(one.kind == MARKS for one in mail):
            await self._steering.restore_marks()
