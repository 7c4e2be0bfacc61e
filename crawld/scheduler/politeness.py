"""Which hosts may be asked, and when: spacing, requests in flight, back-off.

Hosts are small integers. Two columns say everything a chooser needs: `earliest`, the time before which no request may
start whatever happens (spacing, back-off, Retry-After, the operator's block), and `ready_at`, the same but inf while as
many requests are in flight as the host allows. `earliest` moves to an earlier time only through an operator's verb or
a shorter Crawl-delay, and each such move raises `revision`, so that who has put a blocked host aside can rely on it.
Every request passes the gate, also those for robots.txt and sitemaps.
"""

from dataclasses import dataclass, replace
from random import Random

import numpy as np

from crawld.model.host import HostState
from crawld.scheduler.valuation import Floats


@dataclass(frozen=True, slots=True)
class Manners:
    """How hosts are treated, in seconds."""

    spacing: float = 1.0  # between the starts of two requests to one host
    max_delay: float = 30.0  # the longest Crawl-delay that is honoured
    per_host: int = 1  # requests in flight
    first_backoff: float = 10.0  # after one host-scope failure; doubles with each further one
    max_backoff: float = 3 * 3600.0
    max_retry_after: float = 86400.0  # the longest Retry-After that is honoured
    jitter: float = 0.2  # a back-off is longer by up to this share, so that hosts do not return together
    forgive_after: float = 600.0  # without failure since: the back-off starts from the beginning


class HostGate:
    """Says which hosts may be asked now."""

    def __init__(self, manners: Manners | None = None, rng: Random | None = None) -> None:
        self._manners = manners or Manners()
        self._rng = rng or Random(0)  # noqa: S311 - jitter is no secret
        self._index: dict[str, int] = {}
        self._states: list[HostState] = []
        self._last_failure: list[float] = []
        self._next_start: list[float] = []  # by spacing alone
        self._asked_until: dict[int, float] = {}  # by Retry-After alone, since the start
        self.revision = 0
        self.ready_at: Floats = np.zeros(0)
        self.earliest: Floats = np.zeros(0)
        self.delay: Floats = np.zeros(0)  # between the starts of two requests
        self.in_flight: list[int] = []

    @property
    def size(self) -> int:
        """How many hosts are known."""
        return len(self._states)

    def host(self, name: str) -> int:
        """The index of a host, new or known."""
        found = self._index.get(name)
        if found is not None:
            return found
        index = self._index[name] = len(self._states)
        self._states.append(HostState(name))
        self._last_failure.append(-np.inf)
        self._next_start.append(-np.inf)
        self.in_flight.append(0)
        if index == len(self.ready_at):
            self._grow(max(16, 2 * index))
        self.delay[index] = self._manners.spacing
        return index

    def knows(self, name: str) -> bool:
        """Whether the host has pages of ours, or was asked before."""
        return name in self._index

    @property
    def spacing(self) -> float:
        """The time between two requests to a host for which nobody asks for more."""
        return self._manners.spacing

    def asked_until(self, host: int) -> float:
        """Until when the host itself asked us to wait, as far as we have heard since the start; 0 if it did not."""
        return self._asked_until.get(host, 0.0)

    def name(self, host: int) -> str:
        """The name of a host."""
        return self._states[host].name

    def ready(self, host: int, now: float) -> bool:
        """Whether a request to the host may start now."""
        return bool(self.ready_at[host] <= now)

    def acquire(self, host: int, now: float) -> None:
        """Start a request; the host must be ready."""
        assert self.ready(host, now), f"{self.name(host)} may not be asked yet"
        self.in_flight[host] += 1
        self._next_start[host] = now + float(self.delay[host])
        self._update(host)

    def finish(self, host: int, now: float, *, trouble: bool = False, retry_after: float | None = None) -> None:
        """End a request; `trouble` is a failure of the host as a whole (429, 503, timeout, no connection)."""
        assert self.in_flight[host] > 0, f"{self.name(host)} has no request in flight"
        self.in_flight[host] -= 1
        state = self._states[host]
        failures = 0 if now - self._last_failure[host] >= self._manners.forgive_after else state.failures
        until = state.blocked_until
        if trouble:
            failures += 1
            self._last_failure[host] = now
            until = max(until, now + self._backoff(failures))
        if retry_after is not None:
            asked = self._asked_until[host] = now + min(retry_after, self._manners.max_retry_after)
            until = max(until, asked)
            self._last_failure[host] = max(self._last_failure[host], now)
        if failures != state.failures or until != state.blocked_until:
            self._states[host] = replace(state, failures=failures, blocked_until=until)
        self._update(host)

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
        """Lift the operator's block and any back-off."""
        self._last_failure[host] = -np.inf
        self._asked_until.pop(host, None)
        self._change(host, replace(self._states[host], blocked=False, blocked_until=0.0, failures=0))

    def distrust_304(self, host: int, until: float) -> None:
        """Remember that the host was caught answering 304 for a changed page."""
        self._states[host] = replace(self._states[host], distrust_304_until=until)

    def export(self, host: int) -> HostState:
        """What to remember of a host over a restart."""
        return self._states[host]

    def restore(self, state: HostState) -> int:
        """Take over what was remembered of a host and return its index."""
        host = self.host(state.name)
        if state.failures:
            self._last_failure[host] = state.blocked_until
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
        asked = min(state.crawl_delay or 0.0, self._manners.max_delay)
        return max(self._manners.spacing, asked)

    def _backoff(self, failures: int) -> float:
        doubled = self._manners.first_backoff * 2.0 ** min(failures - 1, 60)
        return min(doubled, self._manners.max_backoff) * (1.0 + self._manners.jitter * self._rng.random())

    def _update(self, host: int) -> None:
        state = self._states[host]
        earliest = np.inf if state.blocked else max(self._next_start[host], state.blocked_until)
        self.earliest[host] = earliest
        self.ready_at[host] = np.inf if self.in_flight[host] >= self._manners.per_host else earliest

    def _grow(self, capacity: int) -> None:
        for name, empty in (("ready_at", -np.inf), ("earliest", -np.inf), ("delay", 0.0)):
            old = getattr(self, name)
            new = np.full(capacity, empty, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
