"""When a crawl without signals is due, in closed form: the time at which (μ/Δ)·P(2, Δτ) reaches the level Λ."""

import math


def inverse_gamma_2(p: float) -> float:
    """Solves P(2, y) = 1 − e^−y(1 + y) = p; inf for p ≥ 1."""
    if p >= 1.0:
        return math.inf
    low, high = math.sqrt(2.0 * p), 1.0  # P(2, y) ≤ y²/2
    while _gamma_2(high) < p and high < 1e3:
        high *= 2.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if _gamma_2(middle) < p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def revisit_interval(rate: float, importance: float, level: float) -> float:
    """Seconds between crawls of a page without signals that changes at `rate`; inf where none is worth `level`."""
    if rate <= 0 or importance <= 0:
        return math.inf
    return inverse_gamma_2(level * rate / importance) / rate


def _gamma_2(y: float) -> float:
    """P(2, y); a short series where the closed form cancels."""
    return y * y * (0.5 - y / 3.0) if y < 1e-4 else -math.expm1(-y) - y * math.exp(-y)
