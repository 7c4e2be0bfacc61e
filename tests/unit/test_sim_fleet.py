"""The simulated fleet: its world is split among workers, and no way to share the budget exceeds it."""

from itertools import pairwise

import numpy as np
import pytest

from crawld.research.experiments.fleet import (
    EXPERIMENTS,
    Division,
    FleetWorld,
    draw_fleet_world,
    part_of,
    run_fleet,
)
from crawld.research.experiments.fleet import LIMITS as FLEET_LIMITS
from crawld.research.trial import Results, Trial, conclude

PAGES, WORKERS = 160, 3


@pytest.fixture(scope="module")
def fleet() -> FleetWorld:
    """A small world."""
    return draw_fleet_world(PAGES, WORKERS, 1)


def test_workers_divide_hosts_among_them(fleet: FleetWorld) -> None:
    """Every page has one worker, and pages of one host have the same."""
    assert set(fleet.worker_of.tolist()) <= set(range(WORKERS))
    for host in np.unique(fleet.world.host_of):
        assert len(set(fleet.worker_of[fleet.world.host_of == host].tolist())) == 1


def test_a_part_of_the_world_is_the_world_of_its_pages(fleet: FleetWorld) -> None:
    """Changes, signals and importance of a page are the same, whoever crawls it."""
    pages = np.flatnonzero(fleet.worker_of == 0)
    part = part_of(fleet.world, pages)
    for number, page in enumerate(pages.tolist()):
        assert np.array_equal(part.changes_by_page[number], fleet.world.changes_by_page[page])
        heard = fleet.world.signal_times[
            (fleet.world.signal_pages == page) & (fleet.world.signal_times > FLEET_LIMITS.start)
        ]
        assert np.array_equal(part.signal_times[part.signal_pages == number], heard)
    assert np.array_equal(part.population.mu, fleet.world.population.mu[pages])


def test_the_past_tells_what_happened(fleet: FleetWorld) -> None:
    """Histories that everyone starts with say what changed between two crawls, and how many signals there were."""
    past = fleet.past(np.arange(PAGES))
    histories = past.histories.of(np.array([7]))
    crawls, changes = fleet.past_crawls[:, 7], fleet.world.changes_by_page[7]
    changed = [bool(((changes > a) & (changes <= b)).any()) for a, b in pairwise(crawls)]
    assert histories.changed.tolist() == changed
    heard = (fleet.world.signal_pages == 7) & (fleet.world.signal_times > crawls[0])
    signals = int((heard & (fleet.world.signal_times <= FLEET_LIMITS.start)).sum())
    assert int(histories.signals.sum() + past.signals[7].sum()) == signals


def test_rates_step_up_and_the_largest_host_calls(fleet: FleetWorld) -> None:
    """From the step on the first worker's pages change more often; at the call the largest host signals every page."""
    first = np.flatnonzero(fleet.worker_of == 0).tolist()
    changes = np.concatenate([fleet.world.changes_by_page[page] for page in first])
    before, after = (
        np.count_nonzero(changes < FLEET_LIMITS.step) / FLEET_LIMITS.step,
        np.count_nonzero(changes >= FLEET_LIMITS.step) / (FLEET_LIMITS.end - FLEET_LIMITS.step),
    )
    assert after > 0.5 * FLEET_LIMITS.steep * before
    at_once = (fleet.world.signal_times >= FLEET_LIMITS.call) & (
        fleet.world.signal_times < FLEET_LIMITS.call + FLEET_LIMITS.round
    )
    assert set(np.flatnonzero(fleet.world.host_of == 0).tolist()) <= set(fleet.world.signal_pages[at_once].tolist())


@pytest.mark.parametrize("policy", list(Division))
def test_nobody_sends_more_than_the_budget(fleet: FleetWorld, policy: str) -> None:
    """However it is shared: in any time no more requests than the rate allows, and one a worker; no host too often."""
    run = run_fleet(fleet, policy)
    ours = run.times >= FLEET_LIMITS.start
    times, pages = run.times[ours], run.pages[ours]
    for begin in np.arange(FLEET_LIMITS.start, FLEET_LIMITS.end, 0.25):
        within = np.count_nonzero((times >= begin) & (times < begin + 0.25))
        assert within <= 0.25 * PAGES + WORKERS
    assert len(times) > 0.9 * PAGES * (FLEET_LIMITS.end - FLEET_LIMITS.start)
    for host in np.unique(fleet.world.host_of[pages]):
        assert np.diff(times[fleet.world.host_of[pages] == host]).min(initial=1.0) > 0.49 * FLEET_LIMITS.round


def test_losses_are_told_against_one_scheduler() -> None:
    """Of each measure, in percent of what one scheduler reaches in the same world."""
    reached = {Division.ONE: 0.8, Division.AUCTION: 0.792, Division.BY_PAGES: 0.76, Division.EQUAL: 0.6}
    results: Results = {
        Trial(policy, 4, 1, repeat): {"accuracy": value, "after_step": value / 2, "after_call": value}
        for policy, value in reached.items()
        for repeat in range(2)
    }
    rows = {row.policy: row for row in conclude(EXPERIMENTS[0], results, 1).rows}
    assert rows[Division.AUCTION].means["loss_percent"] == pytest.approx(1.0)
    assert rows[Division.EQUAL].means["loss_after_step_percent"] == pytest.approx(25.0)
    assert rows[Division.ONE].means["loss_after_call_percent"] == 0.0
