"""Mail of other workers and commands about our pages and hosts: pages that came or went, signals, steering."""

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.crawl.admission import Booking
from crawld.crawl.asked_pages import ReadClaim
from crawld.fleet.shard_set import ShardSet
from crawld.fleet.store.ledger import SqlLedger, TurnWanted
from crawld.fleet.store.making import Mail, MailKind
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.errors import DamagedError, StoreError
from crawld.model.signal import Claimed
from crawld.model.url import host_of_target
from crawld.model.web import Clock
from crawld.pages.list_file import ListFile
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.show.control import Steering
from crawld.signals.schedule import File, restored
from crawld.signals.websub import Subscriptions, acceptance, confirmation, feed_of, is_token


@dataclass(frozen=True)
class MailboxLimits:
    """Numbers that bound and tune this module."""

    at_once: int = 500
    """Signals in one message."""
    retry_seconds: float = 1.0
    pages_at_once: int = 2_000


LIMITS = MailboxLimits()


log = logging.getLogger("crawld.fleet")

LATER = (503, "try again later")
"""Answer to a hub while the database is out of reach."""


class Outbox:
    """Leaves pushes about pages and feeds of other shards as messages to their holders."""

    def __init__(self, ledger: SqlLedger, store: SqlShardStore, shard_set: ShardSet, clock: Clock) -> None:
        self._ledger, self._store, self._shard_set, self._clock = ledger, store, shard_set, clock

    async def pass_on(self, changes: Sequence[Claimed]) -> None:
        """Tell of changes that a ping, a sitemap or a feed named."""
        by_shard: dict[int, list[tuple[str, str, float, float | None]]] = defaultdict(list)
        for url, source, claimed_at in changes:
            shard = self._shard_set.shard(host_of_target(url))
            if shard not in self._shard_set.loaded:
                by_shard[shard].append((url, source.value, self._clock.now(), claimed_at))
        mail = [
            Mail(shard, MailKind.SIGNALS, {"signals": signals[start : start + LIMITS.at_once]})
            for shard, signals in by_shard.items()
            for start in range(0, len(signals), LIMITS.at_once)
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
        await self._ledger.send([Mail(self._shard_set.shard(file.host), MailKind.WEBSUB, body)])


class HostTurns:
    """Books turns in the database for requests to hosts of which this worker has no page, as redirects lead to."""

    def __init__(self, ledger: SqlLedger, pages: Pages, shard: Callable[[str], int], clock: Clock) -> None:
        self._ledger, self._pages, self._shard, self._clock = ledger, pages, shard, clock

    def concerns(self, host: str) -> bool:
        """Tells whether other workers may ask a host as well; one that has pages here leaves them room by mail."""
        return not self._pages.on_host(host)

    async def book(self, host: str, delay: float, gaps: int, late: float, longest: float) -> Booking:
        """Book the next turn; while the database is out of reach there is none."""
        try:
            return await self._ledger.book(TurnWanted(host, self._shard(host), delay, gaps, late, longest))
        except StoreError:  # the beats tell of it
            return Booking(self._clock.now() + longest, None)


class Mailbox:
    """Does what messages ask for; those to a shard that is still to be loaded wait for it."""

    def __init__(
        self,
        shard_set: ShardSet,
        page_set: PageSet,
        held: Callable[[int], bool],
        clock: Clock,
        steering: Steering,
        hubs: Callable[[], Subscriptions | None],
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
                await asyncio.sleep(LIMITS.retry_seconds)

    async def _deal(self, mail: Sequence[Mail]) -> None:
        """Do what messages to loaded shards ask for; doing it twice does no harm."""
        pages = list(dict.fromkeys(page for one in mail if one.kind == MailKind.PAGES for page in one.body["ids"]))
        for start in range(0, len(pages), LIMITS.pages_at_once):
            await self._page_set.renew(pages[start : start + LIMITS.pages_at_once], self._clock.now())
        for one in mail:
            if one.kind == MailKind.HOST:
                self._shard_set.steer_host(**one.body)
            elif one.kind == MailKind.SIGNALS:
                self._shard_set.hear(one.body["signals"])
            elif one.kind == MailKind.WEBSUB and "query" in one.body and (hubs := self._hubs()) is not None:
                hubs.confirm(one.body["token"], one.body["query"], self._clock.now())
            elif one.kind == MailKind.WEBSUB and "feed" in one.body:
                self._shard_set.sources.poll_soon(one.body["feed"], self._clock.now())
            elif one.kind == MailKind.TURN:
                self._shard_set.leave_room(**one.body)
            elif one.kind == MailKind.REFRESH:
                claim = ReadClaim.INSIST if one.body.get("read") else ReadClaim.ORDER
                for page_id in one.body["ids"]:
                    self._steering.ask_now(page_id, claim)
        if any(one.kind == MailKind.MARKS for one in mail):
            await self._steering.restore_marks()


# The URL list of a fleet: one content for all machines, whichever worker reads it.


FLEET_LIST = "list of the fleet"
"""The setting that holds the digest of the list in force, from before it is taken over."""


def list_digest(body: bytes) -> str:
    """Hash that tells one list from another, the same in every version."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


class FleetList(ListFile):
    """Takes over only what is the fleet's list, or an edit of it on this machine."""

    _known: str | None = None
    """The digest of this machine's file when it was last the fleet's."""

    async def _accepts(self, source: str, body: bytes) -> bool:
        digest, fleets = list_digest(body), await self._store.setting(FLEET_LIST)
        if fleets not in {None, digest, self._known}:
            what = "is not the list that the fleet goes by: `crawld fleet apply --config FILE` makes it that"
            self._status.list_held_back = f"the URL list {source} of this machine {what}"
            log.warning("the URL list of this machine is not taken over", extra={"reason": self._status.list_held_back})
            return False
        if digest != fleets:
            await self._store.change_setting(FLEET_LIST, digest, now=self._clock.now())
        self._known, self._status.list_held_back = digest, None
        return True


class OwnList(FleetList):
    """The list of the processes of one `crawld run`: whatever the file says is the fleet's."""

    async def _accepts(self, source: str, body: bytes) -> bool:  # noqa: ARG002 - as other lists
        digest = list_digest(body)
        if await self._store.setting(FLEET_LIST) != digest:
            await self._store.change_setting(FLEET_LIST, digest, now=self._clock.now())
        return True
