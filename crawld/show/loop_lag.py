"""How late the event loop is: what waits for it, as the next slot, waits as long."""

from crawld.model.web import Clock

LOOK_SECONDS = 0.1
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    """Sleeps again and again, and counts by how much it was woken late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0  # of all looks together

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            due = self._clock.monotonic() + LOOK_SECONDS
            await self._clock.sleep_until(due)
            self.note(max(0.0, self._clock.monotonic() - due))

    def note(self, lag: float) -> None:
        """Count one look."""
        self._counts[sum(lag > bound for bound in BOUNDS)] += 1
        self.seconds += lag

    def at_most(self) -> list[tuple[float, int]]:
        """How many looks were at most so late, by bound."""
        found, total = [], 0
        for bound, count in zip((*BOUNDS, float("inf")), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found
