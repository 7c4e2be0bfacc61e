"""Crawl values against reference values of 20 digits (tests/support/crawl_values.py)."""

import json
from typing import Any

import numpy as np
import pytest

from crawld.choose.value import approximate_value, crawl_value, cycle_length, fresh_time, multi_source_value
from tests.support.crawl_values import TABLE, rows

Vector = dict[str, Any]
VECTORS: list[Vector] = json.loads(TABLE.read_text(encoding="utf-8"))


def load(*kinds: str) -> list[Vector]:
    """The reference values of some kinds."""
    found = [vector for vector in VECTORS if vector["kind"] in kinds]
    assert found
    return found


def column(vectors: list[Vector], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One field of all vectors."""
    return np.array([float(vector[name]) for vector in vectors])


def test_the_table_is_what_the_formulas_give() -> None:
    """The table was not edited by hand, and has values of every kind."""
    assert list(rows()) == VECTORS
    assert {vector["kind"] for vector in VECTORS} == {"ncis", "cis", "greedy", "approx", "multi"}


def test_crawl_values_are_exact_to_twelve_digits() -> None:
    """V of every kind of page agrees with the reference to 1e-12."""
    vectors = load("ncis", "cis", "greedy")
    x, alpha, kappa, gamma, mu = (column(vectors, name) for name in ("x", "alpha", "kappa", "gamma", "mu"))
    np.testing.assert_allclose(crawl_value(x, alpha, kappa, gamma, mu), column(vectors, "V"), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("name", "function"), [("psi", cycle_length), ("w", fresh_time)])
def test_cycle_length_and_fresh_time_are_exact_to_twelve_digits(name: str, function: Any) -> None:
    """ψ and w agree with the reference to 1e-12, or to what one rounding of x changes where that is more."""
    vectors = load("ncis", "cis", "greedy")
    x, alpha, kappa, gamma = (column(vectors, field) for field in ("x", "alpha", "kappa", "gamma"))
    want, got = column(vectors, name), function(x, alpha, kappa, gamma)
    above, below = (function(np.nextafter(x, end), alpha, kappa, gamma) for end in (np.inf, 0.0))
    assert (np.abs(got - want) <= 1e-12 * want + np.abs(above - below)).all()


def test_truncated_sums_are_exact_to_twelve_digits() -> None:
    """APPROX-j is the papers' formula cut off, also where κ = 0."""
    for vector in load("approx"):
        x, alpha, kappa, gamma, mu = (float(vector[field]) for field in ("x", "alpha", "kappa", "gamma", "mu"))
        got = approximate_value(x, alpha, kappa, gamma, mu, terms=vector["terms"])
        assert got == pytest.approx(float(vector["V"]), rel=1e-12), vector


def test_several_sources_are_exact_to_three_digits() -> None:
    """V with several sources agrees with the reference to 1e-3, and in fact to 2e-5."""
    for vector in load("multi"):
        got = multi_source_value(vector["x"], vector["alpha"], vector["kappas"], vector["gammas"], vector["mu"])
        assert got == pytest.approx(float(vector["V"]), rel=2e-5), vector
