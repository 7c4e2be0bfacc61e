"""What the pages of a host teach about each other, kept up to date as their histories are fitted.

Evidence is kept by page and is only a cache of the histories: after a restart it grows again with the first fits, each
of which brings a page's whole history.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.estimator import Posterior, Prior
from crawld.scheduler.priors import Evidence, evidence_of, pool_rates, pool_trust

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEWS = 0.25  # a host's prior is learnt anew when that share of its pages has news
FAR = 0.3  # pages are fitted again when ln of their prior's mean or shape has moved that much
SAMPLE = 20_000  # pages asked for the prior above all hosts


class Siblings:
    """Priors by host, and the one above them all in which every host counts the same."""

    def __init__(self, default: Prior, sources: int) -> None:
        self.default = default
        width = 1 + sources
        self._default = _columns(default, width)
        self._above = self._default
        self._number: dict[str, int] = {}
        self._shape, self._rate = np.empty((0, width)), np.empty((0, width))  # by host, of α and κ by source
        self._told = np.empty((0, 2, width))  # ln of shape and mean that the host's pages were last fitted with
        self.sizes = np.zeros(0, np.int64)  # by host: with evidence
        self._news = np.zeros(0, np.int64)  # by host: fits since its prior was learnt
        self._host = np.full(0, -1, np.int32)  # by page id; −1 without evidence
        self._evidence = np.zeros((0, 2 + 4 * sources), np.float32)  # by page id: the fields of Evidence
        self._fits = self._next_above = 0

    def prior(self, hosts: Sequence[str]) -> Prior:
        """The priors of pages on these hosts, as columns by page."""
        number = self.numbers(hosts)
        shape, rate = self._shape[number], self._rate[number]
        gamma = self.default.gamma_shape, self.default.gamma_rate
        return Prior(shape[:, 0], rate[:, 0], shape[:, 1:], rate[:, 1:], *gamma)

    def take_in(self, page_ids: Ints, hosts: Sequence[str], posterior: Posterior, prior: Prior) -> Ints:
        """Learn from pages just fitted under `prior`; the pages to fit again because their host's prior moved far."""
        number = self.numbers(hosts)
        self._room(int(page_ids.max(initial=-1)) + 1)
        np.add.at(self.sizes, number[self._host[page_ids] < 0], 1)
        np.add.at(self._news, number, 1)
        self._host[page_ids] = number
        found = evidence_of(posterior, prior)
        self._evidence[page_ids] = np.column_stack([getattr(found, one.name) for one in fields(found)])
        self._fits += len(page_ids)
        if self._fits >= self._next_above:
            self._next_above = 1 + self._fits + self._fits // 4
            self._learn_above()
        due = np.flatnonzero(self._news > NEWS * self.sizes)
        return self._learn_hosts(due) if len(due) else np.empty(0, np.int64)

    def pages_of(self, hosts: Sequence[str]) -> Ints:
        """Every page that was ever fitted on these hosts."""
        return self.pages_at(self.numbers(hosts))

    def pages_at(self, numbers: Ints) -> Ints:
        """The same of hosts by number."""
        among = np.zeros(len(self.sizes) + 1, bool)  # the last stands for pages without evidence
        among[numbers] = True
        return np.flatnonzero(among[self._host])

    def host_of(self, page_ids: Ints) -> Ints:
        """The numbers of these pages' hosts."""
        return self._host[page_ids].astype(np.int64)

    def _learn_above(self) -> None:
        pages = np.flatnonzero(self._host >= 0)
        pages = pages[:: 1 + len(pages) // SAMPLE]
        host = self._host[pages]
        one_each = 1.0 / np.bincount(host)[host]
        self._above = self._pool(pages, np.zeros(len(pages), np.int64), self._default, None, one_each)
        quiet = self.sizes == 0
        self._shape[quiet], self._rate[quiet] = self._above[0][0], self._above[1][0]

    def _learn_hosts(self, due: Ints) -> Ints:
        place = np.full(len(self.sizes), -1)
        place[due] = np.arange(len(due))
        pages = np.flatnonzero(self._host >= 0)
        group = place[self._host[pages]]
        pages, group = pages[group >= 0], group[group >= 0]
        above = tuple(np.repeat(part, len(due), axis=0) for part in self._above)
        start = self._shape[due, 0], self._rate[due, 0]
        self._shape[due], self._rate[due] = self._pool(pages, group, (above[0], above[1]), start)
        self._news[due] = 0
        told = self._summary(due)
        far = np.abs(told - self._told[due]).max(axis=(1, 2)) > FAR
        self._told[due[far]] = told[far]
        return np.asarray(pages[far[group]])

    def _pool(
        self,
        pages: Ints,
        group: Ints,
        above: tuple[Floats, Floats],
        start: tuple[Floats, Floats] | None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Shapes and rates of (α, κ…) by group."""
        columns = self._evidence[pages].astype(float)
        evidence = Evidence(columns[:, 0], columns[:, 1], *np.split(columns[:, 2:], 4, axis=1))
        shape, rate = pool_rates(columns[:, 0], columns[:, 1], group, (above[0][:, 0], above[1][:, 0]), start, weights)
        trust, worth = pool_trust(evidence, group, (above[0][:, 1:], above[1][:, 1:]), weights)
        return np.column_stack([shape, trust]), np.column_stack([rate, worth])

    def _summary(self, hosts: Ints) -> Floats:
        shape, rate = self._shape[hosts], self._rate[hosts]
        return np.stack([np.log(shape), np.log(shape / rate)], axis=1)

    def numbers(self, hosts: Sequence[str]) -> Ints:
        """Hosts by number; a new one starts from the prior above."""
        new = [host for host in dict.fromkeys(hosts) if host not in self._number]
        if new:
            fresh = np.arange(len(self._number), len(self._number) + len(new))
            self._number |= zip(new, fresh.tolist())
            self._shape = np.vstack([self._shape, np.repeat(self._above[0], len(new), axis=0)])
            self._rate = np.vstack([self._rate, np.repeat(self._above[1], len(new), axis=0)])
            self.sizes = np.append(self.sizes, np.zeros(len(new), np.int64))
            self._news = np.append(self._news, np.zeros(len(new), np.int64))
            self._told = np.concatenate([self._told, self._summary(fresh)])
        return np.fromiter((self._number[host] for host in hosts), np.int64, len(hosts))

    def _room(self, size: int) -> None:
        have = len(self._host)
        if size > have:
            more = max(size, have + have // 2) - have
            self._host = np.append(self._host, np.full(more, -1, np.int32))
            self._evidence = np.vstack([self._evidence, np.zeros((more, self._evidence.shape[1]), np.float32)])


def _columns(prior: Prior, width: int) -> tuple[Floats, Floats]:
    """One prior for everybody as (1, parameters)."""
    shape, rate = np.empty((1, width)), np.empty((1, width))
    shape[0, 0], rate[0, 0] = prior.alpha_shape, prior.alpha_rate
    shape[0, 1:], rate[0, 1:] = prior.kappa_shape, prior.kappa_rate
    return shape, rate
