"""A forecast is what the daemon's scheduler then reaches in the simulator: a small form of `benchmarks.forecast`."""

import pytest

from benchmarks.forecast import CONTESTANTS, Site, compare, seconds_for
from crawld.sim.population import run_key

KEY = run_key(3, 0)
PAGES = 150
BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}


@pytest.fixture(scope="module")
def site() -> Site:
    """Pages on six hosts, three of them with a delay, and what visits taught of them."""
    return Site.draw(PAGES, KEY)


@pytest.mark.parametrize("multiple", [0.5, 2.0])
@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("known", 0.02),
        ("known, intervals", 0.02),
        ("learnt, intervals", 0.04),  # 150 pages: what was learnt of them is off by chance, too
    ],
)
def test_the_simulator_reaches_what_was_forecast(site: Site, name: str, reach: float, multiple: float) -> None:
    """Half and twice a bandwidth, with hosts' delays: the freshness reached is about the one forecast."""
    found = compare(site, BY_NAME[name], multiple, KEY + 2)
    assert found.forecast == pytest.approx(found.reached, abs=reach)
    assert found.round_robin < found.reached
    assert found.limited >= 1


def test_the_cost_of_many_pages_can_be_measured() -> None:
    """The benchmark's own figure comes out for a small number of pages."""
    assert set(seconds_for(2_000)) == {"make", "one_bandwidth"}
