"""Hosts that are not known to answer share few slots and places while other pages want them.

A host is unproven until one of its pages has answered, and again while it backs off. Each request to one takes a
token; they come back when a visit to it succeeds and are lost when one fails. So a list of new hosts that answer is
crawled at the full rate, while hosts that are dead, silent or lead nowhere use up the tokens and then wait for the few
that slots bring. Where no other page wants a slot an unproven host may have it without a token.

A host that must wait is set aside at the gate, once for all its pages, and comes back in turn.
"""

from collections import Counter, deque
from collections.abc import Callable

from crawld.daemon.pages.pages import Pages
from crawld.frontier.politeness import HostGate

UNPROVEN_SHARE = 0.05
"""Tokens that a slot brings: the part of the slots that hosts which do not answer can take from other pages."""
TOKEN_SECONDS = 2.0
"""Tokens are saved up to the slots of this time: so many new hosts may be on their way to a first answer at once."""
FEWEST_TOKENS = 8.0
"""Tokens are saved up to this number at any rate."""
MOST_UNPROVEN = 1000
"""Requests to unproven hosts under way at most, half of all places, also where no other page wants the slots."""


class UnprovenHosts:
    """Tokens for hosts that are not known to answer, and the hosts that wait for one."""

    def __init__(self, gate: HostGate, pages: Pages, rate: Callable[[], float]) -> None:
        self._gate, self._pages, self._rate = gate, pages, rate
        self._tokens = self._most()
        self._held: Counter[int] = Counter()  # tokens by the unproven hosts that hold them
        self._under_way: Counter[int] = Counter()  # requests to unproven hosts
        self._count = 0
        self._waiting: deque[int] = deque()
        self._aside: set[int] = set()
        gate.on_forget.append(self._forget)

    def __contains__(self, host: object) -> bool:
        return host in self._aside

    def __len__(self) -> int:
        return len(self._aside)

    def tick(self) -> None:
        """A slot came: it brings part of a token, and a whole one lets a host come back."""
        self._tokens = min(self._tokens + UNPROVEN_SHARE, self._most())
        if self._waiting and self._tokens >= 1.0:
            self.let_in()

    def unproven(self, host: int) -> bool:
        """Whether the host is unproven: no page of it has answered (nothing, where it has none), or it backs off."""
        if self._gate.backs_off(host):
            return True
        name = self._gate.name(host)
        if self._pages.on_host(name):
            return not self._pages.answered_on_host(name)
        return not self._gate.has_answered(host)

    def admits(self, host: int, *, spare: bool = False) -> bool:
        """Whether the host may be asked: it is known to answer, or there is a token; `spare` slots need none."""
        if not self.unproven(host):
            return True
        return self._count < MOST_UNPROVEN and (spare or self._tokens >= 1.0)

    def begin(self, host: int) -> None:
        """A request to a host whose gate is acquired is about to be sent: to an unproven host one at a time."""
        if not self.unproven(host):
            return
        self._tokens = max(self._tokens - 1.0, 0.0)
        self._held[host] += 1
        self._under_way[host] += 1
        self._count += 1
        self._gate.set_aside(host)  # until it has answered, or given up its place

    def end(self, host: int) -> None:
        """A request has ended."""
        if host in self._under_way:
            self._count -= 1
            self._under_way[host] -= 1
            if not self._under_way[host]:
                del self._under_way[host]

    def judge(self, host: int, *, good: bool) -> None:
        """A visit has shown whether asking the host was of use; if so, its tokens come back."""
        held = self._held.pop(host, 0)
        if held and good:
            self._tokens = min(self._tokens + held, self._most())

    def set_aside(self, host: int) -> None:
        """Let a host wait for a token."""
        self._gate.set_aside(host)
        if host not in self._aside:
            self._aside.add(host)
            self._waiting.append(host)

    def let_in(self) -> bool:
        """Let the host that waited longest be picked again; False if there is none, or no place for it."""
        if not self._waiting or self._count >= MOST_UNPROVEN:
            return False
        host = self._waiting.popleft()
        self._aside.discard(host)
        self._gate.take_back(host)
        return True

    def _forget(self, host: int, name: str) -> None:  # noqa: ARG002 - the name is for others
        """The gate has forgotten a host: its number may be another's soon."""
        self._held.pop(host, None)
        self.end(host)
        if host in self._aside:
            self._aside.discard(host)
            self._waiting.remove(host)

    def _most(self) -> float:
        return max(FEWEST_TOKENS, TOKEN_SECONDS * self._rate())
