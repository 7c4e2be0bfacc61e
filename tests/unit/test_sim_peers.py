"""Peers' timers: their shipped rules, and their known fixpoints."""

import numpy as np
import pytest

from crawld.sim.engine import simulate
from crawld.sim.peers import (
    ChangeDetection,
    MinifluxFrequency,
    NutchAdaptive,
    StormCrawlerAdaptive,
    TimerCrawler,
)
from crawld.sim.population import Population
from crawld.sim.world import draw_world


def test_nutch_shrinks_by_a_fifth_and_grows_by_two_fifths() -> None:
    """From 30 days: a change leads to 24 days, no change to 33.6 leaning 30 % back toward the last change."""
    rule = NutchAdaptive()
    assert rule.next_visit(0.0, None) == pytest.approx(30.0)
    assert rule.next_visit(30.0, True) == pytest.approx(30.0 + 24.0)
    assert rule.next_visit(54.0, False) == pytest.approx(54.0 - 0.3 * 24.0 + 33.6)


def test_nutch_takes_at_once_what_is_due_beyond_ninety_days() -> None:
    """An interval that grows past 90 days makes the page due at once and starts from 81 days."""
    rule = NutchAdaptive()
    due = rule.next_visit(0.0, None)
    for _ in range(6):
        now, due = due, rule.next_visit(due, False)
        if due == now:
            break
    assert due == now
    assert rule.next_visit(due, False) == pytest.approx(due + 81.0)


def test_stormcrawler_counts_whole_minutes() -> None:
    """A day becomes half way to an hour after a change, and half as much again without, up to two weeks."""
    rule = StormCrawlerAdaptive()
    assert rule.next_visit(0.0, None) == pytest.approx(1.0)
    assert rule.next_visit(0.0, True) == pytest.approx(750 / 1440)
    assert rule.next_visit(0.0, False) == pytest.approx(1125 / 1440)
    assert [rule.next_visit(0.0, False) for _ in range(10)][-1] == pytest.approx(14.0)


def test_changedetection_never_adapts() -> None:
    """Three hours, whatever was found."""
    assert {ChangeDetection().next_visit(1.0, found) for found in (None, True, False)} == {1.125}


def test_miniflux_needs_two_entries_in_a_week() -> None:
    """One change leaves the interval at a day; changes an hour apart bring it to an hour."""
    rule = MinifluxFrequency()
    assert rule.next_visit(0.0, True) == pytest.approx(1.0)
    assert rule.next_visit(1 / 24, True) == pytest.approx(1 / 24 + 1 / 24)
    assert rule.next_visit(9.0, False) == pytest.approx(10.0)


def test_the_most_overdue_page_comes_first_and_idle_slots_stay_idle() -> None:
    """Three pages at three slots in three hours are visited once each, and not again before their timers run out."""
    still = Population(np.ones(3), np.zeros(3), np.zeros(3), np.zeros(3))
    run = simulate(draw_world(still, 0.125, 1), TimerCrawler(ChangeDetection, 3), 24.0 * 3)
    assert run.pages.tolist() == [0, 1, 2]
    assert run.used == pytest.approx(3 / 9)


def test_stormcrawler_settles_where_its_steps_balance() -> None:
    """With room for every timer, 37 % of its visits find a change: then growing and shrinking cancel."""
    slow = Population(np.ones(60), np.full(60, 0.2), np.zeros(60), np.zeros(60))
    world = draw_world(slow, 600.0, 2)
    run = simulate(world, TimerCrawler(StormCrawlerAdaptive, 60), 60 * 24.0)
    found = sum(len(np.unique(np.searchsorted(run.times[run.pages == page], world.changes_by_page[page])))
                for page in range(60))  # fmt: skip
    assert found / len(run.times) == pytest.approx(0.369, abs=0.02)
