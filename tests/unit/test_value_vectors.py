"""Crawl values against the reference values that come with the method."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crawld.value.value import approximate_value, crawl_value, cycle_length, fresh_time, multi_source_value

VECTORS = Path(__file__).parents[3] / "shared" / "vectors.json"
Vector = dict[str, Any]


def load(*kinds: str) -> list[Vector]:
    """The reference values of some kinds."""
    if not VECTORS.exists():
        pytest.skip(f"no reference values at {VECTORS}")
    vectors: list[Vector] = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    return [vector for vector in vectors if vector["kind"] in kinds]


def column(vectors: list[Vector], name: str, default: float = 0.0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One field of all vectors."""
    return np.array([float(vector.get(name, default)) for vector in vectors])


def test_crawl_values_are_exact_to_twelve_digits() -> None:
    """V of every kind of page agrees with the reference to 1e-12."""
    vectors = load("ncis", "cis", "greedy")
    alpha, kappa, gamma = (column(vectors, name) for name in ("alpha", "kappa", "gamma"))
    x = np.array([float(v["x"]) if "x" in v else v["alpha"] * float(v["tau"]) for v in vectors])
    got = crawl_value(x, alpha, kappa, gamma, column(vectors, "mu"))
    np.testing.assert_allclose(got, column(vectors, "V"), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("name", "function"), [("psi", cycle_length), ("w", fresh_time)])
def test_cycle_length_and_fresh_time_are_exact_to_twelve_digits(name: str, function: Any) -> None:
    """ψ and w agree with the reference to 1e-12, or to what one rounding of x changes where that is more."""
    vectors = [vector for vector in load("ncis") if name in vector]
    x, alpha, kappa, gamma = (column(vectors, field) for field in ("x", "alpha", "kappa", "gamma"))
    want, got = column(vectors, name), function(x, alpha, kappa, gamma)
    rounding = np.abs(
        function(np.nextafter(x, np.inf), alpha, kappa, gamma)[x < np.inf]
        - function(np.nextafter(x, 0), alpha, kappa, gamma)[x < np.inf]
    )
    np.testing.assert_allclose(got[x == np.inf], want[x == np.inf], rtol=1e-12)
    error = np.abs(got[x < np.inf] - want[x < np.inf])
    assert (error <= 1e-12 * want[x < np.inf] + rounding).all()


def test_truncated_sums_are_exact_to_twelve_digits() -> None:
    """APPROX-j is the papers' formula cut off, also where κ = 0."""
    for vector in load("approx"):
        x, alpha, kappa, gamma, mu = (float(vector[field]) for field in ("x", "alpha", "kappa", "gamma", "mu"))
        got = approximate_value(x, alpha, kappa, gamma, mu, terms=vector["j"])
        assert got == pytest.approx(float(vector["V"]), rel=1e-12), vector


def test_several_sources_are_exact_to_three_digits() -> None:
    """V with several sources agrees with the reference to 1e-3, and in fact to 1e-5."""
    for vector in load("multi"):
        kappas = [float(kappa) for kappa in vector["kappas"]]
        got = multi_source_value(vector["x"], vector["alpha"], kappas, vector["gammas"], vector["mu"])
        assert got == pytest.approx(float(vector["V"]), rel=1e-5), vector
