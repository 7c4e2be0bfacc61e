"""The papers' way to learn while crawling: what each crawl found, and at every epoch new beliefs for the scheduler.

How crawld itself learns is in `crawld.research.online_crawler`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.research.gamma_posterior import smoothed_rates
from crawld.research.population import Floats
from crawld.research.world import Ints


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything seen so far: page i owns the rows offsets[i]:offsets[i+1] of the columns."""

    offsets: Ints
    tau: Floats
    signals: Ints
    changed: NDArray[np.bool_]
    watched: Floats  # by page: time since its first crawl
    heard: Ints  # by page: signals in that time


@dataclass(frozen=True, slots=True)
class Learnt:
    """Beliefs by page, as the scheduler takes them over."""

    alpha: Floats
    shape: Floats
    kappa: Floats
    gamma: Floats


Fit = Callable[[Observed], Learnt]


class Notebook:
    """Writes down what crawls find, page by page; `copies` are the times of those there are at the start, else nan."""

    def __init__(self, copies: Floats) -> None:
        self._pages = len(copies)
        self._page: list[int] = []
        self._tau: list[float] = []
        self._signals: list[int] = []
        self._changed: list[bool] = []
        self._last = copies.copy()
        self._first = copies.copy()
        self._since = np.zeros(self._pages, dtype=np.int64)
        self._heard = np.zeros(self._pages, dtype=np.int64)

    def crawled(self, page: int, now: float, changed: bool) -> None:
        """A crawl found the page changed or not since the one before; the first of a page compares with nothing."""
        last = self._last[page]
        if np.isnan(last):
            self._first[page] = now
        else:
            self._page.append(page)
            self._tau.append(now - last)
            self._signals.append(int(self._since[page]))
            self._changed.append(changed)
            self._heard[page] += self._since[page]
        self._last[page] = now
        self._since[page] = 0

    def heard(self, page: int) -> None:
        """A signal of the page came."""
        self._since[page] += 1

    def observed(self) -> Observed:
        """All of it, in the order of pages."""
        page = np.array(self._page, dtype=np.int64)
        order = np.argsort(page, kind="stable")
        return Observed(
            offsets=np.concatenate([[0], np.cumsum(np.bincount(page, minlength=self._pages))]).astype(np.int64),
            tau=np.array(self._tau)[order],
            signals=np.array(self._signals, dtype=np.int64)[order],
            changed=np.array(self._changed, dtype=bool)[order],
            watched=np.nan_to_num(self._last - self._first),
            heard=self._heard.copy(),
        )


class SmoothedFit:
    """Kolobov et al.'s estimator: change rates alone, smoothed, and a first guess where nothing was seen."""

    def __init__(self, first_guess: float) -> None:
        self._first_guess = first_guess

    def __call__(self, seen: Observed) -> Learnt:
        """Every page's rate by itself."""
        rates = smoothed_rates(seen.offsets, seen.tau, seen.changed)
        rates = np.where(np.diff(seen.offsets) > 0, rates, self._first_guess)
        nothing = np.zeros_like(rates)
        return Learnt(rates, np.full_like(rates, np.inf), nothing, nothing)
