"""Predictors weighed by what they proved: host by host, event by event, and across hosts."""

import numpy as np
import pytest

from crawld.learn.mixture import JointEvents, Mixture

PRIOR = (0.99, 0.01)


def judge(mixture: Mixture, gain: float, crawls: int = 1, host: int = 0, pages: int = 100) -> list[int]:
    """Crawls of one host on which the second predictor is so far ahead."""
    hosts = np.full(crawls, host)
    moved: list[int] = mixture.judge(hosts, np.full(crawls, pages), np.tile([0.0, gain], (crawls, 1))).tolist()
    return moved


def weight(mixture: Mixture, host: int = 0) -> float:
    """What the second predictor counts."""
    return float(mixture.weights(np.array([host]))[0, 1])


def test_a_predictor_is_silent_until_it_has_proved_itself() -> None:
    """Below .02 it does not count at all; ahead by five it counts for about half, and its host is told of."""
    mixture = Mixture(PRIOR)
    assert weight(mixture) == 0.0
    assert judge(mixture, 0.5, crawls=10) == [0]
    assert weight(mixture) == pytest.approx(0.58, abs=0.05)
    assert judge(mixture, 0.001) == []


def test_one_surprise_speaks_against_a_predictor_and_not_for_it() -> None:
    """A crawl adds one at most, and takes away whatever it takes."""
    mixture = Mixture(PRIOR)
    judge(mixture, 50.0)
    assert mixture.score(0)[1] == 1.0
    judge(mixture, -50.0)
    assert mixture.score(0)[1] == pytest.approx(-49.0, abs=0.01)


def test_crawls_that_saw_one_event_add_little_together() -> None:
    """However many pages an event touched, and in however many batches they are read; the next event counts anew."""
    mixture, crawls = Mixture(PRIOR), 40
    pages, gain = np.full(crawls, 1000), np.tile([0.0, 0.5], (crawls, 1))
    for times in (np.linspace(0.0, 4.0, crawls), np.linspace(4.0, 9.0, crawls)):
        events = JointEvents(np.ones(crawls, bool), times, np.full(crawls, 10.0))
        mixture.judge(np.zeros(crawls, np.int64), pages, gain, events)
        assert mixture.score(0)[1] == pytest.approx(Mixture.max_event_gain, abs=0.02)
    later = JointEvents(np.ones(crawls, bool), np.full(crawls, 30.0), np.full(crawls, 10.0))
    mixture.judge(np.zeros(crawls, np.int64), pages, gain, later)
    assert mixture.score(0)[1] == pytest.approx(2 * Mixture.max_event_gain, abs=0.05)


def test_a_new_host_starts_from_what_other_hosts_have_shown() -> None:
    """Where three hosts of many pages believe a predictor, the fourth begins with it; small hosts say less."""
    large, small = Mixture(PRIOR), Mixture(PRIOR)
    for host in range(3):
        judge(large, 1.0, crawls=30, host=host, pages=100)
        judge(small, 1.0, crawls=30, host=host, pages=5)
    assert weight(large, host=3) > 0.5
    assert weight(small, host=3) < 0.2


def test_small_hosts_of_a_graded_mixture_start_nearer_to_even_odds() -> None:
    """A prior that many pages must outweigh says less about a host of ten pages, and no less about one of a page."""
    found = []
    for pages in (1, 10, 200):
        mixture = Mixture((1.0, 1e-6), graded=True)
        judge(mixture, 1.0, crawls=4, pages=pages)
        found.append(weight(mixture))
    assert 0.5 < found[0] <= found[1] < 0.9
    assert found[2] == 0.0


def test_old_crawls_fade() -> None:
    """After ten crawls a page a score counts 1/e."""
    mixture = Mixture(PRIOR)
    judge(mixture, 1.0, crawls=10, pages=10)
    before = mixture.score(0)[1]
    judge(mixture, 0.0, crawls=100, pages=10)
    assert mixture.score(0)[1] == pytest.approx(before / np.e)
