"""Draws by weight, as audits make them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawld.choose.scheduler import LIMITS as SCHEDULER_LIMITS
from crawld.choose.scheduler import WeightedDraw

ROWS = 3 * SCHEDULER_LIMITS.block


def drawer(weights: np.ndarray) -> WeightedDraw:
    """A draw over these weights, which may change."""
    draw = WeightedDraw(lambda start, stop: weights[start:stop])
    draw.change(np.arange(len(weights)))
    return draw


@given(st.integers(0, 2**32), st.floats(0.0, 1.0, exclude_max=True))
def test_a_draw_falls_where_a_look_at_every_row_would(seed: int, uniform: float) -> None:
    """Up to rounding, the row is the one whose stretch of the cumulated weights holds the number; never one without."""
    rng = np.random.default_rng(seed)
    weights = rng.pareto(1.0, ROWS) * (rng.random(ROWS) < 0.3)
    row = drawer(weights).draw(uniform)
    assert row is not None
    assert weights[row] > 0
    reached = np.cumsum(weights)
    slack = 1e-9 * reached[-1]
    assert reached[row] - weights[row] - slack <= uniform * reached[-1] <= reached[row] + slack


def test_changed_weights_count_at_the_next_draw() -> None:
    """A row that lost its weight is never drawn, one that gained all of it always is, and without any there is none."""
    weights = np.zeros(ROWS)
    draw = drawer(weights)
    assert draw.draw(0.5) is None
    for row in (5, 2 * SCHEDULER_LIMITS.block + 7):
        weights[row] = 3.0
        draw.change(np.array([row]))
        assert draw.draw(0.999) == row
    weights[5] = 0.0
    draw.change(np.array([5]))
    assert draw.draw(0.0) == 2 * SCHEDULER_LIMITS.block + 7
