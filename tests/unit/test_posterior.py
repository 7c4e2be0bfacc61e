"""How often a page changes, in words: one unit, a likely range, and a guess called a guess."""

import math

import pytest

from crawld.model.estimate import format_rate_of_change, gamma_quantile, gamma_share
from crawld.model.units import format_age, format_duration, format_moment


def test_a_rate_and_its_error_have_one_unit() -> None:
    """The mean interval comes with the range that the posterior calls likely."""
    page = (1 / 324, 4.0, 4 * 324.0, 3)
    assert format_rate_of_change(*page) == "every 5.4 min, likely 3.2-12 min"
    assert format_rate_of_change(*page, brief=True) == "every 5.4 min"


def test_what_only_the_prior_says_is_a_guess() -> None:
    """Without a revisit the rate is called a guess, without any estimate it is not known."""
    page = (1 / 172800, 1.0, 172800.0, 0)
    assert format_rate_of_change(*page).startswith("every 2 d (a guess")
    assert format_rate_of_change(*page, brief=True) == "every 2 d (guess)"
    assert format_rate_of_change(None) == "not known yet"
    assert format_rate_of_change(0.0) == "never"


def test_announced_changes_narrow_the_range() -> None:
    """What signals announce is part of the rate but not of its doubt."""
    page = (2 / 3600, 1.0, 3600.0, 9)
    assert format_rate_of_change(*page) == "every 30 min, likely 18-54 min"


@pytest.mark.parametrize("shape", [1e-6, 1e-3, 0.5, 1.0, 7.3, 9_999.0, 1e9])
@pytest.mark.parametrize("rate", [1e-9, 1.0, 1e15])
def test_extreme_posteriors_have_words_too(shape: float, rate: float) -> None:
    """No shape or rate breaks the sentence or needs an exponent."""
    text = format_rate_of_change(shape / rate, shape, rate, 1)
    assert text.startswith("every ")
    assert "e+" not in text
    assert "e-" not in text


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 2.0, 100.0])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_quantiles_are_where_the_share_is_reached(shape: float, share: float) -> None:
    """A quantile is the inverse of the distribution; that of shape 1 is the exponential's."""
    assert gamma_share(shape, gamma_quantile(shape, share)) == pytest.approx(share, abs=1e-9)
    assert gamma_quantile(1.0, share) == pytest.approx(-math.log1p(-share))


def test_moments_are_dates_and_ages() -> None:
    """The date is in UTC, the age in its own unit, and what never comes says so."""
    now = 1_795_000_000.0
    assert format_moment(now - 180, now) == "2026-11-18 11:03 UTC (3 min ago)"
    assert format_age(now + 180, now) == "in 3 min"
    assert format_moment(math.inf, now) == "never"
    assert format_duration(86400.0 * 4000) == "11 y"
    assert format_duration(1e-7) == "0 s"
