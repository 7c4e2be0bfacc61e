"""How late the event loop and the writer are, as it is told."""

import asyncio
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from crawld.model.host import HostState
from crawld.show.metrics import BOUNDS, LoopLag, exposition
from crawld.store.commit_queue import QueuedItem
from crawld.store.writer import Writer
from tests.support.hand_clock import HandClock


def test_lags_are_counted_in_the_bucket_that_holds_them() -> None:
    """A lag that equals a bound is at most that; the last bucket holds all."""
    lag = LoopLag(HandClock())
    for seconds in (0.0, 0.001, 0.0011, 3.0):
        lag.note(seconds)
    counts = dict(lag.buckets())
    assert (counts["0.001"], counts["0.002"], counts[repr(BOUNDS[-1])], counts["+Inf"]) == (2, 3, 3, 4)
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
    """Counters end with _total, figures without samples are left out, and whatever stands in a label is escaped."""
    counter, gauge = CounterMetricFamily("a_b", "What.", labels=["of"]), GaugeMetricFamily("c_ratio", "Not known.")
    counter.add_metric(['x"\n\\'], 2)
    late = HistogramMetricFamily("d_seconds", "How long.", buckets=[("0.5", 1), ("+Inf", 2)], sum_value=1.5)
    lines = exposition([counter, gauge, late]).decode().splitlines()
    assert r'a_b_total{of="x\"\n\\"} 2.0' in lines
    assert not any(line.startswith("c_ratio") for line in lines)
    assert {'d_seconds_bucket{le="0.5"} 1.0', 'd_seconds_bucket{le="+Inf"} 2.0', "d_seconds_sum 1.5"} <= set(lines)
