"""What a worker of a fleet needs of the database that all workers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from crawld.choose.chooser import Bid
from crawld.fleet.view import FleetView
from crawld.model.estimate import AgeCurve
from crawld.model.fetched import RobotsState
from crawld.model.host import HostState
from crawld.model.page import Page, Wanted
from crawld.model.shards import Grant, Lease
from crawld.store.contract import Action, Adoption, Ints, Listed, SourceFile, Store, StoredPages


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of itself with its beat."""

    bid: Bid | None = None  # for the next round; None: it wants nothing yet
    pages: int = 0
    request_rate: float = 0.0  # requests a second, lately
    level: float | None = None  # the crawl value of its last pick
    lag: float = 0.0  # seconds that the oldest record waits to be committed
    fresh: float = 0.0  # importance of its pages times their freshness, summed
    weight: float = 0.0  # importance of its pages, summed
    loading: int = 0  # shards that it holds and has not loaded yet
    stale: int = 0  # records dropped so far because their shard had another owner
    revision: int = 0  # of the fleet's settings that it goes by wholly
    clock_ahead: float = 0.0  # seconds that its machine's clock is ahead of the database's
    status: Mapping[str, Any] | None = None  # what its own control says, every few seconds; None: as before


PAGES, HOST, SIGNALS, WEBSUB, REFRESH, MARKS = "pages", "host", "signals", "websub", "refresh", "marks"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message to whoever holds a shard, by kind.

    PAGES: `{"ids": [..]}` came, went, or weigh otherwise: they are read again. HOST: `{"name": .., "blocked": ..,
    "delay": .., "drop_delay": ..}` was steered. SIGNALS: `{"signals": [[url, source, seen_at, claimed_at], ..]}` came
    for pages that are not the sender's. WEBSUB: a hub told the sender of `{"feed": url}`, or asked about
    `{"token": .., "query": {..}}`. REFRESH: `{"ids": [..]}` are asked for before all others. MARKS: the parts of
    pages that the operator has marked were changed, and are read again.
    """

    shard: int
    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker learns with its beat."""

    now: float  # the database's time, read in the transaction
    expires: float  # when the lease ends, in that time
    bandwidth: float  # of the whole fleet; 0 while paused
    workers: int  # live ones, those that drain left out
    draining: bool  # whether this worker is to give its shards away
    revision: int = 0  # of the fleet's settings; 0: none were applied yet
    held: Mapping[int, int] = field(default_factory=dict)  # epochs by shard, of the shards that are ours
    free: int = 0  # shards that nobody holds
    level: float = 0.0  # at which the last round was cleared; 0: none was, or everyone got all
    grants: Sequence[Grant] = ()  # ours, of the round under way and the next one
    mail: Sequence[Mail] = ()  # for our shards, taken out of the box
    duties: Mapping[str, int] = field(default_factory=dict)  # ours, with the epochs of their terms
    taken: frozenset[str] = frozenset()  # duties that other live workers have


class LeaseLostError(Exception):
    """The worker's lease had ended before it was renewed: it is nobody now and may join again under a new id."""


class Ledger(Protocol):
    """Membership, leases, rounds and mail, each verb one transaction."""

    @property
    def shards(self) -> int:
        """How many shards the fleet has, fixed when it was made."""

    async def time(self) -> float:
        """The database's time; StoreError where the database is no fleet."""

    async def join(self, name: str) -> str:
        """Become a worker; its id. StoreError where the database is no fleet."""

    async def beat(self, worker: str, report: Report) -> Beat:
        """Renew the lease, post the bid, clear the next round where that is due, and read what is news.

        LeaseLostError where the lease has ended; what is out of reach raises StoreError and changes nothing.
        """

    async def claim(self, worker: str, most: int, former: Mapping[int, int]) -> Sequence[Lease]:
        """Take free shards, at most so many; of `former` shards (epochs by shard) those with an unchanged epoch first.

        A former shard whose epoch is unchanged had no other owner: it keeps its epoch and need not be loaded again.
        """

    async def give_duty(self, worker: str, name: str) -> None:
        """Let another worker do it."""

    async def take_duty(self, worker: str, name: str) -> int | None:
        """Do something for the whole fleet, as long as the lease lasts; False where another live worker does it."""

    async def teach(self, worker: str, taught: Sequence[float]) -> Sequence[Sequence[float]]:
        """Tell what our hosts say of hosts in general; what those of each other live worker say."""

    async def release(self, worker: str, shards: Sequence[int]) -> None:
        """Give shards back; everything about them has been committed."""

    async def leave(self, worker: str) -> None:
        """Give everything back and be no worker any more."""

    async def send(self, mail: Sequence[Mail]) -> None:
        """Leave messages for whoever holds these shards, now or next."""


@dataclass(frozen=True, slots=True)
class StoredShards:
    """Everything that is known of some shards: what their worker needs in memory."""

    pages: StoredPages
    hosts: Sequence[HostState]
    robots: Sequence[RobotsState]
    sources: Sequence[SourceFile]  # by the shard of the host that they are on
    age_curves: Mapping[str, AgeCurve]


class ShardStore(Store, Protocol):
    """The store of a worker: it writes under the epochs that it was told, and only to the shards that it holds."""

    def hold(self, epochs: Mapping[int, int]) -> None:
        """From now on these shards are ours, by their epochs, and no others.

        A transaction drops, counts and logs rows of shards that have another epoch by now, or are not held. Dirty and
        crawled pages, where they are asked for, are those of the shards held.
        """

    async def load(self, shards: Sequence[int]) -> StoredShards:
        """Everything about these shards; from now on their dirty pages are known."""

    async def source(self, url: str) -> SourceFile | None:
        """What is kept of a source file, whichever worker watches it."""

    async def crawled_in(self, shards: Sequence[int], after: int, limit: int) -> Ints:
        """As `crawled_pages`, of these shards alone."""

    async def prune_own(self) -> int:
        """Delete a little of what pages of ours have too much of; 0 when there is nothing to do. See `prune`."""

    @property
    def stale(self) -> int:
        """How many rows were dropped so far because their shard had another owner."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Pages of some whole shards that stand for all."""

    part: float  # of all pages, above 0
    pages: StoredPages
    hosts: Sequence[HostState]
    age_curves: Mapping[str, AgeCurve]


class FleetStore(Protocol):
    """What steering a fleet reads and writes, from any machine; workers are told of it by their beats and by mail."""

    shards: int

    async def view(self) -> FleetView:
        """How the fleet stands, at most a moment ago."""

    async def holder(self, shard: int) -> str | None:
        """The name of the live worker that holds a shard."""

    async def last_change(self) -> int:
        """The number of the fleet's latest change."""

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""

    async def listed(self, urls: Sequence[str]) -> Sequence[Listed]:
        """The pages of these URLs, in any spelling, that are not retired."""

    @property
    def healthy(self) -> bool:
        """Whether the store can write now."""

    async def add_action(self, action: Action) -> int:
        """Keep what an operator did; its number."""

    async def actions(self, limit: int, number: int | None = None) -> Sequence[Action]:
        """The latest actions, newest first; with a number that one alone."""

    async def mark_undone(self, number: int, at: float) -> bool:
        """Note that an action was undone; False where it was already, or is not kept."""

    async def tell(self, mail: Sequence[Mail]) -> None:
        """Leave messages to whoever holds their shards."""

    async def attempts(self, page_ids: Sequence[int]) -> Mapping[int, float | None]:
        """When each of these pages was last attempted."""

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float) -> Adoption:
        """Take further pages in."""

    async def retire(self, urls: Sequence[str], *, now: float, keep_out: bool = False) -> Sequence[Page]:
        """Retire these pages; those that are unknown or retired already are passed over."""

    async def readmit(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Who listed the pages of these URLs, by URL; pages that are kept out are left out."""

    async def steer_host(
        self, name: str, change: Callable[[HostState], HostState], told: Mapping[str, Any]
    ) -> HostState | None:
        """Change what is remembered of a host, and tell its worker; None where no page is on it."""

    async def stored_page(self, page_id: int) -> StoredPart | None:
        """A page with its host and what is believed of both; None where it is retired or unknown."""

    async def stored_part(self, most: int, now: float) -> StoredPart:
        """About so many pages at the most, all there are where they are fewer; read beside the loop."""

    async def audits(self, limit: int) -> Sequence[bool]:
        """Whether each of the fleet's latest audits found our copy fresh, oldest first."""
