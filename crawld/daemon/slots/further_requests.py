"""Whoever wants to send a further request (a redirect hop, a second look) waits here for a slot and a host's gate.

Nobody waits long. A request whose host is not ready within seconds is refused with the time at which to come back; who
comes back in that turn may wait for one gap between requests of the host. So what waits is bounded in number and in
time, and a host that is slow, backs off or asked us to wait keeps no place from others.

There are two lanes. Requests that their payer's credit pays for go before new pages, first come first served by host.
Those beyond the credit, or to a host that is not known to answer while tokens are short, share few of the slots, one
payer after the other, and may have any slot that no page wants.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from crawld.daemon.pages.pages import Pages
from crawld.daemon.slots.request_chain import Cause, Credits, Refusal, RequestChain, site_of
from crawld.daemon.slots.reservations import Reservations
from crawld.daemon.slots.shares import Share
from crawld.daemon.slots.unproven_hosts import UnprovenHosts
from crawld.frontier.politeness import HostGate
from crawld.interfaces import Clock
from crawld.pacer import Slots

SOON_SECONDS = 5.0
"""A host that may be asked within this time is waited for."""
LONGEST_WAIT = 10.0
"""Seconds that a request waits at most, beyond the gap of its host where it has a turn there."""
LONGEST_WAIT_SLOTS = 40
"""Slots for which a request waits at least, where slots are so rare that they take longer."""
MOST_WAITING = 2000
"""Requests that wait at once: as many as may be in flight."""
MOST_WITH_TURNS = 500
"""Requests that wait in their turn at once: they wait longest, and must leave room for the others."""
MOST_WAITING_PER_HOST = 16
"""Requests that wait for one host or one robots.txt at once."""
MOST_WAITING_PER_PAYER = 16
"""Requests of one payer that wait beyond its credit at once."""
SURPLUS_SHARE = 0.05
"""The part of the slots that requests beyond their payer's credit can take from other pages."""
SITE_GAPS, FOREIGN_GAPS = 2, 10
"""Redirects from the same site and from others take one in so many requests of a host that has pages of its own."""
LOOK_SECONDS = 0.25
"""A host that is busy is looked at again after this time."""
PAYERS_LOOKED_AT = 8
"""Payers beyond their credit whose next request is looked at in one slot."""


@dataclass(slots=True, eq=False)
class _Waiting:
    host: int
    chain: RequestChain
    paid: bool
    granted: asyncio.Future[bool]


class Permits:
    """Gives slots to requests that continue something already under way."""

    def __init__(self, gate: HostGate, pages: Pages, pacer: Slots, clock: Clock, unproven_hosts: UnprovenHosts) -> None:
        self._gate, self._pages, self._pacer, self._clock = gate, pages, pacer, clock
        self._unproven = unproven_hosts
        self.credits = Credits()
        self.reservations = Reservations()
        self.share = Share(SURPLUS_SHARE)
        self.shortest: Callable[[], float] = lambda: 0.0  # between two visits to a page
        self._paid: dict[int, deque[_Waiting]] = {}  # by host
        self._looks: list[tuple[float, int]] = []  # when to look at each host of `_paid`
        self._beyond: OrderedDict[str, deque[_Waiting]] = OrderedDict()  # by payer, the next one first
        self._at_host: Counter[int] = Counter()
        self._count = 0
        self._with_turns = 0
        self._redirect_at: dict[tuple[int, int], float] = {}  # by host and gaps: when the next redirect may be sent
        self._granted_at = 0.0

    def __len__(self) -> int:
        return self._count

    async def wait(self, host: int, chain: RequestChain) -> Refusal | None:
        """Return None when a slot and the host's gate are ours (the gate is acquired), else why they are not."""
        with self._gate.held(host):
            return await self._wait(host, chain)

    async def _wait(self, host: int, chain: RequestChain) -> Refusal | None:
        now = self._clock.now()
        has_turn = chain.reserved == self._gate.name(host) and self._with_turns < MOST_WITH_TURNS
        if not self._worth_waiting(host, chain, has_turn=has_turn, now=now):
            return self.refuse(host, chain)
        paid = self._unproven.admits(host) and self.credits.spend(chain.payer)
        if not paid and len(self._beyond.get(chain.payer, ())) >= MOST_WAITING_PER_PAYER:
            return Refusal(Cause.SHARE, now)
        ticket = _Waiting(host, chain, paid, asyncio.get_running_loop().create_future())
        self._enter(ticket, now)
        self._with_turns += has_turn
        seconds = max(LONGEST_WAIT, LONGEST_WAIT_SLOTS * self._pacer.spacing)
        try:
            limit = seconds + (self._gaps(host, chain) * float(self._gate.delay[host]) if has_turn else 0.0)
            await asyncio.wait((ticket.granted,), timeout=None if limit == float("inf") else limit)
        except asyncio.CancelledError:
            if ticket.granted.done():  # in the same turn of the loop: nothing was sent, so nothing is in flight
                self._unproven.end(host)
                self._gate.finish(host, self._granted_at)
            else:
                self._leave(ticket)
            raise
        finally:
            self._with_turns -= has_turn
        if ticket.granted.done():
            return None
        self._leave(ticket)
        if self._gate.ready(host, self._clock.now()):
            return Refusal(Cause.SHARE, self._clock.now())
        return self.refuse(host, chain)

    def refuse(self, host: int, chain: RequestChain) -> Refusal:
        """Give a visit that cannot wait for a host a turn there."""
        gate, now = self._gate, self._clock.now()
        ready = float(gate.earliest[host])
        if ready == float("inf"):
            return Refusal(Cause.HOST, ready)
        gaps = self._gaps(host, chain)
        spacing = gaps * float(gate.delay[host])
        ready = max(ready, self._redirect_at.get((host, gaps), ready), now + max(self.shortest(), LONGEST_WAIT))
        return Refusal(Cause.HOST, self.reservations.reserve(gate.name(host), chain.payer, ready, spacing, now))

    def _worth_waiting(self, host: int, chain: RequestChain, *, has_turn: bool, now: float) -> bool:
        """Whether the host will be ready soon enough, and there is room to wait."""
        waiting = self._at_host[host]
        if waiting >= MOST_WAITING_PER_HOST or self._count >= MOST_WAITING:
            return False
        delay = float(self._gate.delay[host])
        gaps = self._gaps(host, chain)
        ready = max(float(self._gate.earliest[host]), now, self._redirect_at.get((host, gaps), now))
        ready += waiting * gaps * delay
        spacing = self._pacer.spacing
        soon = max(SOON_SECONDS, spacing if spacing < float("inf") else 0.0) + (gaps * delay if has_turn else 0.0)
        return ready <= now + soon

    def _gaps(self, host: int, chain: RequestChain) -> int:
        """How many gaps of the host lie between two requests of the chain's kind: 1 where no page of the host waits."""
        name = self._gate.name(host)
        if name == chain.payer or not self._pages.on_host(name):
            return 1
        return SITE_GAPS if site_of(name) == site_of(chain.payer) else FOREIGN_GAPS

    def _enter(self, ticket: _Waiting, now: float) -> None:
        self._count += 1
        self._at_host[ticket.host] += 1
        if not ticket.paid:
            self._beyond.setdefault(ticket.chain.payer, deque()).append(ticket)
        elif (queue := self._paid.get(ticket.host)) is not None:
            queue.append(ticket)
        else:
            self._paid[ticket.host] = deque([ticket])
            heappush(self._looks, (now, ticket.host))

    def _leave(self, ticket: _Waiting) -> None:
        """Take out a request that waits no longer; queues are short."""
        self._count_out(ticket.host)
        if ticket.paid:
            self.credits.refund(ticket.chain.payer)
            self._paid[ticket.host].remove(ticket)  # an empty queue goes when its host is looked at
        else:
            queue = self._beyond[ticket.chain.payer]
            queue.remove(ticket)
            if not queue:
                del self._beyond[ticket.chain.payer]

    def _count_out(self, host: int) -> None:
        self._count -= 1
        self._at_host[host] -= 1
        if not self._at_host[host]:
            del self._at_host[host]

    def grant(self, now: float) -> bool:
        """Give the slot of this moment to the first that is paid for and whose host is ready; False if none is."""
        looks = self._looks
        while looks and looks[0][0] <= now:
            _, host = heappop(looks)
            queue = self._paid[host]
            if queue and self._ready(host, queue[0].chain, now):
                self._grant(queue.popleft(), now)
                self._look_again(host, queue, now)
                return True
            self._look_again(host, queue, now + LOOK_SECONDS)
        return False

    def grant_beyond(self, now: float) -> bool:
        """Give the slot of this moment to a request beyond its payer's credit, one payer after the other."""
        for _ in range(min(PAYERS_LOOKED_AT, len(self._beyond))):
            payer, queue = self._beyond.popitem(last=False)
            ticket = queue.popleft()
            granted = self._ready(ticket.host, ticket.chain, now) and self._unproven.admits(ticket.host, spare=True)
            if not granted:
                queue.append(ticket)
            if queue:
                self._beyond[payer] = queue
            if granted:
                self._grant(ticket, now)
                return True
        return False

    def _ready(self, host: int, chain: RequestChain, now: float) -> bool:
        if not self._gate.ready(host, now):
            return False
        return self._redirect_at.get((host, self._gaps(host, chain)), now) <= now

    def _look_again(self, host: int, queue: deque[_Waiting], soonest: float) -> None:
        """Look at a host again when it may be ready; a back-off may end sooner than it seems."""
        if queue:
            ready = min(float(self._gate.earliest[host]), soonest + 1.0)
            heappush(self._looks, (max(ready, soonest), host))
        else:
            del self._paid[host]

    def _grant(self, ticket: _Waiting, now: float) -> None:
        host = ticket.host
        self._count_out(host)
        if (gaps := self._gaps(host, ticket.chain)) > 1:
            self._redirect_at[host, gaps] = now + gaps * float(self._gate.delay[host])
            if len(self._redirect_at) > MOST_WAITING:
                self._redirect_at = {key: at for key, at in self._redirect_at.items() if at > now}
        self._gate.acquire(host, now)
        self._unproven.begin(host)
        self._granted_at = now
        ticket.granted.set_result(True)
