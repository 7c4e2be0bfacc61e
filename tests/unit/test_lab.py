"""The lab's worlds and scores as pure code: what is served when, and what a crawler's copies were worth."""

from pathlib import Path

import numpy as np
import pytest

from crawld.model.errors import InputError
from crawld.research.replayed import as_polled, simulated_freshness
from crawld.research.scenario import (
    Scenario,
    Size,
    in_seconds,
    living_scenario,
    noisy_scenario,
    recorded_scenario,
    weblike_scenario,
)
from crawld.research.score import Scoreboard, Visits
from crawld.research.site import LIMITS as RESEARCH_SITE_LIMITS
from crawld.research.site import Lastmods
from crawld.research.weblike import Sitemap
from crawld.research.world import Population, World

DAY = 86_400


def world(changes: list[list[float]], signals: list[tuple[float, int, float, float]], horizon: float = 100.0) -> World:
    """Pages with these changes; signals are (time, page, claim, span)."""
    pages, told = len(changes), np.array(signals).reshape(-1, 4)
    ones = np.ones(pages)
    return World(
        Population(ones, ones, 0 * ones, 0 * ones),
        horizon,
        np.concatenate(changes),
        np.cumsum([0] + [len(one) for one in changes]),
        told[:, 0],
        told[:, 1].astype(int),
        told[:, 2],
        told[:, 3],
        listed=np.arange(pages) == 0,
    )


def recorded(path: Path, *, days: int = 400) -> Path:
    """A history of two pages that change daily, one of which comes late."""
    times = 1_234_567 + np.arange(1, days) * DAY
    arrays = {
        "page_path": np.array(["a", "b"]),
        "birth": 1_234_567 + np.array([0, (days - 1) * DAY]),
        "death": np.array([0, 0]),
        "change_off": np.array([0, len(times), len(times)]),
        "change_t": times,
        "signal_off": np.array([0, len(times), len(times)]),
        "signal_t": times,
        "signal_lastmod": times,
        "lastmod0": np.array([0, 0]),
        "commit_t": np.array([1_234_567 + days * DAY]),
    }
    np.savez(path, allow_pickle=False, **arrays)
    return path


def changes_per_second(scenario: Scenario) -> float:
    """How often anything changes."""
    return len(scenario.world.changes) / scenario.world.horizon


def test_worlds_are_as_large_long_and_lively_as_asked_for() -> None:
    """Drawn worlds have the pages and hosts wanted, live as long, and change at the pace that was asked for."""
    size = Size(pages=120, hosts=6, seconds=300.0, changes_per_second=4.0)
    for scenario in (noisy_scenario(size), weblike_scenario(size)):
        assert scenario.pages == 120
        assert len(scenario.hosts) == len(set(scenario.hosts)) == 6
        assert scenario.world.horizon >= 300.0
        assert changes_per_second(scenario) == pytest.approx(4.0, rel=0.35)
    assert weblike_scenario(size).has_sitemap.count(False) == 1
    assert weblike_scenario(size, Sitemap.LATE).hosts == tuple(f"late-{i}" for i in range(1, 7))
    long = weblike_scenario(Size(pages=40, hosts=2, seconds=5_000.0))
    assert long.world.horizon >= 5_000.0


def test_a_history_is_replayed_for_the_pages_that_lived_through_it(tmp_path: Path) -> None:
    """Its last days pass at the pace asked for, a page born in them is left out, and a short history says so."""
    file = recorded(tmp_path / "site_x.npz")
    scenario = recorded_scenario([file], Size(seconds=50.0, changes_per_second=2.0))
    assert (scenario.pages, scenario.hosts, scenario.has_sitemap) == (1, ("site-x-1",), (True,))
    assert changes_per_second(scenario) == pytest.approx(2.0, rel=0.05)
    several = recorded_scenario([file, recorded(tmp_path / "docs_y.npz", days=333)], Size(seconds=33.3))
    assert (several.pages, several.hosts) == (2, ("site-x-1", "docs-y-2"))
    with pytest.raises(InputError, match="fewer --changes or --seconds"):
        recorded_scenario([file], Size(seconds=5_000.0, changes_per_second=2.0))
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(InputError, match="no recorded history"):
        recorded_scenario([tmp_path / "bad.npz"], Size())


def test_a_lastmod_is_what_the_last_signal_published() -> None:
    """A moment, a day far ahead, or a text that is no date; before any signal a time long ago, or nothing."""
    nan = float("nan")
    told = Lastmods(
        world([[5.0], [5.0]], [(6.0, 0, 5.0, 0.0), (20.0, 0, 15.0, 10.0), (30.0, 0, nan, 0.0)]),
        began=RESEARCH_SITE_LIMITS.before,
    )
    assert told.text(0, 5.9) == "1970-01-01T00:00:00.000+00:00"
    assert told.text(1, 99.0) is None
    assert told.text(0, 6.0) == "1970-01-31T00:00:05.000+00:00"
    assert told.text(0, 25.0) == "2100-01-02"
    assert told.text(0, 31.0) == "unknown (3)"


def test_the_score_is_exact() -> None:
    """A copy is current from its crawl to the next change; what was caught, and after how long, is counted."""
    board = Scoreboard(world([[4.0, 8.0], []], []))
    visits = board.of("x")
    now_fresh = []
    for at, page, until in ((1.0, 0, 4.0), (2.0, 1, np.inf), (5.0, 0, 8.0)):
        visits.served(page, at, until)
        visits.count("page")
        now_fresh.append(board.freshness_now("x", at + 2.5))
    assert now_fresh == [0.5, 0.5, 1.0]
    score = board.score("x", 2.0, 10.0)
    assert score.freshness == pytest.approx((2 + 3 + 8) / 16)
    assert (score.requests, score.changes, score.caught, score.delay_mean) == (3, 2, 1, 1.0)
    fresh, crawls, changes = board.by_page("x", 2.0, 10.0)
    assert fresh.tolist() == pytest.approx([5 / 8, 1.0])
    assert (crawls.tolist(), changes.tolist()) == ([1, 0], [2, 0])
    assert board.score("nobody", 2.0, 10.0).freshness == 0.0
    assert list(board.scores(10.0)) == ["x"]


def test_the_demos_hosts_have_one_sitemap_of_each_kind() -> None:
    """Honest signals claim the changes themselves, builds stamp every page at once, frozen lastmods never move."""
    scenario = living_scenario(9, 30.0)
    w = scenario.world
    claims, host = w.signal_claims, w.host_of[w.signal_pages]
    assert claims is not None
    assert set(claims[host == 0]) <= set(w.changes)
    assert np.allclose(claims[host == 1] % 5.0, 0.0)
    assert not (host == 2).any()


def visits(pages: int, rate: float, seconds: float, polls: dict[int, list[float]]) -> Visits:
    """A crawler that asked for pages at a rate, and for sitemaps at these moments."""
    made = Visits(pages, polls=polls)
    for number in range(int(rate * seconds)):
        made.served(number % pages, (number + 1) / rate, np.inf)
    return made


def test_the_simulator_runs_the_same_world_in_seconds() -> None:
    """Pages that never change are always fresh once crawled; a faster world is staler, one with signals is fresher."""
    quiet = Scenario(world([[], []], []), ("a",), (False,))
    still = simulated_freshness(quiet, "uniform", visits(2, 1.0, 100.0, {}), (50.0, 100.0))
    assert still.freshness == pytest.approx(1.0)
    assert still.spread == pytest.approx(0.0)
    drawn = noisy_scenario(Size(pages=16, hosts=1, seconds=120.0, changes_per_second=0.6))
    fast = Scenario(in_seconds(drawn.world, 0.5), drawn.hosts, drawn.has_sitemap)
    span, asked = (24.0, 60.0), visits(16, 1.3, 60.0, {})
    slow_value, fast_value = (simulated_freshness(one, "greedy-ncis", asked, span).freshness for one in (drawn, fast))
    assert 0.3 < fast_value < slow_value < 1.0


def test_simulated_runs_differ_by_the_moments_at_which_changes_are_met() -> None:
    """Two pages in turn, one of which changes every second turn: when turns begin decides, and the spread says so."""
    often = Scenario(world([[2.0 * i + 0.1 for i in range(50)], []], []), ("a",), (False,))
    in_turn = simulated_freshness(often, "uniform", visits(2, 1.0, 100.0, {}), (20.0, 100.0))
    assert 0.5 < in_turn.freshness < 1.0
    assert in_turn.spread > 0.05


def test_signals_are_simulated_as_they_were_polled() -> None:
    """A signal is seen at the next poll of its host, the last of a page alone, and never where nobody polled."""
    told = [(1.0, 0, 1.0, 0.0), (2.0, 0, 2.0, 0.0), (3.0, 1, 3.0, 0.0), (9.5, 0, 9.5, 0.0)]
    seen = as_polled(world([[1.0], [3.0]], told), Visits(2, polls={0: [2.5, 9.0]}))
    assert seen.signal_times.tolist() == [2.5, 9.0]
    assert seen.signal_pages.tolist() == [0, 1]
    assert seen.signal_claims is not None
    assert seen.signal_claims.tolist() == [2.0, 3.0]
    assert len(as_polled(world([[], []], told), Visits(2)).signal_times) == 0
