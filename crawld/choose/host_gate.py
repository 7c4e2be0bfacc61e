"""The host gate: which hosts may be asked, and when, by spacing, requests in flight and back-off.

Hosts are small integers. Two columns say everything a chooser needs: `earliest`, the time before which no request may
start whatever happens (spacing, back-off, Retry-After, the operator's block), and `ready_at`, the same but inf while as
many requests are in flight as the host allows. `earliest` moves to an earlier time only through an operator's verb, a
shorter Crawl-delay or a success that ends a back-off, and each such move raises `revision`, so that who has put a
blocked host aside can rely on it. Every request passes the gate, also those for robots.txt and sitemaps.

Requests change it through admission alone. Beside those, hosts come and go with their pages (`host_of_pages`,
`restore`, `forget`), and the operator blocks a host or gives it a delay.

Hosts that have pages stay. Others, which redirects and sitemaps lead to, are forgotten once they are no longer
asked for, and their index is used again. Where so many turn up that the oldest must go before their time, the time when
they may be asked again is kept in a table of fixed size (`Waits`): a Retry-After is never forgotten.

A host backs off when several of its URLs fail and none succeeds (`Evidence`). Each wait ends with one request, the
probe: if it fails, the next wait is longer; a success ends the back-off at once. A Retry-After is waited out in full.
"""

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from random import Random
from typing import NamedTuple

import numpy as np

from crawld.choose.page_table import Ints
from crawld.choose.valuation import Floats
from crawld.model.host import HostState


@dataclass(frozen=True)
class HostGateLimits:
    """Numbers that bound and tune this module."""

    enough: int = 3
    """Different URLs that must fail without a success between them before the host is blamed."""
    still_well: float = 60.0
    """For so many seconds after a success, a URL known to be bad says nothing new about its host."""
    max_known_bad: int = 100
    """Bad URLs remembered per host; the oldest are forgotten first."""
    max_known_bad_in_all: int = 200_000
    """Bad URLs remembered of all hosts, some 20 MB; beyond it they are forgotten of the host where one was found least
    recently."""
    max_steps: int = 1000
    """Failed probes after which a back-off has surely reached its longest wait."""
    far_seconds: float = 60.0
    """A host that may not be asked for longer than this, its own delay aside, is not waited for by work under way."""
    max_foreign: int = 20_000
    """Hosts without pages that are remembered whole, some 15 MB; beyond it those asked for least recently are
    forgotten."""
    foreign_looked_at: int = 8
    """Hosts that are looked at, to find one that may be forgotten, when another comes beyond that number."""
    forgotten_at_once: int = 500
    """Hosts forgotten in one step, in some milliseconds."""
    free_indexes: int = 1_000
    """Indexes of forgotten hosts that rest before the first is used again: work under way may still name one."""
    usual_seconds: float = 1.0
    """Seconds that answers of a host are taken to need before the first has come."""


LIMITS = HostGateLimits()


# Tells the trouble of single pages from the trouble of their host.


class Evidence(NamedTuple):
    """Evidence of one finished request about its host. One is made for every request: a tuple is the cheapest form."""

    url: str
    began: float  # when the request was sent
    well: bool | None  # True: it answered; False: it failed as a host in trouble does; None: that says nothing
    seconds: float = 0.0  # how long the answer took
    retry_after: float | None = None
    enough: int = (
        LIMITS.enough
    )  # different failing URLs that make it the host's trouble: fewer where the host has fewer pages
    min_wait: float = 0.0  # seconds of the first back-off; doubles with each probe


class Suspicions:
    """The URLs that failed, by host."""

    def __init__(self) -> None:
        self._well_at: dict[int, float] = {}  # the last success
        # URLs by their hashes: they are foreign text of any length, and many.
        self._failed: dict[int, set[int]] = {}  # since the last success
        self._known_bad: dict[int, dict[int, None]] = {}  # the host where one was found least recently first
        self._count = 0  # of those known to be bad

    def convicts(self, host: int, evidence: Evidence, now: float) -> bool:
        """Count a failure; True if the host itself must be in trouble."""
        well_at = self._well_at.get(host)
        if well_at is not None:
            if evidence.began < well_at:
                return False  # the host has answered since this request left
            if now - well_at < LIMITS.still_well and hash(evidence.url) in self._known_bad.get(host, ()):
                return False
        failed = self._failed.setdefault(host, set())
        failed.add(hash(evidence.url))
        return len(failed) >= evidence.enough

    def acquit(self, host: int, url: str, now: float, *, outage: bool) -> None:
        """Count a success: what failed before it was bad on its own account, unless it failed in an outage."""
        self._well_at[host] = now
        if host not in self._failed and host not in self._known_bad:
            return
        failed, known_bad = self._failed.pop(host, None), self._take_known_bad(host)
        if outage:
            return
        known_bad.update(dict.fromkeys(failed or ()))
        known_bad.pop(hash(url), None)
        while len(known_bad) > LIMITS.max_known_bad:
            del known_bad[next(iter(known_bad))]
        if known_bad:
            self._known_bad[host] = known_bad
            self._count += len(known_bad)
        while self._count > LIMITS.max_known_bad_in_all:
            self._take_known_bad(next(iter(self._known_bad)))

    def forget(self, host: int, *, wholly: bool = False) -> None:
        """Start from the beginning with a host; `wholly` if even that it answered is to be forgotten."""
        self._failed.pop(host, None)
        self._take_known_bad(host)
        if wholly:
            self._well_at.pop(host, None)

    def _take_known_bad(self, host: int) -> dict[int, None]:
        """Takes out the URLs known to be bad of a host."""
        known_bad = self._known_bad.pop(host, {})
        self._count -= len(known_bad)
        return known_bad


# When hosts that were forgotten may be asked again, in a table of fixed size.

PLACES = 1 << 17
"""Hosts whose waits are kept apart, in 1 MB; at a million waiting at once every new host waits for one of them."""


class Waits:
    """Times by name, never too early."""

    def __init__(self) -> None:
        self._until: array[float] | None = None  # made when first needed

    def remember(self, name: str, until: float) -> None:
        """Let a host that comes back wait until then."""
        if self._until is None:
            self._until = array("d", [float("-inf")]) * PLACES
        place = hash(name) % PLACES
        self._until[place] = max(self._until[place], until)

    def until(self, name: str) -> float:
        """The time before which a host may not be asked, -inf if there is none."""
        return float("-inf") if self._until is None else self._until[hash(name) % PLACES]


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits on how hosts are treated, in seconds."""

    spacing: float = 1.0  # between the starts of two requests to one host
    max_delay: float = 30.0  # the longest Crawl-delay that is honoured
    per_host: int = 1  # requests in flight
    first_backoff: float = 10.0  # doubles with each probe that fails, up to steady_backoff
    steady_backoff: float = 62.5  # with its jitter: at most one request a minute, and back within two minutes
    backoff_share: float = 1 / 60  # of the outage so far: waits grow to this, so that dead hosts cost ever less
    unknown_share: float = 1 / 4  # the same for a host that has never answered
    max_backoff: float = 3 * 3600.0
    max_retry_after: float = 86400.0  # the longest Retry-After that is honoured
    jitter: float = 0.2  # a back-off is longer by up to this share, so that hosts do not return together
    late_after: float = 2.0  # a request that waits this long, and several times as long as usual, gives up its place
    late_factor: float = 8.0  # how many times as long as the host's answers usually take
    max_late: int = 2  # requests without a place, per host


UNKNOWN = HostState("")
"""The state at the index of a host that was forgotten."""


class NotReady(StrEnum):
    """Reason why a host may not be asked now."""

    BLOCKED = "blocked by the operator"
    ASKED_TO_WAIT = "asked to wait by Retry-After"
    BACKING_OFF = "backing off after failures"
    BUSY = "as many requests in flight as allowed"
    SPACING = "time between requests"


class HostGate:
    """Says which hosts may be asked now."""

    def __init__(
        self,
        limits: HostLimits | None = None,
        rng: Random | None = None,
        crawl_delay_of: Callable[[str], float | None] = lambda _: None,
    ) -> None:
        """`crawl_delay_of` says what robots.txt asks for of a host that is new here."""
        self._limits = limits or HostLimits()
        self._rng = rng or Random(0)  # noqa: S311 - jitter is no secret
        self._index: dict[str, int] = {}
        self._states: list[HostState] = []
        self._suspicions = Suspicions()
        self._usual: dict[int, float] = {}  # seconds an answer takes, smoothed; a host that has answered is here
        self._backed_off_at: dict[int, float] = {}  # when the wait under way was decided
        self._late: dict[int, int] = {}  # requests in flight that gave up their place
        self._next_start: list[float] = []  # by spacing alone
        self._foreign: OrderedDict[int, int] = OrderedDict()  # hosts without pages, and the round of their last use
        self._round = 0
        self._held: Counter[int] = Counter()
        self._free: deque[int] = deque()  # indexes of forgotten hosts
        self._waits = Waits()
        self._crawl_delay_of = crawl_delay_of
        self.on_forget: list[Callable[[int], None]] = []  # who must forget a host too, by its index
        self.revision = 0
        self.ready_at: Floats = np.zeros(0)
        self.earliest: Floats = np.zeros(0)
        self.delay: Floats = np.zeros(0)  # between the starts of two requests
        self.in_flight: list[int] = []  # requests that hold a place

    @property
    def size(self) -> int:
        """One more than the greatest index of a host; some below it may belong to none."""
        return len(self._states)

    @property
    def known(self) -> int:
        """Number of known hosts."""
        return len(self._index)

    def host(self, name: str) -> int:
        """The index of a host, new or known; it is good as long as the host has pages, or work under way."""
        found = self._index.get(name)
        if found is not None:
            if found in self._foreign:
                self._foreign[found] = self._round
                self._foreign.move_to_end(found)
            return found
        index = self._index[name] = self._new_index()
        self._states[index] = state = HostState(name, crawl_delay=self._crawl_delay_of(name))
        self._next_start[index] = self._waits.until(name)
        self.delay[index] = self._delay(state)
        self._update(index)
        self._foreign[index] = self._round
        if len(self._foreign) > LIMITS.max_foreign:
            self._make_room()
        return index

    def host_of_pages(self, name: str) -> int:
        """The index of a host that has pages: it is kept from now on."""
        index = self.host(name)
        self._foreign.pop(index, None)
        return index

    @contextmanager
    def held(self, host: int) -> Iterator[None]:
        """Keep a host meanwhile: somebody waits for it and knows it by its index."""
        self._held[host] += 1
        try:
            yield
        finally:
            self._held[host] -= 1
            if not self._held[host]:
                del self._held[host]

    def begin_round(self) -> None:
        """Begin a round of forgetting: hosts that were not asked for in this round and the one before are idle."""
        self._round += 1

    def forget_idle(self, now: float, most: int = LIMITS.forgotten_at_once) -> int:
        """Forget some of the hosts without pages that are idle, and wait for nothing; how many."""
        idle: list[int] = []
        for index, used in self._foreign.items():
            if used >= self._round - 1 or len(idle) == most:
                break
            if self._forgettable(index) and self.earliest[index] <= now:
                idle.append(index)
        for index in idle:
            self._forget(index)
        return len(idle)

    def forget(self, name: str) -> None:
        """Forget a host that has no pages any more, at once where nothing is under way there."""
        index = self._index.get(name)
        if index is not None:
            self._foreign[index] = self._round
            if self._forgettable(index):
                self._forget(index)

    def _make_room(self) -> None:
        """Forget the host without pages that was asked for least recently, if not before the time it asked for."""
        for index in list(islice(self._foreign, LIMITS.foreign_looked_at)):
            if self._forgettable(index):
                self._waits.remember(self.name(index), float(self.earliest[index]))
                self._forget(index)
                return
            self._foreign[index] = self._round
            self._foreign.move_to_end(index)

    def _forgettable(self, index: int) -> bool:
        """Tells whether nothing is under way at a host, and the operator has said nothing of it."""
        state = self._states[index]
        under_way = self.in_flight[index] or self._late.get(index) or index in self._held
        return not (under_way or state.blocked or state.delay is not None)

    def _forget(self, index: int) -> None:
        name = self.name(index)
        for forget in self.on_forget:
            forget(index)
        del self._index[name], self._foreign[index]
        for table in (self._usual, self._backed_off_at, self._late):
            table.pop(index, None)
        self._suspicions.forget(index, wholly=True)
        self._states[index] = UNKNOWN
        self._next_start[index] = self.ready_at[index] = self.earliest[index] = -np.inf
        self.delay[index] = 0.0
        self._free.append(index)

    def _new_index(self) -> int:
        if len(self._free) > LIMITS.free_indexes:
            return self._free.popleft()
        index = len(self._states)
        self._states.append(UNKNOWN)
        self._next_start.append(-np.inf)
        self.in_flight.append(0)
        if index == len(self.ready_at):
            self._grow(max(16, 2 * index))
        return index

    def knows(self, name: str) -> bool:
        """Tells whether the host has pages, or was asked before."""
        return name in self._index

    @property
    def spacing(self) -> float:
        """The time between two requests to a host for which no longer one is set."""
        return self._limits.spacing

    def min_spacing(self) -> Floats:
        """Least seconds between two requests by host, also because answers take their time.

        inf for a host that is blocked, or down and taken to stay so. Another thread may ask.
        """
        spacing = self.delay[: len(self._states)].copy()
        places = self._limits.per_host
        for host, seconds in list(self._usual.items()):
            spacing[host] = max(spacing[host], seconds / places)
        down = [index for index, state in enumerate(self._states) if state.blocked or state.failures]
        spacing[[index for index in down if index < len(spacing)]] = np.inf
        return spacing

    def name(self, host: int) -> str:
        """The name of a host."""
        return self._states[host].name

    def ready(self, host: int, now: float) -> bool:
        """Tells whether a request to the host may start now."""
        return bool(self.ready_at[host] <= now)

    def far(self, host: int, now: float) -> bool:
        """Tells whether the host may not be asked for more than a minute: blocked, backing off, or asked to wait."""
        return bool(self.earliest[host] > now + LIMITS.far_seconds + self.delay[host])

    def acquire(self, host: int, now: float) -> None:
        """Start a request; the host must be ready."""
        assert self.ready_at[host] <= now, f"{self.name(host)} may not be asked yet"
        self.in_flight[host] += 1
        self._next_start[host] = now + self.delay.item(host)
        self._update(host)

    def wait_until(self, host: int, until: float) -> None:
        """Ask a host nothing before that time."""
        self._next_start[host] = max(self._next_start[host], until)
        self._update(host)

    def finish(
        self, host: int, now: float, evidence: Evidence | None = None, *, late: bool = False
    ) -> HostState | None:
        """Ends a request, `late` if it gave up its place, with what it says about the host (None: nothing).

        Returns what is to be remembered of the host, where that has changed.
        """
        before = self._states[host]
        if late:
            self._late[host] -= 1
        else:
            assert self.in_flight[host] > 0, f"{self.name(host)} has no request in flight"
            self.in_flight[host] -= 1
        if evidence is not None:
            if evidence.retry_after is not None:
                self._wait_as_asked(host, now + min(evidence.retry_after, self._limits.max_retry_after))
            if evidence.well:
                self._recover(host, evidence, now)
            elif evidence.well is False:
                self._suspect(host, evidence, now)
        self._update(host)
        after = self._states[host]
        return after if after is not before and after != before else None

    def give_up_place(self, host: int, waited: float) -> bool:
        """Let another request have the place of one that has waited so many seconds; False if it must keep it.

        One silent page would otherwise stop its host until the timeout. A host that backs off is asked one at a time.
        """
        limits = self._limits
        usual = self._usual.get(host, LIMITS.usual_seconds)
        late = self._late.get(host, 0)
        if waited < max(limits.late_after, limits.late_factor * usual) or late >= limits.max_late:
            return False
        if self._states[host].failures:
            return False
        self.in_flight[host] -= 1
        self._late[host] = late + 1
        self._update(host)
        return True

    def backs_off(self, host: int) -> bool:
        """Tells whether the host is taken to be in trouble: its pages are not to blame for what fails."""
        return self._states[host].failures > 0

    def not_ready(self, host: int, now: float) -> NotReady | None:
        """Returns why the host may not be asked now; None if it may."""
        state = self._states[host]
        if state.blocked:
            return NotReady.BLOCKED
        if state.asked_until > now:
            return NotReady.ASKED_TO_WAIT
        if state.blocked_until > now:
            return NotReady.BACKING_OFF
        if self.ready(host, now):
            return None
        places = 1 if state.failures else self._limits.per_host
        return NotReady.BUSY if self.in_flight[host] >= places else NotReady.SPACING

    def has_answered(self, host: int) -> bool:
        """Tells whether the host has ever answered."""
        return host in self._usual

    def set_aside(self, host: int) -> None:
        """Make the host not ready until `readmit`, or until anything else happens to it."""
        self.ready_at[host] = np.inf

    def readmit(self, host: int) -> None:
        """Make a host that was set aside as ready as it is."""
        self._update(host)

    def remember_answers(self, hosts: Ints) -> None:
        """Take these hosts to have answered before, which a restart would forget."""
        for host in hosts.tolist():
            self._usual.setdefault(host, LIMITS.usual_seconds)

    def set_crawl_delay(self, host: int, seconds: float | None) -> None:
        """Honour the Crawl-delay of robots.txt, None if there is none."""
        self._change(host, replace(self._states[host], crawl_delay=seconds))

    def set_delay(self, host: int, seconds: float | None) -> None:
        """The operator's own spacing for a host, over the default and over robots.txt; None lifts it."""
        self._change(host, replace(self._states[host], delay=seconds))

    def block(self, host: int) -> None:
        """Ask this host nothing until the operator unblocks it."""
        self._change(host, replace(self._states[host], blocked=True))

    def unblock(self, host: int) -> None:
        """Lift the operator's block, any back-off, and what a Retry-After asked for."""
        self._suspicions.forget(host)
        self._change(host, replace(self._states[host], blocked=False, blocked_until=0.0, failures=0, asked_until=0.0))

    def end_backoff(self, host: int) -> None:
        """Lift a back-off whose cause is gone; what a Retry-After asked for stays."""
        self._suspicions.forget(host)
        self._backed_off_at.pop(host, None)
        state = self._states[host]
        self._change(host, replace(state, failures=0, blocked_until=state.asked_until))

    def distrust_304(self, host: int, until: float) -> None:
        """Remember that the host was caught answering 304 for a changed page."""
        self._states[host] = replace(self._states[host], distrust_304_until=until)

    def export(self, host: int) -> HostState:
        """Returns what to remember of a host over a restart."""
        return self._states[host]

    def restore(self, state: HostState) -> int:
        """Take over what was remembered of a host and return its index."""
        host = self.host(state.name)
        self._change(host, state)
        return host

    def _change(self, host: int, state: HostState) -> None:
        """Write a host's state and renew its columns, also toward earlier times."""
        before = self._states[host]
        self._states[host] = state
        old_delay = float(self.delay[host])
        self.delay[host] = self._delay(state)
        self._next_start[host] += float(self.delay[host]) - old_delay
        if state != before:
            self.revision += 1
        self._update(host)

    def _delay(self, state: HostState) -> float:
        if state.delay is not None:
            return state.delay
        asked = min(state.crawl_delay or 0.0, self._limits.max_delay)
        return max(self._limits.spacing, asked)

    def _suspect(self, host: int, evidence: Evidence, now: float) -> None:
        """Count a failure, and back off where the host is to blame."""
        failures = self._states[host].failures
        if failures and evidence.began < self._backed_off_at.get(host, -np.inf):
            return  # it left before the wait under way: it is no probe
        if failures or self._suspicions.convicts(host, evidence, now):
            least = min(evidence.min_wait * 2.0 ** min(failures, 20), self._limits.max_retry_after)
            wait = max(self._backoff(failures + 1, known=host in self._usual), least)
            self._backed_off_at[host] = now
            state = self._states[host]
            self._states[host] = replace(state, failures=failures + 1, blocked_until=max(state.asked_until, now + wait))

    def _recover(self, host: int, evidence: Evidence, now: float) -> None:
        """Count a success: it ends a back-off."""
        usual = self._usual.get(host, evidence.seconds)
        self._usual[host] = usual + 0.2 * (evidence.seconds - usual)
        state = self._states[host]
        # A back-off whose first probe succeeds was a false alarm: some pages are bad, their host is not.
        self._suspicions.acquit(host, evidence.url, now, outage=state.failures > 1)
        if state.failures:
            self._backed_off_at.pop(host, None)
            self._change(host, replace(state, failures=0, blocked_until=state.asked_until))

    def _wait_as_asked(self, host: int, until: float) -> None:
        state = self._states[host]
        if until > state.asked_until:
            self._states[host] = replace(state, asked_until=until, blocked_until=max(state.blocked_until, until))

    def _backoff(self, failures: int, *, known: bool) -> float:
        """The wait after so many failed probes; `known` if the host has ever answered."""
        limits = self._limits
        share = limits.backoff_share if known else limits.unknown_share
        wait = outage = 0.0
        for step in range(min(failures, LIMITS.max_steps)):
            longest = min(max(limits.steady_backoff, share * outage), limits.max_backoff)
            wait = min(limits.first_backoff * 2.0 ** min(step, 60), longest)
            outage += wait
        return wait * (1.0 + limits.jitter * self._rng.random())

    def _update(self, host: int) -> None:
        state = self._states[host]
        earliest = np.inf if state.blocked else max(self._next_start[host], state.blocked_until)
        self.earliest[host] = earliest
        places = 1 if state.failures else self._limits.per_host
        self.ready_at[host] = np.inf if self.in_flight[host] >= places else earliest

    def _grow(self, capacity: int) -> None:
        for name, empty in (("ready_at", -np.inf), ("earliest", -np.inf), ("delay", 0.0)):
            old = getattr(self, name)
            new = np.full(capacity, empty, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
