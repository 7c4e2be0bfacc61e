"""Admission: which request may leave now, and who pays for it.

A slot is the right to send one request. A first request (a page, a poll, a robots.txt) has the slot that it was chosen
for: `decide` says whether robots.txt and its host let it leave, `begin` takes its place at the host. A further request
(a redirect hop, a second look) waits in `wait` for a slot and a place, which `grant` gives it. Each request then leaves
by the door (`Door`), and what its answer shows of the host is settled (`settle`). Who pays:

1. A first request uses its slot, and earns its host credit for further requests.
2. A further request is charged to the host of the page or poll that led to it, its payer. What the payer's credit pays
   for goes before new pages, first come first served by host.
3. What goes beyond the credit shares few of the slots, one payer after the other, and has any slot that no page wants.
4. A request to a host that is not known to answer takes a token besides. Tokens come back when the host answers and
   are lost when it does not. So a list of new hosts is crawled at the full rate, while hosts that are dead, silent or
   lead nowhere use up the tokens and then wait for the few that slots bring, or for slots that no other page wants.

Nothing waits long. A further request whose host is not ready within seconds is refused with a turn, the time at which
its page is asked again; in its turn it may wait for one gap between requests of the host. A request that takes much
longer than its host usually does gives its place to the next one. Pages that failed because their host is down wait
until that answers. So what waits is bounded in number and in time.

Each host that has spent, holds or holds up anything has a ledger; one without is as good as new.
"""

import asyncio
import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from crawld.choose.host_gate import LIMITS as HOST_GATE_LIMITS
from crawld.choose.host_gate import Evidence, HostGate
from crawld.choose.pacer import Departures, Share, Slots
from crawld.choose.scheduler import Scheduler
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch, RobotsCache
from crawld.model.fetched import (
    TURNED_AWAY,
    FetchFailed,
    Outcome,
    Purpose,
    Request,
    RobotsReading,
    RobotsState,
    Scope,
    Validators,
)
from crawld.model.host import HostState
from crawld.model.web import Clock
from crawld.pages.pages import Pages


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Bounds of what waits, what is saved up and what is remembered; times in seconds."""

    credit_per_request: float = 1.25  # that a first request earns: a redirect each time, now and then a robots.txt
    first_credit: float = 2.0  # of a new host: a redirect to a host with a robots.txt
    max_credit: float = 4.0  # two redirects to hosts with a robots.txt each
    surplus_share: float = 0.05  # of the slots, for further requests beyond their payer's credit
    unproven_share: float = 0.05  # tokens that a slot brings: what hosts that do not answer can take from other pages
    token_seconds: float = 2.0  # tokens are saved up to the slots of this time, and
    min_tokens: float = 8.0  # to this number at any rate
    max_unproven: int = 1000  # requests under way to hosts not known to answer: half of all places
    soon: float = 5.0  # a host that is ready within this time is waited for
    late_turn: float = 0.5  # by which a request may leave after its turn, where slots are not further apart
    max_wait: float = 10.0  # of a further request, beyond the gap of its host where it has a turn there
    max_wait_slots: int = 40  # where slots are so rare that these take longer
    max_waiting: int = 2000  # further requests: as many as may be in flight
    max_waiting_with_turns: int = 500  # they wait longest, and must leave room for others
    max_waiting_per_host: int = 16  # and per robots.txt
    max_waiting_per_payer: int = 16  # beyond its credit
    site_gaps: int = 2  # redirects from the same site take one in so many requests of a host that has pages,
    foreign_gaps: int = 10  # and those from other sites one in so many
    look_again: float = 0.25  # after which a busy host is looked at again
    payers_looked_at: int = 8  # in one slot
    turn_lead: float = 2.0  # by which a visit begins before its turn: its first request must be answered by then
    max_turn: float = 86400.0  # until a turn, however many are before it
    max_turns: int = 100_000  # that are remembered; the visit of one forgotten waits like any other
    max_targets: int = 2000  # hosts whose turns are in order, and payers at each
    max_ledgers: int = 50_000  # beyond it the one longest unused is forgotten, and its host is as good as new
    turned_away: int = 10  # pages of a host that must turn us away with no success between before it backs off,
    turned_away_wait: float = 900.0  # and for how long
    late_look: float = 1.0  # between looks whether a request is late
    forget_pause: float = 0.1  # between two steps of forgetting hosts
    max_turn_elsewhere: float = 3600.0  # of a page where not its own host is down but one that it redirects to


LIMITS = AdmissionLimits()


class Cause(StrEnum):
    """Why a further request may not be sent."""

    HOST = "its host may not be asked now"
    SHARE = "its site has used up its share of further requests"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A further request that is not waited for; `at` is when to try again, inf where that is unknown."""

    cause: Cause
    at: float


class NotNow(Enum):
    """Why a first request that robots.txt does not forbid has to wait."""

    HOST = auto()  # its host may not be asked now,
    FAR = auto()  # nor within a minute
    ROBOTS = auto()  # its robots.txt is being fetched


Decision = Allowed | Disallowed | NeedsFetch | NotNow


@dataclass(slots=True)
class RequestChain:
    """One visit, poll or robots.txt fetch under way: what it needs beyond its first request, and who pays for that.

    `payer` is the host that it is charged to: that of the page, not of its redirects. `reserved` is the host that it
    has a turn at, because it was refused there before. `in_slot` says whether it began with a slot of the crawler's,
    `further` whether it is part of another chain. `validators` go to the address that they are of, wherever redirects
    lead through it; redirects to `known` are not followed. `moved_to` is where permanent redirects alone have led.
    `bare` is whether it has left its origin: no credentials go along from there on.
    """

    payer: str
    reserved: str | None = None
    in_slot: bool = True
    further: bool = False
    requests: int = 0
    refusal: Refusal | None = None
    validators: Validators | None = None
    known: str | None = None
    moved_to: str | None = None
    bare: bool = False


class RobotsFetch(asyncio.Event):
    """A robots.txt that is being fetched; set when that has ended."""

    waiting = 0  # visits that wait for it


@dataclass(frozen=True, slots=True)
class Turn:
    """When a visit is to begin again, and the host that it then has a turn at."""

    at: float
    target: str


@dataclass(slots=True, eq=False)
class Sent:
    """A request under way; times are monotonic."""

    host: int
    began: float = 0.0
    look_at: float = 0.0
    over: bool = False
    late: bool = False  # it has given up its place


@dataclass(slots=True, eq=False)
class _Further:
    """A further request that waits for a slot."""

    host: int
    chain: RequestChain
    paid: bool
    granted: asyncio.Future[bool]
    has_turn: bool


@dataclass(slots=True, eq=False)
class _Ledger:
    """What one host has left to spend, holds, and holds up."""

    credit: float | None = None  # for further requests; None until some of the first credit is spent
    tokens: int = 0  # that it holds
    unproven: int = 0  # requests under way to it that took a token
    waiting: int = 0  # further requests that wait for it, and
    paid: list[_Further] = field(default_factory=list)  # those of them that are paid for; they are few
    looked_at: bool = False  # whether a look at them is to come
    redirect_at: dict[int, float] = field(default_factory=dict)  # by gaps: when the next redirect may be sent to it
    turns: dict[str, float] = field(default_factory=dict)  # the last turn of each payer there, the earliest made first
    down: dict[int, float] = field(default_factory=dict)  # pages that wait until it answers, and when each was asked

    @property
    def idle(self) -> bool:
        """Tells whether nothing is under way, so that it may be forgotten."""
        return not (self.tokens or self.unproven or self.waiting or self.looked_at or self.down)

    @property
    def blank(self) -> bool:
        """Tells whether it says no more than none."""
        return self.credit is None and not self.turns and not self.redirect_at and self.idle


class Door(Protocol):
    """Where requests leave, between their slot and the wire."""

    async def leave(self) -> float:
        """Waits until the request may leave; the monotonic time at which it does. UnsentError where it may not."""


class PacedDoor:
    """Lets every request out that has its slot, no closer to others than slots are."""

    def __init__(self, departures: Departures, clock: Clock) -> None:
        self._departures, self._clock = departures, clock

    async def leave(self) -> float:
        """Waits until the request may leave."""
        now = self._clock.monotonic()
        if (early := self._departures.delay(now)) > 0:
            await asyncio.sleep(early)
        return now + early


class Booking(NamedTuple):
    """A turn at a host that other processes ask too; without `until`, the time at which to ask for one again."""

    at: float
    until: float | None  # by which the request must have left


class Elsewhere(Protocol):
    """Books turns for further requests at hosts that other processes ask too, all within one spacing."""

    def concerns(self, host: str) -> bool:
        """Whether requests to a host need a turn."""

    async def book(self, host: str, delay: float, gaps: int, late: float, longest: float) -> Booking:
        """Books the next turn that comes within `longest` seconds; the request leaves at most `late` after it."""


class Admission:
    """Decides which request may leave now and charges it; alone changes the gate on account of requests."""

    def __init__(
        self,
        gate: HostGate,
        robots: RobotsCache,
        pages: Pages,
        scheduler: Scheduler,
        pacer: Slots,
        clock: Clock,
        door: Door | None = None,
    ) -> None:
        self.gate, self.robots, self.pages, self.scheduler = gate, robots, pages, scheduler
        self.pacer, self.clock = pacer, clock
        self.door = door or PacedDoor(Departures(pacer), clock)
        self.elsewhere: Elsewhere | None = None  # where other processes ask hosts too
        self._booking: set[str] = set()  # hosts for which a turn is booked or waited for
        self.robots_under_way: dict[str, RobotsFetch] = {}  # by the URL of the file
        self._ledgers: OrderedDict[int, _Ledger] = OrderedDict()  # by host, the one longest unused first
        self.surplus = Share(LIMITS.surplus_share)
        self._tokens = self._max_tokens()
        self._unproven = 0  # requests under way that took a token
        self._set_aside: dict[int, None] = {}  # hosts that wait for a token, in order
        self._sent: deque[Sent] = deque()  # requests under way, in the order in which they are looked at
        self._looks: list[tuple[float, int]] = []  # when to look at each host that paid requests wait for
        self._beyond: OrderedDict[str, deque[_Further]] = OrderedDict()  # requests beyond their payer's credit
        self.waiting = 0  # further requests
        self._waiting_with_turns = 0
        self._turns: OrderedDict[str, Turn] = OrderedDict()  # by the URL that has one
        self._targets: OrderedDict[int, _Ledger] = OrderedDict()  # that turns are kept of
        self._waits_for: dict[int, int] = {}  # by page the one host, the latest, that it waits for
        gate.on_forget.append(self._forget)

    def tick(self, monotonic: float) -> None:
        """A slot came: it brings part of a token, and a whole one lets a host come back."""
        if self._tokens < LIMITS.min_tokens or self._tokens < LIMITS.token_seconds * self.pacer.rate:
            self._tokens = min(self._tokens + LIMITS.unproven_share, self._max_tokens())
        if self._set_aside and self._tokens >= 1.0:
            self.let_in()
        sent = self._sent
        while sent and sent[0].look_at <= monotonic:
            if not (looked_at := sent.popleft()).over:
                self._look_at_late(looked_at, monotonic)

    # -- first requests ---------------------------------------------------------------------------------------------

    def decide(self, url: str, host: int, now: float) -> Decision:
        """Returns whether a first request may leave in the slot of this moment.

        1. robots.txt forbids it, or is unavailable: Disallowed, with the time of the next look.
        2. Its host may not be asked now: NotNow.HOST, or NotNow.FAR where that lasts.
        3. Its robots.txt is being fetched: NotNow.ROBOTS.
        4. Its robots.txt is not known: NeedsFetch. The slot is for that, and the request comes up again.
        5. Otherwise: Allowed.
        """
        verdict = self.robots.verdict(url, now)
        if isinstance(verdict, Disallowed):
            return verdict
        if self.gate.ready_at[host] > now:
            return NotNow.FAR if self.gate.far(host, now) else NotNow.HOST
        if isinstance(verdict, NeedsFetch) and verdict.url in self.robots_under_way:
            return NotNow.ROBOTS
        return verdict

    def begin(self, host: int, now: float) -> None:
        """Takes a place at a host that is ready, and a token where it is not known to answer."""
        self.gate.acquire(host, now)
        if self.unproven(host):
            self._tokens = max(self._tokens - 1.0, 0.0)
            self._unproven += 1
            ledger = self._ledger(host)
            ledger.tokens += 1
            ledger.unproven += 1
            self.gate.set_aside(host)  # one request at a time, until it has answered or given up its place

    def pause(self, host: int, until: float) -> None:
        """Asks a host nothing before that time: others come first."""
        self.gate.wait_until(host, until)

    async def forget_idle_hosts(self) -> None:
        """Forgets hosts without pages that are asked for no more, and what their robots.txt said when that is old."""
        self.gate.begin_round()
        self.robots.forget_old(self.clock.now())
        while self.gate.forget_idle(self.clock.now()):  # noqa: ASYNC110 - slots are served in between
            await asyncio.sleep(LIMITS.forget_pause)

    def end_backoff(self, name: str) -> HostState | None:
        """Lifts the back-off of a host whose cause is gone: what is to be remembered of it now; None if it had none."""
        host = self.gate.host(name)
        if not self.gate.backs_off(host):
            return None
        self.gate.end_backoff(host)
        return self.gate.export(host)

    # -- hosts that are not known to answer -------------------------------------------------------------------------

    def unproven(self, host: int) -> bool:
        """Returns whether no page of the host has answered (nothing, where it has none), or it backs off."""
        state = self.gate.export(host)
        if state.failures:
            return True
        if self.pages.answered_on_host[state.name]:
            return False
        return self.pages.on_host(state.name) > 0 or not self.gate.has_answered(host)

    def admits(self, host: int, *, spare: bool = False) -> bool:
        """Returns whether the host is known to answer or there is a token for it; slots to spare need none."""
        if not self.unproven(host):
            return True
        return self._unproven < LIMITS.max_unproven and (spare or self._tokens >= 1.0)

    def set_aside(self, host: int) -> None:
        """Lets no page of a host be picked until there is a token for it."""
        self.gate.set_aside(host)
        self._set_aside.setdefault(host)

    def let_in(self) -> bool:
        """Lets the host that waited longest for a token be picked again; False if there is none, or no place for it."""
        if not self._set_aside or self._unproven >= LIMITS.max_unproven:
            return False
        host = next(iter(self._set_aside))
        del self._set_aside[host]
        self.gate.readmit(host)
        return True

    def is_set_aside(self, host: int) -> bool:
        """Returns whether the host waits for a token."""
        return host in self._set_aside

    def judge(self, host: int, *, good: bool) -> None:
        """A visit has shown whether asking the host was of use; if so, its tokens come back."""
        ledger = self._ledgers.get(host)
        if ledger is None or not ledger.tokens:
            return
        if good:
            self._tokens = min(self._tokens + ledger.tokens, self._max_tokens())
        ledger.tokens = 0
        self._drop_blank(host, ledger)

    def _max_tokens(self) -> float:
        return max(LIMITS.min_tokens, LIMITS.token_seconds * self.pacer.rate)

    # -- further requests -------------------------------------------------------------------------------------------

    def earn(self, host: int) -> None:
        """Credits a host whose first request is sent."""
        ledger = self._ledgers.get(host)
        if ledger is not None and ledger.credit is not None:
            self._ledgers.move_to_end(host)
            ledger.credit = min(ledger.credit + LIMITS.credit_per_request, LIMITS.max_credit)

    async def wait(self, host: int, chain: RequestChain) -> Refusal | None:
        """Waits for a slot and a place at the host; None once they are there, else why they are not."""
        if self.elsewhere is None or not self.elsewhere.concerns(self.gate.name(host)):
            return await self._wait(host, chain)
        name = self.gate.name(host)
        if name in self._booking:
            return self.refuse(host, chain)
        self._booking.add(name)
        try:
            with self.gate.held(host):
                return await self._wait_in_turn(self.elsewhere, host, chain)
        finally:
            self._booking.discard(name)

    async def _wait_in_turn(self, elsewhere: Elsewhere, host: int, chain: RequestChain) -> Refusal | None:
        """Waits at a host that other processes ask too.

        1. There is no turn soon: it is refused, and the host asked nothing before.
        2. Its slot came too late for the turn: the place is given back.
        3. Otherwise it leaves within its turn.
        """
        name, delay = self.gate.name(host), float(self.gate.delay[host])
        gaps = LIMITS.site_gaps if site_of(name) == site_of(chain.payer) else LIMITS.foreign_gaps
        late = min(max(LIMITS.late_turn, 2.0 * self.pacer.spacing), LIMITS.soon)
        longest = LIMITS.soon + (delay if chain.reserved == name else 0.0)
        booked = await elsewhere.book(name, delay, gaps, late, longest)
        if booked.at == math.inf:
            return Refusal(Cause.HOST, math.inf)
        self.pause(host, booked.at)
        if booked.until is None:
            return self.refuse(host, chain)
        refusal = await self._wait(host, chain)
        if refusal is None and self.clock.now() > booked.until:
            self.abandon(Sent(host))
            return self.refuse(host, chain)
        return refusal

    async def _wait(self, host: int, chain: RequestChain) -> Refusal | None:
        with self.gate.held(host):
            further = self._enter(host, chain)
            if isinstance(further, Refusal):
                return further
            limit = max(LIMITS.max_wait, LIMITS.max_wait_slots * self.pacer.spacing)
            if further.has_turn:
                limit += self._gaps(host, chain) * float(self.gate.delay[host])
            try:
                await asyncio.wait((further.granted,), timeout=None if limit == math.inf else limit)
            except asyncio.CancelledError:
                if further.granted.done():  # in the same turn of the loop: nothing was sent
                    self.abandon(Sent(host))
                else:
                    self._leave(further)
                raise
            if further.granted.done():
                return None
            self._leave(further)
            now = self.clock.now()
            return Refusal(Cause.SHARE, now) if self.gate.ready(host, now) else self.refuse(host, chain)

    def _enter(self, host: int, chain: RequestChain) -> _Further | Refusal:
        """Decides whether a further request may wait, and who pays for it.

        1. Its host is not ready soon, or too many wait: it is refused with a turn.
        2. The host is known to answer, or there is a token, and its payer has credit: that pays, and it waits in front.
        3. Too many of its payer wait beyond their credit: it is refused.
        4. Otherwise it waits for a slot of the surplus.
        """
        now = self.clock.now()
        has_turn = chain.reserved == self.gate.name(host) and self._waiting_with_turns < LIMITS.max_waiting_with_turns
        if not self._worth_waiting(host, chain, now, has_turn=has_turn):
            return self.refuse(host, chain)
        paid = self.admits(host) and self._spend(chain.payer)
        if not paid and len(self._beyond.get(chain.payer, ())) >= LIMITS.max_waiting_per_payer:
            return Refusal(Cause.SHARE, now)
        further = _Further(host, chain, paid, asyncio.get_running_loop().create_future(), has_turn)
        ledger = self._ledger(host)
        ledger.waiting += 1
        self.waiting += 1
        self._waiting_with_turns += has_turn
        if paid:
            if not ledger.looked_at:
                ledger.looked_at = True
                heappush(self._looks, (now, host))
            ledger.paid.append(further)
        else:
            self._beyond.setdefault(chain.payer, deque()).append(further)
        return further

    def _worth_waiting(self, host: int, chain: RequestChain, now: float, *, has_turn: bool) -> bool:
        """Returns whether the host will be ready soon enough, and there is room to wait."""
        ledger = self._ledgers.get(host)
        waiting = 0 if ledger is None else ledger.waiting
        if waiting >= LIMITS.max_waiting_per_host or self.waiting >= LIMITS.max_waiting:
            return False
        gaps = self._gaps(host, chain)
        gap = gaps * float(self.gate.delay[host])
        ready = max(float(self.gate.earliest[host]), now, self._redirect_at(host, gaps)) + waiting * gap
        spacing = self.pacer.spacing
        soon = max(LIMITS.soon, spacing if spacing < math.inf else 0.0) + (gap if has_turn else 0.0)
        return ready <= now + soon

    def _gaps(self, host: int, chain: RequestChain) -> int:
        """How many gaps of the host lie between two requests of the chain's kind: 1 where no page of the host waits."""
        name = self.gate.name(host)
        if name == chain.payer or not self.pages.on_host(name):
            return 1
        return LIMITS.site_gaps if site_of(name) == site_of(chain.payer) else LIMITS.foreign_gaps

    def _redirect_at(self, host: int, gaps: int) -> float:
        ledger = self._ledgers.get(host)
        return -math.inf if ledger is None else ledger.redirect_at.get(gaps, -math.inf)

    def _spend(self, payer: str) -> bool:
        """Pays for a further request; False where the credit does not suffice."""
        ledger = self._ledger(self.gate.host(payer))
        credit = LIMITS.first_credit if ledger.credit is None else ledger.credit
        if credit < 1.0:
            return False
        ledger.credit = credit - 1.0
        return True

    def _leave(self, further: _Further) -> None:
        """Takes out a request that waits no longer; queues are short."""
        self._count_out(further)
        ledger = self._ledgers[further.host]
        self._drop_blank(further.host, ledger)
        if further.paid:
            ledger.paid.remove(further)
            payer = self._ledgers.get(self.gate.host(further.chain.payer))
            if payer is not None and payer.credit is not None:
                payer.credit = min(payer.credit + 1.0, LIMITS.max_credit)
        else:
            queue = self._beyond[further.chain.payer]
            queue.remove(further)
            if not queue:
                del self._beyond[further.chain.payer]

    def _count_out(self, further: _Further) -> None:
        self.waiting -= 1
        self._waiting_with_turns -= further.has_turn
        self._ledgers[further.host].waiting -= 1

    def grant(self, now: float) -> bool:
        """Gives the slot of this moment to the first paid request whose host is ready; False if there is none."""
        looks = self._looks
        while looks and looks[0][0] <= now:
            _, host = heappop(looks)
            ledger = self._ledgers.get(host)
            if ledger is None:
                continue  # the gate has forgotten the host
            granted = bool(ledger.paid) and self._ready(ledger.paid[0], now)
            if granted:
                self._grant(ledger.paid.pop(0), now)
            if ledger.paid:  # a back-off may end sooner than it seems
                soonest = now if granted else now + LIMITS.look_again
                heappush(looks, (max(min(float(self.gate.earliest[host]), soonest + 1.0), soonest), host))
            else:
                ledger.looked_at = False
                self._drop_blank(host, ledger)
            if granted:
                return True
        return False

    def grant_surplus(self, now: float, *, spare: bool = False) -> bool:
        """Gives the slot to a request beyond its payer's credit, one payer after the other.

        It is within the share of those, or to `spare`.
        """
        if not self._beyond or not (spare or self.surplus.ready):
            return False
        for _ in range(min(LIMITS.payers_looked_at, len(self._beyond))):
            payer, queue = self._beyond.popitem(last=False)
            further = queue.popleft()
            granted = self._ready(further, now) and self.admits(further.host, spare=True)
            if not granted:
                queue.append(further)
            if queue:
                self._beyond[payer] = queue
            if granted:
                self._grant(further, now)
                if not spare:
                    self.surplus.spend()
                return True
        return False

    def _ready(self, further: _Further, now: float) -> bool:
        host = further.host
        return self.gate.ready(host, now) and self._redirect_at(host, self._gaps(host, further.chain)) <= now

    def _grant(self, further: _Further, now: float) -> None:
        host = further.host
        self._count_out(further)
        if (gaps := self._gaps(host, further.chain)) > 1:
            self._ledgers[host].redirect_at[gaps] = now + gaps * float(self.gate.delay[host])
        self.begin(host, now)
        further.granted.set_result(True)

    # -- turns at hosts that could not be waited for ----------------------------------------------------------------

    def refuse(self, host: int, chain: RequestChain) -> Refusal:
        """Gives a visit that cannot wait for a host a turn there.

        The payers that wait for a host share its requests evenly, and the pages of a payer come one by one: a thousand
        pages that redirect to a slow host hold nothing up.
        """
        gate, now = self.gate, self.clock.now()
        ready = float(gate.earliest[host])
        if ready == math.inf:
            return Refusal(Cause.HOST, ready)
        gaps, ledger = self._gaps(host, chain), self._ledger(host)
        shortest = self.scheduler.chooser.pages.intervals.shortest
        ready = max(ready, self._redirect_at(host, gaps), now + max(shortest, LIMITS.max_wait))
        spacing, turns = gaps * float(gate.delay[host]), ledger.turns
        while turns and next(iter(turns.values())) < now:
            del turns[next(iter(turns))]
        own = turns.pop(chain.payer, None)
        turn = ready + len(turns) * spacing if own is None else max(ready, own + (len(turns) + 1) * spacing)
        turns[chain.payer] = turn = min(turn, now + LIMITS.max_turn)
        if len(turns) > LIMITS.max_targets:
            del turns[next(iter(turns))]
        self._targets[host] = ledger
        self._targets.move_to_end(host)
        if len(self._targets) > LIMITS.max_targets:
            self._targets.popitem(last=False)[1].turns.clear()
        return Refusal(Cause.HOST, max(turn - LIMITS.turn_lead, now))

    def note_turn(self, url: str, turn: Turn) -> None:
        """Remembers that a URL is asked again for this turn."""
        self._turns[url] = turn
        self._turns.move_to_end(url)
        if len(self._turns) > LIMITS.max_turns:
            self._turns.popitem(last=False)

    def turn_of(self, url: str) -> Turn | None:
        """The turn that a URL waits for."""
        return self._turns.get(url)

    def take_turn(self, url: str) -> str | None:
        """Returns where a URL that is being asked has a turn; it is used up."""
        turn = self._turns.pop(url, None)
        return None if turn is None else turn.target

    # -- on the wire ------------------------------------------------------------------------------------------------

    def watch(self, sent: Sent) -> None:
        """Looks after a request that leaves: it may turn out to be late."""
        sent.look_at = sent.began + LIMITS.late_look
        self._sent.append(sent)

    def _look_at_late(self, sent: Sent, monotonic: float) -> None:
        """Lets a request that waits much longer than its host usually needs give its place to the next one."""
        sent.late = self.gate.give_up_place(sent.host, monotonic - sent.began)
        if not sent.late:
            sent.look_at = monotonic + LIMITS.late_look
            self._sent.append(sent)

    def abandon(self, sent: Sent) -> None:
        """Ends a request that was stopped, or not sent after all: it says nothing of its host."""
        self._end(sent, None, self.clock.now())

    def settle(self, request: Request, sent: Sent, outcome: Outcome) -> HostState | None:
        """Ends a request; what is to be remembered of its host, where the outcome has changed that."""
        host, now = sent.host, self.clock.now()
        evidence = self._evidence(request, outcome, now - outcome.duration)
        changed = self._end(sent, evidence, now)
        ledger = self._ledgers.get(host)
        if ledger is not None:
            if evidence.well and ledger.down:
                self._end_outage(host, ledger)
            if ledger.tokens and (evidence.well is not True or not self.unproven(host)):
                self.judge(host, good=evidence.well is True)  # else a page of it has yet to answer
        return changed

    def _end(self, sent: Sent, evidence: Evidence | None, now: float) -> HostState | None:
        sent.over = True
        ledger = self._ledgers.get(sent.host)
        if ledger is not None:
            if ledger.unproven:
                ledger.unproven -= 1
                self._unproven -= 1
            self._drop_blank(sent.host, ledger)
        return self.gate.finish(sent.host, now, evidence, late=sent.late)

    def _evidence(self, request: Request, outcome: Outcome, began: float) -> Evidence:
        """Returns what the outcome says about the host."""
        if not isinstance(outcome, FetchFailed):
            return Evidence(request.url, began, well=True, seconds=outcome.duration)
        if outcome.trouble in TURNED_AWAY and request.purpose is Purpose.PAGE:
            enough, wait = LIMITS.turned_away, LIMITS.turned_away_wait
            return Evidence(request.url, began, False, 0.0, outcome.retry_after, enough, wait)
        if outcome.scope is Scope.HOST:
            return Evidence(request.url, began, False, 0.0, outcome.retry_after, self._enough(request))
        # A complete answer shows a host that works, also if it is not the one we wanted.
        well = None if outcome.status is None else True
        return Evidence(request.url, began, well, outcome.duration, outcome.retry_after)

    def learn_robots(
        self, url: str, name: str, outcome: Outcome, reading: RobotsReading | None
    ) -> tuple[RobotsState, HostState | None]:
        """Takes over what a robots.txt says: what is known of it now, and of its host where its Crawl-delay changed."""
        gate = self.gate
        host = gate.host(name)
        state = self.robots.learn(url, outcome, self.clock.now(), reading=reading, host_down=gate.backs_off(host))
        if state.crawl_delay == gate.export(host).crawl_delay:
            return state, None
        gate.set_crawl_delay(host, state.crawl_delay)
        return state, gate.export(host)

    def distrust_304(self, name: str, until: float) -> HostState:
        """Sends a host no conditional requests until then: it answered 304 for a page that had changed."""
        host = self.gate.host(name)
        self.gate.distrust_304(host, until)
        return self.gate.export(host)

    def distrusts_304(self, name: str, now: float) -> bool:
        """Returns whether a host's 304 is not believed."""
        return self.gate.export(self.gate.host(name)).distrust_304_until > now

    def _enough(self, request: Request) -> int:
        """How many URLs of the host must fail before the host is blamed: all its pages, where it has but one or two."""
        if request.purpose is Purpose.ROBOTS and not self.robots.has_copy(request.url, self.clock.now()):
            return 1  # without it nothing else may be asked
        pages = self.pages.asked_on_host(request.host)
        if pages and request.purpose is not Purpose.PAGE:
            pages += 1
        return min(pages or HOST_GATE_LIMITS.enough, HOST_GATE_LIMITS.enough)

    # -- hosts that are down ----------------------------------------------------------------------------------------

    def wait_for_host(self, host: int, page_id: int, own: int, asked_at: float) -> float | None:
        """When a page is asked again that failed because a host is down; None where it is not. `own` is the page's.

        Every other page of its own host comes first: where this one is bad itself, another may find the host well.
        """
        if not self.gate.backs_off(host):
            return None
        self._wait_no_longer(page_id)
        self._ledger(host).down[page_id] = asked_at
        self._waits_for[page_id] = host
        now, pages = self.clock.now(), self.pages.asked_on_host(self.gate.name(own))
        turn = (max(pages, 1) - 0.5) * max(self.gate.export(host).blocked_until - now, 0.0)
        return now + (turn if host == own else min(turn, LIMITS.max_turn_elsewhere))

    def _end_outage(self, host: int, ledger: _Ledger) -> None:
        """Lets pages that waited for a host wait no longer than the minimum interval: it has answered."""
        for page_id, asked_at in ledger.down.items():
            del self._waits_for[page_id]
            self.scheduler.lift(page_id, asked_at)
        ledger.down.clear()
        self._drop_blank(host, ledger)

    def _wait_no_longer(self, page_id: int) -> None:
        """Forgets the host that a page waited for: pages may lead to ever other hosts that are down."""
        host = self._waits_for.pop(page_id, None)
        if host is not None:
            ledger = self._ledgers[host]
            del ledger.down[page_id]
            self._drop_blank(host, ledger)

    # -- ledgers ----------------------------------------------------------------------------------------------------

    @property
    def ledgers(self) -> int:
        """Returns how many hosts have a ledger."""
        return len(self._ledgers)

    def _ledger(self, host: int) -> _Ledger:
        """The ledger of a host, which is now the one used last."""
        found = self._ledgers.get(host)
        if found is not None:
            self._ledgers.move_to_end(host)
            return found
        looks = LIMITS.payers_looked_at
        while looks and len(self._ledgers) >= LIMITS.max_ledgers:
            looks -= 1
            oldest, ledger = next(iter(self._ledgers.items()))
            if ledger.idle:
                self._targets.pop(oldest, None)
                del self._ledgers[oldest]
            else:
                self._ledgers.move_to_end(oldest)
        made = self._ledgers[host] = _Ledger()
        return made

    def _drop_blank(self, host: int, ledger: _Ledger) -> None:
        if ledger.blank:
            self._ledgers.pop(host, None)

    def _forget(self, host: int) -> None:
        """Forgets a host that the gate has forgotten: its number may be another's soon."""
        self._targets.pop(host, None)
        self._set_aside.pop(host, None)
        ledger = self._ledgers.pop(host, None)
        if ledger is not None:
            self._unproven -= ledger.unproven
            for page_id in ledger.down:
                del self._waits_for[page_id]


def site_of(host: str) -> str:
    """Returns what a host has in common with its `www.` namesake: redirects between the two are within one site."""
    return host.removeprefix("www.")
