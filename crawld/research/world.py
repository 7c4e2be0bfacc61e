"""Worlds: when each page changes and when signals arrive, drawn once and the same for every policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Recipe = Callable[[np.random.Generator], tuple[float, float, float, float]]
"""Draws one page's (μ, Δ, λ, ν)."""


class Stream(IntEnum):
    """Purposes of a page's random numbers; each has a stream of its own."""

    PARAMETERS = 0
    EVENTS = 1
    DELAYS = 2
    NOISE = 3
    VISITS = 4
    HOSTS = 5


def run_key(seed: int, repeat: int) -> int:
    """One number that stands for the `repeat`-th world of a seed."""
    return int(np.random.SeedSequence([seed, repeat]).generate_state(1, np.uint64)[0])


def page_stream(key: int, page: int, purpose: int) -> np.random.Generator:
    """A page's random stream: the same however many other pages there are and whatever else is drawn."""
    return np.random.Generator(np.random.Philox(key=[key, page], counter=[0, 0, 0, purpose]))


@dataclass(frozen=True, slots=True)
class Population:
    """Ground truth of every page, as columns: importance, change rate, share of changes signalled, false signals."""

    mu: Floats
    delta: Floats
    lam: Floats
    nu: Floats

    @classmethod
    def draw(cls, recipe: Recipe, pages: int, key: int) -> "Population":
        """Draws so many pages, each from its own stream."""
        rows = np.array([recipe(page_stream(key, page, Stream.PARAMETERS)) for page in range(pages)], dtype=float)
        return cls(*rows.reshape(pages, 4).T.copy())

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.mu)

    @property
    def alpha(self) -> Floats:
        """Rate of changes that no signal announces (docs/method.md, "The model")."""
        return (1.0 - self.lam) * self.delta

    @property
    def gamma(self) -> Floats:
        """Rate of signals."""
        return self.lam * self.delta + self.nu

    @property
    def kappa(self) -> Floats:
        """Log-staleness one signal adds: −ln(ν/γ), 0 where there are no signals, inf where none is false."""
        gamma = self.gamma
        with np.errstate(divide="ignore", invalid="ignore"):
            kappa = -np.log(self.nu / gamma)
        return np.where(gamma > 0, kappa, 0.0)

    @property
    def precision(self) -> Floats:
        """The probability that a signal is true; 0 where there are no signals."""
        gamma = self.gamma
        return np.divide(self.lam * self.delta, gamma, out=np.zeros_like(gamma), where=gamma > 0)

    def without_signals(self) -> "Population":
        """The same pages without their signals."""
        zero = np.zeros_like(self.mu)
        return Population(self.mu, self.delta, zero, zero)


def from_quality(mu: float, delta: float, precision: float, recall: float) -> tuple[float, float, float, float]:
    """(μ, Δ, λ, ν) of a page whose signals have that precision and recall."""
    if precision <= 0 or recall <= 0:
        return mu, delta, 0.0, 0.0
    return mu, delta, recall, recall * delta * (1.0 - precision) / precision


def zipf(pages: int, seed: int = 1) -> Floats:
    """Importance falling as one over a rank drawn at random, of mean 1."""
    weights = 1.0 / (1.0 + np.random.default_rng(seed).permutation(pages))
    return np.asarray(weights / weights.mean())


Ints = NDArray[np.int64]
Claim = tuple[float, float]
"""The first moment of the time in which a signal claims a change, and the first after it."""
NO_CLAIM: Claim = (np.nan, np.inf)


@dataclass(frozen=True, slots=True)
class Phase:
    """From `start` on pages behave as `population` says: several phases make a world that drifts."""

    start: float
    population: Population


@dataclass(frozen=True)
class World:
    """Every change and every signal up to the horizon.

    Page i owns `changes[change_offsets[i]:change_offsets[i+1]]`, in order. Signals of all pages are in the order of
    their arrival; among those of one moment, in the order of pages. A signal claims that its page changed within
    `signal_spans` from `signal_claims` on (nan: it claims no time).
    """

    population: Population
    horizon: float
    changes: Floats
    change_offsets: Ints
    signal_times: Floats
    signal_pages: Ints
    signal_claims: Floats | None = None  # None: no signal claims a time
    signal_spans: Floats | None = None  # None: each claims a moment
    hosts: Ints | None = None  # by page, the number of its host; None: all are on one
    births: Floats | None = None  # by page; None: all are there from the start
    deaths: Floats | None = None  # by page; None: all are there until the horizon
    listed: NDArray[np.bool_] | None = None  # by page, whether a sitemap gives it a lastmod from the start; None: none
    magnitudes: Floats | None = None  # by change: the share of the text that it changed; None: not known

    @cached_property
    def host_of(self) -> Ints:
        """The number of each page's host."""
        return np.zeros(self.population.pages, np.int64) if self.hosts is None else self.hosts

    @cached_property
    def born(self) -> Floats:
        """Time at which each page appears; its first copy is taken then and costs nothing."""
        return np.zeros(self.population.pages) if self.births is None else self.births

    @cached_property
    def died(self) -> Floats:
        """Time at which each page is gone; that is known at once."""
        return np.full(self.population.pages, self.horizon) if self.deaths is None else self.deaths

    @cached_property
    def claims(self) -> Sequence[Claim]:
        """Claim of each signal."""
        if self.signal_claims is None:
            return [NO_CLAIM] * len(self.signal_times)
        until = self.signal_claims + (0.0 if self.signal_spans is None else self.signal_spans)
        return list(zip(self.signal_claims.tolist(), np.nan_to_num(until, nan=np.inf).tolist(), strict=True))

    @cached_property
    def changes_by_page(self) -> list[Floats]:
        """The times of change of each page."""
        return np.split(self.changes, self.change_offsets[1:-1])

    def changed_between(self, page: int, after: float, until: float) -> bool:
        """Tells whether the page changed in (after, until]."""
        times = self.changes_by_page[page]
        first = int(times.searchsorted(after, side="right"))
        return first < len(times) and bool(times[first] <= until)

    def magnitude_between(self, page: int, after: float, until: float) -> float:
        """The share of the text that changes in (after, until] have changed, as if each hit any word; nan: unknown."""
        if self.magnitudes is None:
            return np.nan
        start, times = int(self.change_offsets[page]), self.changes_by_page[page]
        first, last = times.searchsorted([after, until], side="right")
        return 1.0 - float(np.prod(1.0 - self.magnitudes[start + first : start + last]))


def draw_world(
    phases: Sequence[Phase] | Population, horizon: float, key: int, *, delay_mean: float = 0.0, slot: float = 0.0
) -> World:
    """Draw all events. With `delay_mean`, each signal comes Poisson(delay_mean) slots late."""
    if isinstance(phases, Population):
        phases = [Phase(0.0, phases)]
    ends = [phase.start for phase in phases[1:]] + [horizon]
    pages = phases[0].population.pages
    changes: list[Floats] = []
    signals: list[Floats] = []
    for page in range(pages):
        stream = page_stream(key, page, Stream.EVENTS)
        drawn = [
            _page_events(stream, phase.population, page, (phase.start, end))
            for phase, end in zip(phases, ends, strict=True)
        ]
        changes.append(np.concatenate([one[0] for one in drawn]))
        signalled = np.concatenate([one[1] for one in drawn])
        if delay_mean > 0 and len(signalled):
            signalled += slot * page_stream(key, page, Stream.DELAYS).poisson(delay_mean, len(signalled))
        signals.append(signalled)
    times, owners = _in_order_of_arrival(signals, horizon)
    return World(
        population=phases[0].population,
        horizon=horizon,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=times,
        signal_pages=owners,
    )


def _page_events(
    stream: np.random.Generator, population: Population, page: int, span: tuple[float, float]
) -> tuple[Floats, Floats]:
    """The changes of one page within a span of time, and its signals, the true ones first."""
    start, end = span
    length = end - start
    changes = start + length * np.sort(stream.random(stream.poisson(population.delta[page] * length)))
    announced = changes[stream.random(len(changes)) < population.lam[page]]
    false = start + length * stream.random(stream.poisson(population.nu[page] * length))
    return changes, np.concatenate([announced, false])


def _in_order_of_arrival(signals: Sequence[Floats], horizon: float) -> tuple[Floats, Ints]:
    times = np.concatenate(signals)
    owners = np.repeat(np.arange(len(signals)), [len(one) for one in signals])
    order = np.argsort(times, kind="stable")
    order = order[times[order] < horizon]
    return times[order], owners[order]
