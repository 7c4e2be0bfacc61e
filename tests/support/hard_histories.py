"""Histories from the corners that estimators must survive."""

import numpy as np
from numpy.typing import NDArray

HARD_PAGES = 4
HardHistory = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]


def hard_history(rng: np.random.Generator, sources: int, rows: int) -> HardHistory:
    """Offsets, lengths, signals, changes and weights of a few pages with so many intervals each.

    Lengths are from 0 to 1e9 s, signals up to a million; all, half or none of a page's intervals changed, some weigh 0.
    """
    total = HARD_PAGES * rows
    tau = 10 ** rng.uniform(-3, 9, total) * (rng.random(total) > 0.1)
    signals = rng.poisson(10 ** rng.uniform(-2, rng.choice([1.0, 6.0]), (total, sources)))
    changed = rng.random(total) < np.repeat(rng.choice([0.0, 0.5, 1.0], HARD_PAGES), rows)
    weights = rng.choice([0.0, 1e-6, 1.0], total)
    return np.arange(HARD_PAGES + 1) * rows, tau, signals, changed, weights
