"""The scores: hosts that keep to the model are believed, others are met with caution and by their clocks."""

import numpy as np

from crawld.learning.prediction_scores import PredictionScores

HOST = np.zeros(200, np.int64)
PAGES = np.full(200, 20, np.int64)


def judged(shape: float, clock: float, changed: np.ndarray) -> tuple[PredictionScores, list[int]]:
    """PredictionScores after crawls one mean interval apart, and the hosts said to be met otherwise."""
    scores, one = PredictionScores(), np.ones(200)
    moved = scores.judge(HOST, PAGES, (shape * one, one), (2.0 * one, clock * one), changed)
    return scores, moved.tolist()


def test_a_host_nothing_is_known_of_is_met_with_caution() -> None:
    """Shapes are capped and the clock is used until predictions say otherwise."""
    scores = PredictionScores()
    assert scores.cautious(np.array([0, 7])).tolist() == [True, True]
    assert scores.clocked(np.array([0, 7])).tolist() == [True, True]


def test_a_host_that_keeps_to_the_model_is_believed() -> None:
    """Where e^−ατ of the crawls find no change, capped shapes and a wrong clock predict worse."""
    changed = np.random.default_rng(1).random(200) > np.exp(-2.0)
    scores, moved = judged(1000.0, 0.5, changed)
    assert not scores.cautious(HOST[:1])[0]
    assert not scores.clocked(HOST[:1])[0]
    assert moved == [0]


def test_a_host_whose_pages_rest_longer_than_their_rates_say_stays_under_caution() -> None:
    """Where more pages than e^−ατ are found unchanged the heavier tail predicts better, and nobody is fitted again."""
    changed = np.random.default_rng(1).random(200) > 1.0 / 3.0
    scores, moved = judged(1000.0, 2.0, changed)
    assert scores.cautious(HOST[:1])[0]
    assert moved == []
