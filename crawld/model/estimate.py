"""An estimate: what we believe of a page, with its evidence; and the histories that estimates are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from crawld.model.signal import SOURCES
from crawld.model.units import format_duration, format_number, unit_of


@dataclass(frozen=True)
class EstimateLimits:
    """Numbers that bound and tune this module."""

    steps: int = 64
    width: int = 14  # characters of each number of a packed curve
    max_units: int = 10_000
    tiniest: float = 1e-300


LIMITS = EstimateLimits()


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Histories:
    """The observations of several pages, ragged: page i owns rows offsets[i]:offsets[i+1], oldest first.

    Each row is one successful crawl after the first: the time and the signals (by source) since the one before,
    and whether the content had changed.
    """

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    signals: Ints  # (rows, sources)
    changed: NDArray[np.bool_]
    hosts: Sequence[str]
    first_success: Floats  # by page: when watching began, for γ
    signal_counts: Ints  # (pages, sources): all counted signals since then
    magnitude: Floats | None = None  # by row: the share of the text that had changed, nan where unknown


@dataclass(frozen=True, slots=True)
class Estimate:
    """Posterior of one page. Rates are per second.

    α ~ Gamma(shape, rate) is the rate of changes that no signal announces; `kappa` and `gamma` hold, by source
    in the order of `SOURCES`, the log-staleness one signal adds and how often signals come. That is believed with the
    weight `heard`; with the rest of it signals mean nothing, and α has the mean `deaf_alpha` and shape `deaf_shape`.
    """

    page_id: int
    at: float
    shape: float
    rate: float
    kappa: tuple[float, ...] = field(default=(0.0,) * len(SOURCES))
    gamma: tuple[float, ...] = field(default=(0.0,) * len(SOURCES))
    alpha_se: float = math.nan
    kappa_se: tuple[float, ...] = field(default=(math.nan,) * len(SOURCES))
    crawls: int = 0
    changes: int = 0
    signals: tuple[int, ...] = field(default=(0,) * len(SOURCES))
    heard: float = 1.0
    deaf_alpha: float = 0.0
    deaf_shape: float = 1.0

    @property
    def alpha(self) -> float:
        """Mean rate of changes that no signal announces."""
        return self.shape / self.rate

    @property
    def change_rate(self) -> float:
        """The total rate of changes: Δ = α + Σ γ(1 − e^−κ), as far as signals are heard."""
        announced = -sum(g * math.expm1(-k) for k, g in zip(self.kappa, self.gamma, strict=True))
        return self.heard * (self.alpha + announced) + (1.0 - self.heard) * self.deaf_alpha


@dataclass(frozen=True, slots=True)
class AgeCurve:
    """A copy made at `first` + i · `step` is `extra[i]` seconds older than plain time says (younger, where negative).

    There are STEPS + 1 values; in between they are linear, outside constant. The last is 0: a copy made since the curve
    was drawn ages by plain time. They are packed in WIDTH characters each, so that SQL finds the i-th with substr: the
    database and the scheduler compute with the same rounded numbers.
    """

    first: float
    step: float
    packed: str

    @classmethod
    def of(cls, first: float, step: float, extra: Sequence[float]) -> Self:
        """A curve of these numbers, rounded to seven digits."""
        return cls(first, step, "".join([f"{seconds:{LIMITS.width}.6e}" for seconds in extra]))

    @property
    def extra(self) -> tuple[float, ...]:
        """The numbers."""
        return tuple(float(self.packed[at : at + LIMITS.width]) for at in range(0, len(self.packed), LIMITS.width))


LIKELY = (0.1, 0.9)
"""Between these quantiles of the posterior lies what is called likely."""


def format_rate_of_change(
    mean: float | None,
    shape: float | None = None,
    rate: float | None = None,
    evidence: int | None = None,
    *,
    brief: bool = False,
) -> str:
    """`every 5.4 min, likely 3-12 min`; what only the prior says is called a guess.

    `shape` and `rate` are the posterior's, as far as they are known, and `evidence` the revisits it rests on.
    """
    if mean is None:
        return "–" if brief else "not known yet"
    if mean <= 0:
        return "never"
    text = f"every {format_duration(1 / mean)}"
    if not evidence:
        return f"{text} (guess)" if brief else f"{text} (a guess: no revisit has shown it yet)"
    if brief or shape is None or rate is None:
        return text
    announced = max(mean - shape / rate, 0.0)
    rates = (announced + gamma_quantile(shape, share) / rate for share in reversed(LIKELY))
    unit, length = unit_of(1 / mean)
    low, high = (1 / max(found, LIMITS.tiniest) / length for found in rates)
    if high > LIMITS.max_units:
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
