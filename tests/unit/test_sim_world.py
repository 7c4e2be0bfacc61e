"""Worlds: ground truth from a seed, each page its own random stream."""

import numpy as np

from crawld.research.world import Phase, Population, draw_world, from_quality


def _uniform_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    mu, delta = stream.random(2)
    return mu, delta, stream.beta(0.25, 0.25), stream.uniform(0.1, 0.6)


def test_a_page_does_not_depend_on_how_many_others_there_are() -> None:
    """Page 3 of a small world is page 3 of a large one, in its parameters and in everything that happens to it."""
    few, many = (Population.draw(_uniform_page, pages, 7) for pages in (4, 40))
    small, large = (draw_world(population, 50.0, 7) for population in (few, many))
    assert np.array_equal(few.delta, many.delta[:4])
    assert np.array_equal(small.changes_by_page[3], large.changes_by_page[3])
    assert np.array_equal(small.signal_times[small.signal_pages == 3], large.signal_times[large.signal_pages == 3])


def test_another_seed_is_another_world() -> None:
    """Keys that differ share nothing."""
    one, other = (Population.draw(_uniform_page, 20, key) for key in (1, 2))
    assert not np.any(one.delta == other.delta)


def test_events_come_as_often_as_the_population_says() -> None:
    """Over a long time the counts of changes and signals are within five standard deviations of their rates."""
    population = Population.draw(_uniform_page, 50, 3)
    world = draw_world(population, 2000.0, 3)
    expected = population.delta * 2000.0
    counted = np.diff(world.change_offsets)
    assert np.all(np.abs(counted - expected) < 5 * np.sqrt(expected) + 5)
    signalled = np.bincount(world.signal_pages, minlength=50)
    wanted = population.gamma * 2000.0
    assert np.all(np.abs(signalled - wanted) < 5 * np.sqrt(wanted) + 5)


def test_parameters_follow_from_each_other() -> None:
    """α, κ, γ and the precision are those of the method, also where signals never lie or never come."""
    population = Population(np.ones(3), np.full(3, 2.0), np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0]))
    assert population.alpha.tolist() == [1.0, 1.0, 2.0]
    assert population.gamma.tolist() == [2.0, 1.0, 0.0]
    assert np.allclose(population.kappa, [np.log(2.0), np.inf, 0.0])
    assert np.allclose(population.precision, [0.5, 1.0, 0.0])


def test_quality_gives_back_precision_and_recall() -> None:
    """A page made from a precision and a recall has them."""
    population = Population(*np.array([from_quality(1.0, 0.7, 0.4, 0.8)]).T)
    assert np.allclose(population.precision, 0.4)
    assert np.allclose(population.lam, 0.8)


def test_a_delay_moves_signals_and_nothing_else() -> None:
    """With delays the changes stay where they were, and each signal comes whole slots later."""
    population = Population.draw(_uniform_page, 5, 11)
    prompt = draw_world(population, 100.0, 11)
    late = draw_world(population, 100.0, 11, delay_mean=6.0, slot=0.5)
    assert np.array_equal(prompt.changes, late.changes)
    assert len(late.signal_times) <= len(prompt.signal_times)
    before = np.sort(prompt.signal_times[prompt.signal_pages == 0])
    after = late.signal_times[late.signal_pages == 0]
    steps = (after[:, None] - before[None, :]) / 0.5
    whole = np.isclose(steps, np.round(steps), atol=1e-6) & (steps > -1e-6)
    assert whole.any(axis=1).all()


def test_a_phase_ends_where_the_next_begins() -> None:
    """A page that falls silent half way has no change after that."""
    lively = Population(np.ones(1), np.full(1, 5.0), np.zeros(1), np.zeros(1))
    silent = Population(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1))
    world = draw_world([Phase(0.0, lively), Phase(10.0, silent)], 20.0, 1)
    assert 20 < len(world.changes) < 90
    assert world.changes.max() < 10.0
