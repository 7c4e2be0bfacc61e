"""Whoever wants to send a request waits here for a slot and for its host's gate."""

import asyncio
from collections import deque
from dataclasses import dataclass

from crawld.frontier.politeness import HostGate


@dataclass(slots=True, eq=False)
class _Waiting:
    host: int
    granted: asyncio.Future[bool]


class Permits:
    """Requests that continue something already under way (redirect hops, second looks) and wait for their slot.

    They go before new picks, first come first served among those whose host may be asked. Those whose host may not be
    asked for more than a minute are refused: work that waits for hours would fill the daemon.
    """

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self._waiting: deque[_Waiting] = deque()
        self._granted_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, host: int) -> bool:
        """Return True when a slot and the host's gate are ours (the gate is acquired), False where we are refused."""
        ticket = _Waiting(host, asyncio.get_running_loop().create_future())
        self._waiting.append(ticket)
        try:
            return await ticket.granted
        except asyncio.CancelledError:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            elif ticket.granted.result():  # in the same turn of the loop: nothing was sent, so nothing is in flight
                self._gate.finish(host, self._granted_at)
            raise

    def grant(self, now: float) -> bool:
        """Give the slot of this moment to the first whose host may be asked; False if there is none."""
        far = []
        granted = False
        for ticket in self._waiting:
            if self._gate.ready(ticket.host, now):
                self._waiting.remove(ticket)
                self._gate.acquire(ticket.host, now)
                self._granted_at = now
                ticket.granted.set_result(True)
                granted = True
                break
            if self._gate.far(ticket.host, now):
                far.append(ticket)
        for ticket in far:
            self._waiting.remove(ticket)
            ticket.granted.set_result(False)
        return granted
