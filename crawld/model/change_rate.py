"""How often a page changes, as a person reads it: an interval and how sure we are, in one unit."""

import math
from collections.abc import Mapping
from typing import Any

from crawld.model.units import format_duration, format_number, unit_of

LIKELY = (0.1, 0.9)
"""Between these quantiles of the posterior lies what is called likely."""
MOST_UNITS = 10_000
TINIEST = 1e-300


def format_rate_of_change(page: Mapping[str, Any], *, brief: bool = False) -> str:
    """`every 5.4 min, likely 3-12 min`; what only the prior says is called a guess.

    `page` has the mean `change_rate`, and where they are known the posterior's `shape` and `rate` and its evidence.
    """
    mean = page["change_rate"]
    if mean is None:
        return "–" if brief else "not known yet"
    if mean <= 0:
        return "never"
    text = f"every {format_duration(1 / mean)}"
    shape, rate = page.get("shape"), page.get("rate")
    if not page.get("evidence"):
        return f"{text} (guess)" if brief else f"{text} (a guess: no revisit has shown it yet)"
    if brief or shape is None or rate is None:
        return text
    announced = max(mean - shape / rate, 0.0)
    rates = (announced + gamma_quantile(shape, share) / rate for share in reversed(LIKELY))
    unit, length = unit_of(1 / mean)
    low, high = (1 / max(found, TINIEST) / length for found in rates)
    if high > MOST_UNITS:
        return f"{text}, likely {_two_digits(low)} {unit} or longer"
    return f"{text}, likely {_two_digits(low)}-{_two_digits(high)} {unit}"


def _two_digits(value: float) -> str:
    return format_number(value if value >= 99.5 else float(f"{value:.2g}"))


def gamma_quantile(shape: float, share: float) -> float:
    """The value below which that share of a gamma distribution of this shape and rate 1 lies, by bisection."""
    spread = math.sqrt(shape)
    if shape > 1e4:  # as good as normal
        return max(shape + (1.2815515655446004 if share > 0.5 else -1.2815515655446004) * spread, 0.0)
    low, high = -700.0, math.log(shape + 20.0 * spread + 50.0)
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gamma_share(shape, math.exp(middle)) < share else (low, middle)
    return math.exp(0.5 * (low + high))


def gamma_share(shape: float, x: float) -> float:
    """The regularised incomplete gamma function P(shape, x): a series below its mean, a continued fraction above."""
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        n = shape
        while abs(term) > 1e-12 * abs(total):
            n += 1
            term *= x / n
            total += term
        return front * total
    b = x + 1 - shape
    c, d = 1e300, 1 / b
    fraction = d
    for i in range(1, 10_000):
        a = -i * (i - shape)
        b += 2
        d = 1 / (a * d + b)
        c = b + a / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return 1 - front * fraction
