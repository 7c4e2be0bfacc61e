"""Who the pages are: the true parameters of each, drawn from that page's own random stream."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Recipe = Callable[[np.random.Generator], tuple[float, float, float, float]]
"""Draws one page's (μ, Δ, λ, ν)."""

PARAMETERS, EVENTS, DELAYS, NOISE, VISITS, HOSTS = range(6)
"""What a page's random numbers are for; each purpose has a stream of its own."""


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
        """As many pages as asked for, each from its own stream."""
        rows = np.array([recipe(page_stream(key, page, PARAMETERS)) for page in range(pages)], dtype=float)
        return cls(*rows.reshape(pages, 4).T.copy())

    @property
    def pages(self) -> int:
        """How many pages there are."""
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
        """The same pages to somebody who hears no signal."""
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
