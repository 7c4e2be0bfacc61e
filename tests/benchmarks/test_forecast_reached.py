"""A forecast is what the daemon's scheduler then reaches in the simulator: a small form of `benchmarks.forecast`."""

import pytest

from tests.support.benchmark_command import figures_of

REACH = {"known": 0.02, "known, intervals": 0.02, "learnt, intervals": 0.04}
"""150 pages: what was learnt of them is off by chance, too."""


async def test_the_simulator_reaches_what_was_forecast() -> None:
    """At half and twice a bandwidth, with hosts' delays: the freshness reached is about the one forecast."""
    found = await figures_of("forecast", "--pages", "150", "--repeats", "1", "--seed", "3", "--timed-pages", "2000")
    assert set(found["cpu_seconds"]) == {"make", "one_bandwidth"}
    compared = [one for one in found["compared"] if one["contestant"] in REACH and one["multiple"] in {0.5, 2.0}]
    assert len(compared) == 2 * len(REACH)
    for one in compared:
        assert one["forecast"] == pytest.approx(one["reached"], abs=REACH[one["contestant"]]), one
        assert one["round_robin"] < one["reached"], one
        assert one["limited"] >= 1, one
