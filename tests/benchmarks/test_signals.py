"""The benchmark of signals: what its rows and figures say."""

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.signal_figures import DOCS, HONEST_NAME, NAMED, Cell, Reached, figures_of, rows_of


def _reached(signals: str, draw: int, crawld: float, stages: dict[str, float]) -> Reached:
    """One draw in which deaf learning has .6, known parameters .8 and round robin .55."""
    cell = Cell(DOCS, "docs_site", 1.0, draw, (signals,), folder=Path())
    fresh = {"deaf": 0.6, "crawld": crawld, "known": 0.8, "round_robin": 0.55}
    by_stage = {name: {stage: value if name == "crawld" else 0.5 for stage, value in stages.items()} for name in fresh}
    return Reached(cell, signals, 1000 + draw, fresh, by_stage if stages else {})


FOUND = [
    _reached(HONEST_NAME, 0, 0.7, {"0-0.5": 0.52, "0.5-1": 0.6}),
    _reached(HONEST_NAME, 1, 0.74, {"0-0.5": 0.54}),
    _reached(NAMED, 0, 0.598, {}),
    _reached(NAMED, 1, 0.599, {}),
]


def test_rows_are_means_over_draws_with_the_keys_that_were_promised() -> None:
    """A row for each kind of signals and for each stage, of the draws that reached it."""
    rows = [asdict(row) for row in rows_of(FOUND)]
    assert [(row["signals"], row["crawls_per_page"], row["draws"]) for row in rows] == [
        (HONEST_NAME, None, 2), (HONEST_NAME, "0-0.5", 2), (HONEST_NAME, "0.5-1", 1), (NAMED, None, 2),
    ]  # fmt: skip
    assert {"world", "signals", "budget", "deaf", "crawld", "known", "round_robin", "slots"} <= rows[0].keys()
    assert rows[0]["crawld"] == pytest.approx(0.72)
    assert rows[0]["error"] == pytest.approx(0.02)
    assert rows[0]["slots"] == 1000


def test_figures_are_set_beside_their_targets() -> None:
    """Gains, shares of what known parameters gain, and losses by lying signals."""
    found = {one.figure.strip(): one for one in figures_of(rows_of(FOUND))}
    assert found["honest signals, gain over ignoring, b = 1 and 3"].value == pytest.approx(0.12)
    share = found["share of what known λ, ν gain"]
    assert share.value == pytest.approx(0.6)
    assert not share.reached
    assert found[f"named signals: {NAMED}"].value == pytest.approx(-0.0015)
