"""How late the event loop and the writer are, as it is told."""

import asyncio
from collections.abc import Sequence

from crawld.model.host import HostState
from crawld.model.metrics import Distribution, Family, FamilyKind, Figures
from crawld.show.api.metrics import exposition
from crawld.show.metrics import BOUNDS, LoopLag
from crawld.store.commit_queue import QueuedItem
from crawld.store.writer import Writer


class HandClock:
    """A clock that is turned by hand."""

    time = 100.0

    def now(self) -> float:
        """The time."""
        return self.time

    def monotonic(self) -> float:
        """The time."""
        return self.time

    async def sleep_until(self, monotonic: float) -> None:
        """Nobody sleeps here."""


def test_lags_are_counted_in_the_bucket_that_holds_them() -> None:
    """A lag that equals a bound is at most that; the last bucket holds all."""
    lag = LoopLag(HandClock())
    for seconds in (0.0, 0.001, 0.0011, 3.0):
        lag.note(seconds)
    counts = dict(lag.at_most())
    assert (counts[0.001], counts[0.002], counts[BOUNDS[-1]], counts[float("inf")]) == (2, 3, 3, 4)
    assert lag.seconds == 3.0021


async def test_the_writer_knows_how_long_its_oldest_item_waits() -> None:
    """It is 0 where nothing waits, and grows while the database does not take what is queued."""
    clock, open_door = HandClock(), asyncio.Event()

    async def commit(items: Sequence[QueuedItem]) -> None:
        await open_door.wait()

    writer = Writer(commit, 0.0, clock)
    writer.start()
    assert writer.lag == 0.0
    writer.put(HostState("a.example"))
    clock.time += 5.0
    writer.put(HostState("b.example"))
    clock.time += 2.0
    assert writer.lag == 7.0
    open_door.set()
    await writer.flush()
    assert writer.lag == 0.0
    await writer.close()


def test_figures_are_written_as_prometheus_reads_them() -> None:
    """Counters end with _total, unknown figures are left out, and whatever stands in a label is escaped."""
    families = [
        Family("a_b", FamilyKind.COUNTER, "What.", {('x"\n\\',): 2}, ["of"]),
        Family("c_ratio", FamilyKind.GAUGE, "Not known.", {(): None}),
    ]
    text = exposition(Figures(families, [Distribution("d_seconds", "How long.", [(0.5, 1), (float("inf"), 2)], 1.5)]))
    lines = text.decode().splitlines()
    assert r'a_b_total{of="x\"\n\\"} 2.0' in lines
    assert not any(line.startswith("c_ratio") for line in lines)
    assert {'d_seconds_bucket{le="0.5"} 1.0', 'd_seconds_bucket{le="+Inf"} 2.0', "d_seconds_sum 1.5"} <= set(lines)
