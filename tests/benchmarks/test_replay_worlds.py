"""The benchmarks' simulated sites: a copy counts by its chance to be current."""

import numpy as np
import pytest

from tests.support.replay.site import Site
from tests.support.replay.worlds import draw


def test_expected_fresh_time_is_the_integral_of_the_chance_to_be_current() -> None:
    """∫ e^−(ατ + κn) from `start` on, with every signal since the crawl, against a sum over small steps."""
    site, truth = draw("ncis", 20, 30.0, seed=1)
    pages = np.arange(20)
    last, until = np.linspace(0.0, 12.0, 20), np.full(20, 25.0)
    found = site.fresh_time(pages, last, until, 6.0)
    for page in pages:
        since = last[page]
        grid = np.linspace(max(since, 6.0), 25.0, 20_001)
        middle = 0.5 * (grid[1:] + grid[:-1])
        here = np.full(len(middle), page)
        heard = site.signals.count(here, np.full(len(middle), since), middle)
        chance = np.exp(-truth.alpha[page] * (middle - since) - truth.kappa[page] * heard)
        assert found[page] == pytest.approx(chance.mean() * (grid[-1] - grid[0]), rel=2e-3, abs=1e-6)


def test_on_average_it_is_the_time_that_copies_were_current() -> None:
    """Over 3,000 pages the mean agrees with counting what happened, within three standard errors."""
    site, _ = draw("honest", 3000, 10.0, seed=2)
    asked = np.arange(3000), np.zeros(3000), np.full(3000, 10.0), 1.0
    difference = site.fresh_time(*asked) - Site.fresh_time(site, *asked)
    assert abs(difference.mean()) < 3.0 * difference.std() / np.sqrt(3000)
