"""Learners of papers and signals drawn for recorded worlds: what contestants of a comparison are made of."""

import numpy as np
import pytest

from crawld.model.errors import InputError
from crawld.research.contestants import LEARNERS, contestant
from crawld.research.engine import simulate
from crawld.research.recorded import draw_window
from crawld.research.weblike import Honesty, evenly_important, name_at_random, tell, weblike
from crawld.research.world import Population, World, draw_world, run_key


def calm_and_restless(days: float = 300.0) -> World:
    """Fifty pages, half of which change forty times as often as the others; no signals."""
    rates = np.where(np.arange(50) % 2, 2.0, 0.05)
    nothing = np.zeros(50)
    return draw_world(Population(np.ones(50), rates, nothing, nothing), days, run_key(3, 0))


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_leave_restless_pages_for_those_that_stay_fresh(name: str) -> None:
    """With a crawl per change both end above round robin, and use every slot."""
    world = calm_and_restless()
    reached = {}
    for crawler in (name, "uniform", "known"):
        run = simulate(world, contestant(crawler, world, 50.0), 50.0)
        reached[crawler] = run.ledger().accuracy(150.0, 300.0)
        assert run.used == 1.0
    assert reached["uniform"] < reached[name] < reached["known"] + 0.005


@pytest.mark.parametrize("name", [*LEARNERS, "known"])
def test_learners_follow_pages_that_come_and_go(name: str) -> None:
    """A page is crawled between its birth and its death, and never outside."""
    world = calm_and_restless(60.0)
    births, deaths = np.where(np.arange(50) < 10, 20.0, 0.0), np.where(np.arange(50) >= 40, 40.0, 60.0)
    moving = World(
        world.population, 60.0, world.changes, world.change_offsets, np.empty(0), np.empty(0, np.int64),
        births=births, deaths=deaths,
    )  # fmt: skip
    run = simulate(moving, contestant(name, moving, 10.0), 10.0)
    assert (run.times >= births[run.pages]).all()
    assert (run.times <= deaths[run.pages]).all()
    assert set(run.pages[run.times > 25.0].tolist()) & set(range(10))


def test_a_contestant_that_does_not_exist_is_an_error() -> None:
    """The error names those that do."""
    with pytest.raises(InputError, match="mirrorsync"):
        contestant("nobody", calm_and_restless(10.0), 1.0)


def test_told_signals_have_the_recall_and_precision_that_were_asked_for() -> None:
    """Shares of changes told and of signals that are true come out within sampling error, and mass changes in bulk."""
    world = evenly_important(weblike(run_key(1, 0), hosts=1, pages=200, days=300.0))
    told = tell(world, Honesty(0.7, 0.7, late=1.0), np.random.default_rng(1))
    pages = np.repeat(np.arange(200), np.diff(world.change_offsets))
    true = sum(
        bool(((changes < at) & (changes >= at - 1.0)).any())
        for at, changes in zip(
            told.signal_times, (world.changes_by_page[page] for page in told.signal_pages), strict=True
        )
    )
    assert true / len(told.signal_times) == pytest.approx(0.7, abs=0.06)
    assert true / len(pages) == pytest.approx(0.7, abs=0.06)
    assert np.unique(told.signal_times, return_counts=True)[1].max() > 20
    exact = tell(world, Honesty(1.0, 1.0), np.random.default_rng(1))
    assert np.array_equal(np.sort(exact.signal_times), np.sort(world.changes[world.changes < world.horizon]))


def test_random_names_fall_on_living_pages_and_may_spare_half_of_them() -> None:
    """With `half` every second page keeps its own signals and no other is named truly."""
    world = evenly_important(weblike(run_key(1, 0), hosts=1, pages=100, days=200.0))
    named = name_at_random(world, 3.0, np.random.default_rng(2))
    assert len(named.signal_times) == pytest.approx(600, abs=100)
    halves = name_at_random(
        tell(world, Honesty(1.0, 1.0), np.random.default_rng(1)), 3.0, np.random.default_rng(2), half=True
    )
    odd = halves.signal_pages % 2 == 1
    assert odd.sum() == sum(len(world.changes_by_page[page]) for page in range(1, 100, 2))
    assert (halves.population.lam[::2] == 0).all()


def test_a_window_is_drawn_with_about_as_many_changes_as_were_asked_for() -> None:
    """Its pages and days are fewer than the world's, and the same seed draws it again."""
    world = weblike(run_key(1, 0), hosts=3, pages=400, days=300.0)
    cut = draw_window(world, 100, 500, np.random.default_rng(1))
    assert 500 <= len(cut.changes) <= 700
    assert cut.population.pages < 200
    assert (cut.changes <= cut.horizon).all()
    again = draw_window(world, 100, 500, np.random.default_rng(1))
    assert np.array_equal(cut.changes, again.changes)
