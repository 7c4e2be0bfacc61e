"""The ledger of a fleet on PostgreSQL: membership, leases, rounds and mail, each verb one transaction.

Who may do what is decided by the database's clock and its locks on rows. A worker ends by one row that says so
(`ended_at`), written by itself or by a worker that finds its lease over; a renewal of that row waits for it and fails.
So a shard is free once its worker has ended, and never while a renewal of it can succeed.
"""

import asyncio
import json
import math
import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Self

from crawld.choose.chooser import Bid
from crawld.crawl.admission import Booking
from crawld.fleet.auction import clear
from crawld.fleet.store import statements
from crawld.fleet.store.making import Mail, MailKind, no_fleet, packed
from crawld.model.errors import InputError, StoreError
from crawld.model.shards import LIMITS as SHARDS_LIMITS
from crawld.model.shards import Grant, Lease
from crawld.show.report import Status
from crawld.store.address import Address, parse_address
from crawld.store.engine import NO_DRIVER, as_store_error


@dataclass(frozen=True, slots=True)
class Report:
    """A worker's figures and bid, sent with its beat."""

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
    status: Status | None = None  # what its own control says, every few seconds; None: as before


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a worker's beat."""

    now: float  # the database's time, read in the transaction
    expires: float  # when the lease ends, in that time
    bandwidth: float  # of the whole fleet; 0 while paused
    workers: int  # live ones, those that drain left out
    draining: bool  # whether this worker is to give its shards away
    revision: int = 0  # of the fleet's settings; 0: none were applied yet
    held: Mapping[int, int] = field(default_factory=dict)  # epochs by shard, of the shards that are ours
    free: int = 0  # shards that no worker holds
    level: float = 0.0  # at which the last round was cleared; 0: none was, or everyone got all
    last_change: int = 0  # the number of the fleet's latest change
    grants: Sequence[Grant] = ()  # ours, of the round under way and the next one
    mail: Sequence[Mail] = ()  # for our shards, taken out of the box
    duties: Mapping[str, int] = field(default_factory=dict)  # ours, with the epochs of their terms
    taken: frozenset[str] = frozenset()  # duties that other live workers have


@dataclass(frozen=True, slots=True)
class TurnWanted:
    """A request to a host that other workers may ask as well; in seconds."""

    host: str
    shard: int
    delay: float  # between two requests to the host, as far as the asker knows
    gaps: int  # as many delays lie between such requests where the host has pages: most are for those
    late: float  # by which the request may leave after its turn has come
    longest: float  # for which a turn is waited for


class LeaseLostError(Exception):
    """The lease expired before it was renewed; the worker may rejoin with a new id."""


@dataclass(frozen=True)
class LedgerLimits:
    """Numbers that bound and tune this module."""

    kept_seconds: float = 300.0
    """For which a round and its grants are kept, for `crawld fleet status`."""
    command_seconds: float = 2.0
    """A server that has not answered for so long counts as out of reach: the lease leaves time for another try."""
    read_seconds: float = 10.0
    """The same where an operator waits."""
    settle_seconds: float = 3.0
    """A worker that has just come, or came back after a silence, claims only its own: the others may be about to
    return."""
    max_mail: int = 1_000
    heard_seconds: float = 2.0
    """In which a worker has surely read its mail: two beats."""
    turn_places: int = 1 << 16
    """Hosts whose turns are kept apart; those that share a place wait for each other."""
    namesake_looks: int = 5
    """Looks, half a beat apart, at whether a worker of the same name still beats."""


LIMITS = LedgerLimits()


SETTINGS = {
    "application_name": "crawld fleet",
    "jit": "off",  # takes longer than any of our statements
    "plan_cache_mode": "force_generic_plan",  # so does the planning of a beat
    "synchronous_commit": "on",  # a lease that a crash of the server forgets would be given out twice
}


class LedgerConnection:
    """Statements one after the other, each committed by itself; none takes longer than `seconds`, opening included."""

    def __init__(self, address: Address, seconds: float) -> None:
        self.address, self._seconds = address, seconds
        self._turn = asyncio.Lock()
        self._connection: Any = None

    async def rows(self, statement: str, *values: object) -> Sequence[Mapping[str, Any]]:
        """Runs the statement and returns its rows; StoreError where the database is out of reach or refuses."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds):
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await self._open()
                    found: Sequence[Mapping[str, Any]] = await self._connection.fetch(statement, *values)
                    return found
            except TimeoutError:
                self._drop()
                redacted_url, seconds = self.address.redacted_url, self._seconds
                raise StoreError(
                    f"the database {redacted_url} did not answer within {seconds:g} s: is it alive?"
                ) from None
            except BaseException as error:
                self._drop()
                if isinstance(error, self._failures()):
                    raise as_store_error(error, self.address.redacted_url) from error
                raise

    async def row(self, statement: str, *values: object) -> Mapping[str, Any] | None:
        """The first of the rows."""
        found = await self.rows(statement, *values)
        return found[0] if found else None

    async def fleet(self) -> Mapping[str, Any] | None:
        """The fleet's number of shards and whether its settings have a table; None where the database is no fleet's."""
        if self.address.file is not None:
            return None
        present = await self.row(statements.PRESENT)
        found = await self.row("SELECT shards FROM fleet") if present and present["present"] else None
        return None if found is None else {**found, "settings": present and present["settings"]}

    async def known_fleet(self) -> Mapping[str, Any]:
        """The same; StoreError where it is no fleet's."""
        found = await self.fleet()
        if found is None:
            raise no_fleet(self.address.redacted_url)
        return found

    async def close(self) -> None:
        """Close the connection."""
        async with self._turn:
            self._drop()

    async def _open(self) -> Any:
        import asyncpg

        _, options = self.address.url.get_dialect()().create_connect_args(self.address.url)
        limit = {"statement_timeout": str(int(self._seconds * 1000))}
        return await asyncpg.connect(**options, timeout=self._seconds, server_settings=SETTINGS | limit)

    def _drop(self) -> None:
        """Close without a handshake, which may block."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @staticmethod
    def _failures() -> tuple[type[Exception], ...]:
        try:
            import asyncpg
        except ModuleNotFoundError:
            raise StoreError(NO_DRIVER) from None
        # The last is raised where the server closed the connection while no statement ran.
        return OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError


class LedgerReader:
    """A connection of a command to the fleet's tables; use it as an async context."""

    def __init__(self, url: str) -> None:
        self._line = LedgerConnection(parse_address(url), LIMITS.read_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()


async def clear_round(
    line: LedgerConnection, worker: str, number: int, bandwidth: float, round_seconds: float
) -> float | None:
    """Clear the round unless another has; the worker's own rate in it, None where it has no grant.

    The bids are read before, and all grants are written with the round's row in one statement: a worker that stops in
    between holds no lock, and finds the round cleared by another or over when it goes on.
    """
    rows = await line.rows(statements.BIDS, number)
    bids = {row["id"]: _bid(*row["bid"]) for row in rows}
    clearing = clear(bids, bandwidth * round_seconds)
    rates = {name: share / round_seconds for name, share in clearing.shares.items()}
    oldest = number - max(int(LIMITS.kept_seconds / round_seconds), 2)
    await line.rows(
        statements.CLEAR, number, worker, bandwidth, clearing.level, round_seconds, list(rates), list(rates.values()),
        oldest,
    )  # fmt: skip
    own = await line.row("SELECT rate FROM fleet_grants WHERE round = $1 AND worker = $2", number, worker)
    return None if own is None else float(own["rate"])


def bid_row(bid: Bid | None) -> list[int] | None:
    """A bid as it is stored."""
    return None if bid is None else [bid.first, bid.top, *bid.counts]


def _bid(first: int, top: int, *counts: int) -> Bid:
    return Bid(first, top, counts)


FIGURES = tuple(field.name for field in fields(Report) if field.name not in {"bid", "status"})


class SqlLedger:
    """A worker's own, on two connections: a beat waits neither for a commit nor for a claim."""

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = SHARDS_LIMITS.lease_seconds,
        round_seconds: float = SHARDS_LIMITS.round_seconds,
        settle_seconds: float = LIMITS.settle_seconds,
        command_seconds: float = LIMITS.command_seconds,
    ) -> None:
        address = parse_address(url)
        if address.file is not None:
            raise StoreError(f"a fleet needs PostgreSQL, and {address.redacted_url} is a file: set `database`")
        self._lease, self._round, self._settle = lease_seconds, round_seconds, settle_seconds
        self._beats, self._verbs = (
            LedgerConnection(address, command_seconds),
            LedgerConnection(address, command_seconds),
        )
        self._shards: int | None = None
        self._read: set[int] = set()  # mail that was handed out and may still lie in the box

    @property
    def shards(self) -> int:
        """Number of the fleet's shards; known once `open` or `join` was called."""
        if self._shards is None:
            raise StoreError("the ledger is not open")
        return self._shards

    async def open(self) -> None:
        """Read what the fleet is; StoreError where the database is no fleet."""
        self._shards = (await self._verbs.known_fleet())["shards"]

    async def close(self) -> None:
        """Close the connections; the lease goes on until it ends or `leave` was called."""
        await self._beats.close()
        await self._verbs.close()

    async def time(self) -> float:
        """The database's time; StoreError where the database is no fleet."""
        await self.open()
        found = await self._verbs.row(statements.TIME)
        assert found is not None  # noqa: S101 - it is one row
        return float(found["now"])

    async def join(self, name: str) -> str:
        """Become a worker; its id. StoreError where the database is no fleet."""
        await self.open()
        await self._check_name(name)
        worker = f"{name}.{secrets.token_hex(4)}"
        await self._verbs.rows(statements.JOIN, worker, name, self._lease)
        self._read.clear()
        return worker

    async def _check_name(self, name: str) -> None:
        """InputError where another process is a worker of that name.

        One that was killed a moment ago has a lease that lasts: it is told from a live one by its beats.
        """
        found = await self._verbs.row(statements.NAMESAKE, name)
        for _ in range(LIMITS.namesake_looks):
            if found is None:
                return
            await asyncio.sleep(SHARDS_LIMITS.beat_seconds / 2)
            before, found = found, await self._verbs.row(statements.NAMESAKE, name)
            if found is not None and found["seen_at"] > before["seen_at"]:
                raise InputError(f"a worker called {name} runs already: give this one another name (--name)")

    async def beat(self, worker: str, report: Report) -> Beat:
        """Renew the lease, post the bid, clear the next round where that is due, and read what is news.

        LeaseLostError where the lease has ended; what is out of reach raises StoreError and changes nothing.
        """
        figures = {name: getattr(report, name) for name in FIGURES}
        status = None if report.status is None else json.dumps(report.status.document())
        found = await self._beats.row(
            statements.BEAT, worker, self._lease, self._round, bid_row(report.bid), json.dumps(figures),
            list(self._read), LIMITS.max_mail, status,
        )  # fmt: skip
        if found is None:
            raise LeaseLostError(f"the lease of {worker} has ended")
        rates = dict(zip(found["grant_rounds"], found["grant_rates"], strict=True))
        for due in found["due"]:  # the next round, and the one under way where it was not cleared in time
            rates[due] = await clear_round(self._beats, worker, due, found["bandwidth"], self._round)
        self._read = set(found["mail_ids"])  # last: what a beat that fails has read is read again
        return Beat(
            now=found["now"],
            expires=found["expires"],
            bandwidth=found["bandwidth"],
            workers=found["workers"],
            draining=found["draining"],
            revision=found["revision"],
            held=dict(zip(found["held_ids"], found["held_epochs"], strict=True)),
            free=found["free"],
            level=found["level"],
            last_change=found["last_change"],
            grants=[self._grant(number, rate) for number, rate in sorted(rates.items()) if rate is not None],
            mail=_mail(found),
            taken=frozenset(found["taken"]),
            duties=dict(zip(found["duties"], found["duty_epochs"], strict=True)),
        )

    async def claim(self, worker: str, most: int, former: Mapping[int, int]) -> Sequence[Lease]:
        """Take free shards, at most so many; of `former` shards (epochs by shard) those with an unchanged epoch first.

        A former shard whose epoch is unchanged had no other owner: it keeps its epoch and need not be loaded again.
        """
        await self._verbs.rows(statements.END_LOST)
        leases: list[Lease] = []
        if former:
            found = await self._verbs.rows(statements.RECLAIM, worker, most, list(former), list(former.values()))
            leases += [Lease(row["id"], row["epoch"]) for row in found]
        if len(leases) < most:
            rest = most - len(leases)
            stale = [MailKind.PAGES, MailKind.HOST]  # what is loaded says it already
            found = await self._verbs.rows(statements.CLAIM, worker, rest, self._settle, stale)
            leases += [Lease(row["id"], row["epoch"]) for row in found]
        return leases

    async def take_duty(self, worker: str, name: str) -> int | None:
        """Do something for the whole fleet, while the lease lasts; the epoch of the term, None where another has it."""
        await self._verbs.rows(statements.END_LOST)
        taken = await self._verbs.row(statements.TAKE_DUTY, worker, name)
        return None if taken is None else int(taken["epoch"])

    async def give_duty(self, worker: str, name: str) -> None:
        """Let another worker do it."""
        free = "UPDATE fleet_duties SET worker = NULL WHERE worker = $1 AND name = $2"
        await self._verbs.rows(free, worker, name)

    async def teach(self, worker: str, taught: Sequence[float]) -> Sequence[Sequence[float]]:
        """Publish this worker's host priors; return those of each other live worker."""
        return [row["taught"] for row in await self._verbs.rows(statements.TEACH, worker, list(taught))]

    async def release(self, worker: str, shards: Sequence[int]) -> None:
        """Give shards back; everything about them has been committed."""
        free = "UPDATE fleet_shards SET worker = NULL WHERE worker = $1 AND id = ANY($2::integer[])"
        await self._verbs.rows(free, worker, list(shards))

    async def leave(self, worker: str) -> None:
        """Give everything back and be no worker any more."""
        await self._verbs.rows(statements.LEAVE, worker)

    async def send(self, mail: Sequence[Mail]) -> None:
        """Leave messages for the present or next holders of these shards."""
        if mail:
            shards, kinds = [one.shard for one in mail], [one.kind for one in mail]
            await self._verbs.rows(statements.SEND, shards, kinds, [packed(one.body) for one in mail])

    async def book(self, wanted: TurnWanted) -> Booking:
        """Book the next turn of the whole fleet at a host; where it comes too late, nothing, and when to ask again."""
        place = zlib.crc32(wanted.host.encode()) % LIMITS.turn_places
        found = await self._verbs.row(
            statements.TURN, place, wanted.host, wanted.shard, wanted.delay, wanted.late, LIMITS.heard_seconds,
            float(wanted.gaps), wanted.longest,
        )  # fmt: skip
        assert found is not None  # noqa: S101 - it is one row
        if found["at"] is None:
            return Booking(math.inf if found["blocked"] else found["earliest"], None)
        return Booking(found["at"], found["at"] + wanted.late)

    def _grant(self, number: int, rate: float) -> Grant:
        return Grant(number, number * self._round, (number + 1) * self._round, rate)


def _mail(found: Mapping[str, Any]) -> list[Mail]:
    """The messages of a beat."""
    columns = (found[f"mail_{name}"] for name in ("shards", "kinds", "bodies"))
    return [Mail(shard, kind, json.loads(body)) for shard, kind, body in zip(*columns, strict=True)]
