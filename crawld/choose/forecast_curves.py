"""Crawl rate and freshness of a page at each level of the crawl value (docs/method.md, "Forecast").

At a level L a page with n signals is crawled once the time since its last crawl reaches τ*(n), where its value reaches
L: not before the minimum interval, not after the maximum one. τ* falls with n, so the page is still waiting at time t
if and only if t < τ*(N(t)), N being a Poisson process of rate γ. Hence, with S(t) the chance that no unannounced change
came within t,

    cycle length ψ = Σ_n ∫_0^τ*(n) pois(n; γt) dt,    fresh time w = Σ_n e^−κn ∫_0^τ*(n) pois(n; γt) S(t) dt.

Values come from the policy's own valuation on a grid of times, so that whatever it believes is what is forecast.
"""

from dataclasses import dataclass
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from crawld.choose.freshness import survival
from crawld.choose.page_table import Intervals
from crawld.choose.sample import DRIFTING, JUMPING, Sample, signal_kinds
from crawld.choose.valuation import Beliefs, Floats, Valuation


@dataclass(frozen=True)
class ForecastCurvesLimits:
    """Numbers that bound and tune this module."""

    early: int = 8  # times on the scale of signals, and on that of silent changes
    late: int = 16
    soonest: float = (
        1e-6  # expected events until a page is crawled again for which there is more bandwidth than it can use
    )
    first: float = 0.01  # expected events until the first time of either scale
    far: float = 40.0  # expected silent changes until the last time, where α is known well, and where it is not
    very_far: float = 1e4
    saturated: float = 4.0  # log-staleness after which a further signal changes next to nothing
    max_signals: int = 16
    tiny: float = 1e-300
    min_stale: float = 1e-12
    step: float = 1e-3  # of a level, relatively


LIMITS = ForecastCurvesLimits()


# When a page's crawl value reaches a level, and how many signals may have come by then.


def signals_told_apart(kappa: Floats) -> NDArray[np.int64]:
    """Number of signals told apart: so many that another would change next to nothing."""
    with np.errstate(divide="ignore"):
        return np.clip(np.ceil(LIMITS.saturated / kappa), 1, LIMITS.max_signals).astype(np.int64)


def waiting_times(silent: Floats, jumps: Floats, shape: Floats, intervals: Intervals) -> Floats:
    """Times since the last crawl at which each page is valued: on the scale of its signals and of its silent changes.

    The last one is the maximum interval, or so late that nothing is left to happen.
    """
    slow = np.maximum(silent, 1e-9 * jumps) + LIMITS.tiny
    first = np.maximum(LIMITS.first / (slow + jumps), intervals.shortest)
    middle = np.where(jumps > 0, np.maximum(4 / (slow + jumps), first), first)
    last = np.where(shape > 20, LIMITS.far, LIMITS.very_far) / slow
    begin = np.where(jumps > 0, np.maximum(middle, LIMITS.first / slow), first)
    early = first[:, None] * (middle / first)[:, None] ** np.linspace(0.0, 1.0, LIMITS.early)
    last = np.clip(last, begin * 1.001, max(intervals.longest, intervals.shortest))
    late = begin[:, None] * (last / begin)[:, None] ** np.linspace(0.0, 1.0, LIMITS.late)
    soonest = np.maximum(LIMITS.soonest / (slow + jumps), intervals.shortest)
    times = np.minimum(np.concatenate([soonest[:, None], early, late], axis=1), intervals.longest)
    if intervals.longest < np.inf:
        times[:, -1] = intervals.longest
    return np.maximum.accumulate(times, axis=1)


def crossings(level: Floats, logs: Floats, times: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Times at which the values of one number of signals reach each level, and where they never do."""
    size = times.shape[1]
    after = (logs[:, None, :] < level[:, :, None]).sum(axis=2)
    low, high = np.maximum(after - 1, 0), np.minimum(after, size - 1)
    page = np.arange(len(times))[:, None]
    left, right = logs[page, low], logs[page, high]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where((right > left) & (left > -np.inf), (level - left) / (right - left), 1.0)
        early, late = np.log(times[page, low]), np.log(times[page, high])
        until = np.exp(early + np.clip(part, 0.0, 1.0) * (late - early))
    return until, after == size


def chance(mean: Floats, n: int) -> Floats:
    """The Poisson probability of n signals where so many are expected."""
    if n == 0:
        return np.exp(-mean)
    with np.errstate(divide="ignore"):
        return np.exp(n * np.log(mean) - mean - lgamma(n + 1))


def chance_of_more(mean: Floats, n: int) -> Floats:
    """The Poisson probability of n signals or more."""
    less = np.zeros_like(mean)
    for count in range(n):
        less += chance(mean, count)
    return np.maximum(1.0 - less, 0.0)


Rows = NDArray[np.intp]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


@dataclass(frozen=True, slots=True)
class Kept:
    """Fate of pages at some level, as columns: crawls per second, freshness, and the chance to be forced.

    A page is forced where it waits the whole maximum interval because no value of it reaches the level before.
    """

    rate: Floats
    freshness: Floats
    forced: Floats

    def mixed(self, other: "Kept", share: Floats) -> "Kept":
        """Pages kept like this for `share` of the time, like the other for the rest of it."""
        return Kept(
            share * self.rate + (1 - share) * other.rate,
            share * self.freshness + (1 - share) * other.freshness,
            share * self.forced + (1 - share) * other.forced,
        )

    def where(self, which: NDArray[np.bool_], other: "Kept") -> "Kept":
        """Those pages kept like this, the rest like the other."""
        return Kept(
            np.where(which, self.rate, other.rate),
            np.where(which, self.freshness, other.freshness),
            np.where(which, self.forced, other.forced),
        )


class Curves:
    """The curves of sampled pages, as rows of ascending log-levels."""

    def __init__(self, sample: Sample, valuation: Valuation, intervals: Intervals) -> None:
        pages = len(sample.weight)
        kinds = signal_kinds(sample.beliefs)
        signals = np.where(kinds == JUMPING, signals_told_apart(sample.beliefs.kappa), 0)
        width = 3 + LIMITS.early + LIMITS.late + 3 * int(signals.max(initial=0))
        self._level = np.full((pages, width), np.inf)
        self._rate, self._stale, self._forced = (np.zeros((pages, width)) for _ in range(3))
        for count in np.unique(signals).tolist():
            rows = np.flatnonzero(signals == count)
            drawn = _Drawn(sample, rows, valuation, intervals, count)
            have = slice(0, drawn.level.shape[1])
            self._level[rows, have] = drawn.level
            self._rate[rows, have], self._stale[rows, have], self._forced[rows, have] = drawn.kept()
        self._width = np.count_nonzero(self._level < np.inf, axis=1)
        self._rows = np.arange(pages)
        self._rate_slope = _slopes(self._level, self._rate)
        self._stale_slope = _slopes(self._level, self._stale)
        self._floor = 1.0 / intervals.longest
        last = np.maximum(self._width - 1, 0)
        self._last_freshness = _unchanging(sample)
        if intervals.longest < np.inf:
            self._last_freshness = -np.expm1(self._stale[self._rows, last])

    @property
    def bounds(self) -> tuple[float, float]:
        """Logarithms of a level that every page reaches at once, and of one that none reaches."""
        known = self._level[self._level < np.inf]
        known = known[known > -np.inf]
        return (float(known.min()) - 1.0, float(known.max()) + 1.0) if known.size else (-1.0, 1.0)

    def at(self, level: Floats) -> Kept:
        """Returns the fate of each page at its logarithm of a level."""
        after = (self._level <= level[:, None]).sum(axis=1)
        high = np.minimum(after, np.maximum(self._width - 1, 0))
        low = np.maximum(after - 1, 0)
        left, right = self._level[self._rows, low], self._level[self._rows, high]
        known = (right > left) & (left > -np.inf)  # a page worth nothing at first has a level that none lies close to
        width = np.where(known, right - np.where(known, left, 0.0), 1.0)
        part = np.where(known, np.clip((level - np.where(known, left, 0.0)) / width, 0.0, 1.0), right > left)

        def smooth(column: Floats, slope: Floats) -> Floats:
            """The cubic with the values and slopes at both ends."""
            here, there = column[self._rows, low], column[self._rows, high]
            leave, arrive = width * slope[self._rows, low], width * slope[self._rows, high]
            bend = (1 - part) * (leave - (there - here)) - part * (arrive - (there - here))
            return np.asarray(here + part * (there - here + (1 - part) * bend))

        rate, fresh = np.exp(smooth(self._rate, self._rate_slope)), -np.expm1(smooth(self._stale, self._stale_slope))
        forced = (1 - part) * self._forced[self._rows, low] + part * self._forced[self._rows, high]
        beyond = (after >= self._width) & (level > left)
        return Kept(
            np.where(beyond, self._floor, rate),
            np.where(beyond, self._last_freshness, fresh),
            np.where(beyond, 1.0, forced),
        )


class _Drawn:
    """The curves of pages for which the same number of signals counts."""

    def __init__(self, sample: Sample, rows: Rows, valuation: Valuation, intervals: Intervals, count: int) -> None:
        self._beliefs = beliefs = sample.part(rows)
        self._gone = sample.gone[rows]
        kinds = signal_kinds(beliefs)
        self._jumps = np.where(kinds == JUMPING, beliefs.gamma, 0.0)
        with np.errstate(invalid="ignore"):
            drift = np.where(kinds == DRIFTING, beliefs.gamma * beliefs.kappa, 0.0)
        self._announced = np.where(kinds == DRIFTING, -beliefs.gamma * np.expm1(-beliefs.kappa), 0.0)
        self._times = waiting_times(beliefs.alpha + drift, self._jumps, beliefs.shape, intervals)
        self._end = intervals.longest
        told_apart = [*range(count + 1), *([np.inf] if count else [])]  # more signals than that count as any number
        values = np.stack([self._values(valuation, drift, n) for n in told_apart])
        np.maximum.accumulate(values, axis=2, out=values)  # no rounding makes a value fall
        with np.errstate(divide="ignore"):
            self._logs = np.log(values)  # (signals, pages, times)
        steps = self._logs[1 : count + 1, :, 0].T  # above them one signal more is awaited, where little else happens
        beyond = self._logs[:, :, -1].max(axis=0)[:, None] + LIMITS.step  # where no number of signals is worth a crawl
        levels = [self._logs[0], self._logs[1:, :, -1].T, steps, steps + LIMITS.step, beyond]
        self.level = np.sort(np.concatenate(levels, axis=1), axis=1)

    def _values(self, valuation: Valuation, drift: Floats, signals: float) -> Floats:
        boost = drift[:, None] * self._times
        if signals:
            boost = boost + signals * self._beliefs.kappa[:, None]
        each = np.repeat(np.arange(len(drift)), self._times.shape[1])
        value = valuation.value(self._times.ravel(), boost.ravel(), self._beliefs.select(each))
        return value.reshape(self._times.shape)

    def kept(self) -> tuple[Floats, Floats, Floats]:
        """Logarithms of the crawl rate and of the share of time stale, and the chance to be forced, at each level."""
        length, fresh, forced = (np.zeros_like(self.level) for _ in range(3))
        most = len(self._logs) - 1
        for n, logs in enumerate(self._logs):
            until, never = crossings(self.level, logs, self._times)
            waited, kept = self._integrals(until, n)
            length += waited if n < most else self._with_more(until, n)
            fresh += kept
            if self._end < np.inf:
                mean = self._jumps[:, None] * self._end
                forced += np.where(never, chance(mean, n) if n < most else chance_of_more(mean, n), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            stale = np.clip(np.where(length > 0, 1.0 - fresh / length, 0.0), LIMITS.min_stale, 1.0)
            return -np.log(length), np.log(stale), forced  # both nearly straight over the logarithm of the level

    def _with_more(self, until: Floats, n: int) -> Floats:
        """∫P(N(t) ≥ n) dt up to these times: what is left of them after the n-th signal."""
        if n == 0:
            return until
        rate = self._jumps[:, None]
        mean = rate * until
        left = until * chance_of_more(mean, n) - n / rate * chance_of_more(mean, n + 1)
        return np.maximum(left, 0.0)

    def _integrals(self, until: Floats, n: int) -> tuple[Floats, Floats]:
        """∫pois(n; γt) dt and e^−κn ∫pois(n; γt)S(t) dt up to these times, over the logarithm of 1 + the time."""
        rate = self._jumps[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(rate > 0, (n + 9 + 8 * np.sqrt(n + 1.0)) / rate, np.inf)  # little is left after that
        scale = (self._beliefs.alpha + self._jumps + self._announced)[:, None, None] + LIMITS.tiny
        span = np.log1p(scale * np.minimum(until, most)[:, :, None])
        grown = span * _NODES
        time = np.expm1(grown) / scale
        weight = _WEIGHTS * span * np.exp(grown) / scale
        weight *= chance(rate[:, :, None] * time, n)
        doubt = np.exp(-n * self._beliefs.kappa) if n else np.ones(len(until))
        fresh = _fresh(self._beliefs, self._gone, time, self._announced, doubt)
        return weight.sum(axis=2), (weight * fresh).sum(axis=2)


def _slopes(at: Floats, values: Floats) -> Floats:
    """Slopes of rows of values that do not let a rising or falling curve turn between two of them."""
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.diff(at, axis=1)
        secant = np.where((steps > 0) & (steps < np.inf), np.diff(values, axis=1) / steps, 0.0)
        before, after = secant[:, :-1], secant[:, 1:]
        inner = np.where(before * after > 0, 2 * before * after / (before + after), 0.0)
    return np.concatenate([secant[:, :1], inner, secant[:, -1:]], axis=1)


def round_robin(sample: Sample, interval: Floats) -> Floats:
    """Freshness of each page crawled at even intervals, whatever it is worth."""
    with np.errstate(invalid="ignore"):
        announced = np.where(sample.beliefs.gamma > 0, -sample.beliefs.gamma * np.expm1(-sample.beliefs.kappa), 0.0)
    scale = np.where(sample.gone, 0.0, sample.beliefs.alpha)[:, None] + announced[:, None] + LIMITS.tiny
    most = np.where(np.isfinite(interval), interval, 1.0)[:, None]
    span = np.log1p(scale * most)
    time = np.expm1(span * _NODES) / scale
    fresh = _fresh(sample.beliefs, sample.gone, time[:, None], announced, np.ones(len(announced)))[:, 0]
    mean: Floats = (_WEIGHTS * span * np.exp(span * _NODES) / scale * fresh).sum(axis=1) / most[:, 0]
    return np.where(np.isfinite(interval), np.minimum(mean, 1.0), _unchanging(sample))


def _fresh(beliefs: Beliefs, gone: NDArray[np.bool_], time: Floats, announced: Floats, doubt: Floats) -> Floats:
    """Chance that copies are fresh by times (pages, …, …); `announced` is the rate of changes by signals that drift."""
    alpha, announced, doubt = (c[:, None, None] for c in (np.where(gone, 0.0, beliefs.alpha), announced, doubt))
    fresh = survival(time, alpha, beliefs.shape[:, None, None]) * np.exp(-announced * time) * doubt
    if beliefs.heard is not None and beliefs.deaf_alpha is not None and beliefs.deaf_shape is not None:
        heard, shape = beliefs.heard[:, None, None], beliefs.deaf_shape[:, None, None]
        deaf = survival(time, np.where(gone, 0.0, beliefs.deaf_alpha)[:, None, None], shape)
        fresh = heard * fresh + (1 - heard) * deaf
    return fresh


def _unchanging(sample: Sample) -> Floats:
    """Rest of a copy's freshness in the end: all where nothing ever changes, else nothing."""
    signalled = (sample.beliefs.gamma > 0) & (sample.beliefs.kappa > 0)
    still = (sample.gone | (sample.beliefs.alpha == 0)) & ~signalled
    return np.where(still, 1.0, 0.0)
