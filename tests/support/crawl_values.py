"""Reference values of V, ψ and w to 20 digits, summed term by term with mpmath: the table `data/crawl_values.json`.

`python -m tests.support.crawl_values` rewrites the table. The formulas are those of docs/method.md, "The model", taken
literally, with so many digits that nothing cancels; its inputs are the float64 numbers that crawld is given.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

TABLE = Path(__file__).parents[1] / "data" / "crawl_values.json"
DIGITS, SHOWN = 60, 20
Row = dict[str, Any]


def page(x: float, alpha: float, kappas: list[float], gammas: list[float], terms: int | None = None) -> tuple[Any, Any]:
    """ψ and w of a page crawled at log-staleness x: sums over how many signals of each source came in the cycle."""
    mp.mp.dps = DIGITS
    big, drift = mp.mpf(x), mp.mpf(alpha)
    kappa, gamma = [mp.mpf(k) for k in kappas], [mp.mpf(g) for g in gammas]
    total = mp.fsum(gamma)
    if total == 0 or (all(k == 0 for k in kappa) and terms is None):
        return (big / drift, -mp.expm1(-big) / drift)
    counts = [range(terms or (1 if k == mp.inf else int(mp.ceil(big / k)))) for k in kappa]
    length = fresh = mp.mpf(0)
    for each in product(*counts):
        left = big - mp.fsum(n * k for n, k in zip(each, kappa, strict=True) if n)
        if left <= 0:
            continue
        many = sum(each)
        ways = mp.factorial(many) * mp.fprod(g**n / mp.factorial(n) for n, g in zip(each, gamma, strict=True))
        doubt = mp.exp(-mp.fsum(n * k for n, k in zip(each, kappa, strict=True) if n))
        length += ways / total ** (many + 1) * _reached(many, total, left, drift)
        fresh += ways * doubt / (total + drift) ** (many + 1) * _reached(many, total + drift, left, drift)
    return length, fresh


def _reached(many: int, rate: Any, left: Any, drift: Any) -> Any:
    """P(many+1, rate·left/drift): whether so many events come before the rest has drifted by."""
    return mp.mpf(1) if drift == 0 else mp.gammainc(many + 1, 0, rate * left / drift, regularized=True)


def value(x: float, mu: float, length: Any, fresh: Any) -> Any:
    """V = μ(w − e^−x ψ)."""
    return mp.mpf(mu) * (fresh - mp.exp(-mp.mpf(x)) * length)


def row(kind: str, x: float, alpha: float, kappa: float, gamma: float, mu: float = 1.0, **more: Any) -> Row:
    """One row of the table, infinity as text."""
    length, fresh = page(x, alpha, [kappa], [gamma], more.get("terms"))
    found = {"kind": kind, "x": x, "alpha": alpha, "kappa": kappa, "gamma": gamma, "mu": mu} | more
    found |= {"V": value(x, mu, length, fresh), "psi": length, "w": fresh}
    return {name: _shown(one) for name, one in found.items()}


def _shown(one: Any) -> Any:
    if isinstance(one, mp.mpf):
        return mp.nstr(one, SHOWN)
    return "inf" if one == np.inf else one


def rows() -> Iterator[Row]:
    """Typical pages, and every corner where a formula taken literally would lose its digits."""
    rng = np.random.default_rng(2024)
    for _ in range(24):  # as Busa-Fekete et al. 2025 draws pages
        delta, lam, nu = rng.random(), rng.beta(0.25, 0.25), rng.uniform(0.1, 0.6)
        gamma = lam * delta + nu
        kappa = float(-np.log(nu / gamma))
        x = float(rng.exponential(1.5)) + 0.01
        yield row("ncis", x, float((1 - lam) * delta), max(kappa, x / 400), float(gamma), float(rng.random()))
    for x in (1e-9, 1e-5, 1e-2, 0.3, 1.0, 4.0, 12.0, 30.0):  # from a page just crawled to one long stale
        yield row("ncis", x, 0.2, 0.7, 0.5)
        yield row("greedy", x, 0.3, 0.0, 0.0, 2.0)
        yield row("cis", x, 0.1, np.inf, 0.4)
    for alpha, x in product((1e-10, 1e-6, 1e-3), (0.05, 0.9, 2.5)):  # nearly every change is announced
        yield row("ncis", x, alpha, 0.5, 0.3)
    for ratio, kappa in product((1e-4, 30.0, 1e3), (0.04, 1.3)):  # few signals, and many between two changes
        yield row("ncis", 1.7, 0.01, kappa, 0.01 * ratio)
    for x in (0.2, 0.5, 0.50001, 1.7):  # α = 0: steps at every multiple of κ
        yield row("ncis", x, 0.0, 0.5, 0.3)
    for terms, kappa in product((1, 2, 5), (0.0, 0.4, 2.0)):
        yield row("approx", 1.5, 0.2, kappa, 0.6, terms=terms)
    for x, kappas in product((0.4, 1.1, 3.0), ([0.3, 1.2], [0.5, 0.5], [2.0, 0.11])):
        length, fresh = page(x, 0.15, kappas, [0.4, 0.2])
        given: Row = {"kind": "multi", "x": x, "alpha": 0.15, "kappas": kappas, "gammas": [0.4, 0.2], "mu": 1.5}
        yield given | {"V": _shown(value(x, 1.5, length, fresh))}


if __name__ == "__main__":
    TABLE.write_text("[\n" + ",\n".join(json.dumps(one) for one in rows()) + "\n]\n", encoding="utf-8")
