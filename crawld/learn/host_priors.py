"""What the pages of a host teach about each other, kept up to date as their histories are fitted.

Evidence is kept by page and is only a cache of the histories: after a restart it grows again with the first fits, each
of which brings a page's whole history.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawld.learn.grid_posterior import KAPPAS, POINTS, Fit, GridPosterior, Masses
from crawld.learn.observations import NewIntervals, Observations, Prior
from crawld.model.row_index import PageRows, grown

# Counted page by page and drawn to what is usual on the host: how often signals come, and how large changes are.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SignalRates:
    """Sums over the pages of each host, kept up to date page by page; rows are those of the learner's pages.

    With N signals in the time T of each page, m = ΣN/ΣT is usual and v = Σ[(N − mT)² − mT]/Σ(mT)² is how much pages
    differ beyond chance. Under a Gamma of that mean and variance a page's rate is (1 + vN)/(1/m + vT).
    """

    max_variance = 4.0  # of a host's rates, over the square of their mean

    def __init__(self, sources: int) -> None:
        self._time = np.zeros(0, np.float32)  # by row: T
        self._count = np.zeros((0, sources), np.float32)  # by row: N by source; unwritten zeros take no memory
        self._host = np.zeros((0, 2))  # ΣT, ΣT²
        self._source = np.zeros((0, sources, 3))  # ΣN, ΣN², ΣNT

    def spoken(self, hosts: Ints) -> NDArray[np.bool_]:
        """By host and source, whether it ever had a signal."""
        return np.asarray(self._source[hosts, :, 0] > 0)

    def count(self, rows: Ints, hosts: Ints, watched: Floats, counts: Ints) -> None:
        """Take over how long pages have been watched and how many signals of each source were counted."""
        size = int(rows.max(initial=-1)) + 1
        self._time, self._count = grown(self._time, size, 0.0), grown(self._count, size, 0.0)
        most = int(hosts.max(initial=-1)) + 1
        self._host, self._source = grown(self._host, most, 0.0), grown(self._source, most, 0.0)
        self._add(rows, hosts, -1.0)
        self._write(rows, np.maximum(watched, 0.0), counts)
        self._add(rows, hosts, 1.0)

    def forget(self, rows: Ints, hosts: Ints) -> None:
        """Take pages out."""
        self._add(rows, hosts, -1.0)
        self._write(rows, np.zeros(len(rows)), np.zeros((len(rows), self._count.shape[1]), np.int64))

    def _write(self, rows: Ints, watched: Floats, counts: Ints) -> None:
        self._time[rows] = watched
        some = counts.any(axis=1) | self._count[rows].any(axis=1)
        self._count[rows[some]] = counts[some]

    def of(self, rows: Ints, hosts: Ints) -> Floats:
        """By page and source; 0 where the host never had a signal of the source."""
        time, counts = self._time[rows, None].astype(float), self._count[rows].astype(float)
        total, squares = self._host[hosts].T[:, :, None]
        signals, twice, both = np.moveaxis(self._source[hosts], 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = signals / total
            spread = twice - 2.0 * mean * both + mean**2 * squares - signals
            variance = np.clip(np.nan_to_num(spread / (mean**2 * squares)), 0.0, self.max_variance)
            rate = (1.0 + variance * counts) / (1.0 / mean + variance * time)
        return np.where((signals > 0) & (total > 0), rate, 0.0)

    def _add(self, rows: Ints, hosts: Ints, sign: float) -> None:
        time, counts = self._time[rows].astype(float), self._count[rows].astype(float)
        np.add.at(self._host, hosts, sign * np.column_stack([time, time**2]))
        sums = np.stack([counts, counts**2, counts * time[:, None]], axis=2)
        np.add.at(self._source, hosts, sign * sums)


class Magnitudes:
    """How much of its text a change of a page changes: its own mean, drawn to its host's, that to the mean of all."""

    alike = 3.0  # changes just like the mean above that the changes of a page or host count beside

    def __init__(self) -> None:
        self._page, self._host = np.zeros((2, 0, 2))  # changes whose share is known, and the sum of those shares

    def count(self, rows: Ints, hosts: Ints, sums: Floats) -> None:
        """Take over the changes and shares (pages, 2) of pages; none of both takes them out."""
        self._page = grown(self._page, int(rows.max(initial=-1)) + 1, 0.0)
        self._host = grown(self._host, int(hosts.max(initial=-1)) + 1, 0.0)
        np.add.at(self._host, hosts, sums - self._page[rows])
        self._page[rows] = sums

    def significance(self, rows: Ints, hosts: Ints) -> Floats:
        """The share expected of a page's next change, over the mean of all changes."""
        changes, text = self._host.sum(axis=0)
        if text <= 0:
            return np.ones(len(rows))
        mean = np.full(len(rows), text / changes)
        for seen in (self._host[hosts], self._page[rows]):
            mean = (self.alike * mean + seen[:, 1]) / (self.alike + seen[:, 0])
        return np.asarray(mean * changes / text)


class HostPriors:
    """One predictor's priors by host, and the one above them all in which every host counts the same.

    Hosts are numbers. The predictor hears so many `sources`; only pages that it was asked to fit take room.
    """

    news = 0.25  # a host's prior is learnt anew when that share of its pages has news
    far = 0.05  # pages are fitted again when that share of their prior's mass has moved
    sample = 20_000  # pages asked at once
    alike, trusted_alike = 10.0, 3.0  # pages just like the prior above that a host's rates and κ are drawn to
    whole = 255  # likelihoods are kept as shares of their maximum in one byte

    def __init__(self, default: Prior, sources: int) -> None:
        self.grid = GridPosterior(default)
        self._sources = sources
        self._parts = np.r_[0, POINTS + len(KAPPAS) * np.arange(sources + 1)]  # columns of α, of κ by source
        self._default = _columns(self.grid.masses(default, sources))
        self._above = self._default
        self._others = np.zeros(width := self._default.shape[1])
        self.taught = np.zeros(width)  # what our hosts say of the prior above: how many are of each kind
        self._prior = np.empty((0, width), np.float32)  # by host
        self._told = np.empty((0, width), np.float32)  # the prior that the host's pages were last fitted with
        self.sizes = np.zeros(0, np.int64)  # by host: pages fitted
        self._news = np.zeros(0, np.int64)  # by host: fits since its prior was learnt
        self.rows = PageRows()  # of pages that were ever fitted
        self._host = np.full(0, -1, np.int32)  # by row; −1 where the row is free
        self._evidence = np.zeros((0, width), np.uint8)  # by row: likelihoods
        self._fits = self._next_above = 0

    def prior(self, hosts: Ints) -> Masses:
        """The priors of pages on these hosts, by page."""
        self.make_room(hosts)
        return self._masses(self._prior[hosts])

    def common(self, hosts: Ints) -> Masses:
        """What pages of these hosts have in common: the prior that they were all last fitted with."""
        self.make_room(hosts)
        return self._masses(self._told[hosts])

    def start(self, hosts: Ints, alpha: Floats) -> Ints:
        """Let hosts (by page) new to this predictor begin with what another believes of their rates; which are new.

        From the first guess it would be judged unfairly beside those that have learnt.
        """
        self.make_room(hosts)
        new = self.sizes[hosts] == 0
        for prior in (self._prior, self._told):
            prior[hosts[new], :POINTS] = alpha[new]
        return np.unique(hosts[new])

    def fit(
        self,
        page_ids: Ints,
        hosts: Ints,
        intervals: Observations,
        news: NewIntervals | None = None,
        usual: Floats | float = 1.0,
    ) -> tuple[Fit, Ints]:
        """What is believed of pages, and pages to fit again as their prior moved far; see `GridPosterior.fit`."""
        fit = self.grid.fit(intervals, self.prior(hosts), news, usual)
        rows = self.rows.take(page_ids)
        self._host = grown(self._host, self.rows.size, -1)
        self._evidence = grown(self._evidence, self.rows.size, 0)
        np.add.at(self.sizes, hosts[self._host[rows] < 0], 1)
        np.add.at(self._news, hosts, 1)
        self._host[rows] = hosts
        self._evidence[rows] = np.rint(self.whole * _columns(fit.evidence))
        self._fits += len(page_ids)
        if self._fits >= self._next_above:
            self._next_above = 1 + self._fits + self._fits // 4
            self._learn_above()
        due = np.flatnonzero(self._news > self.news * self.sizes)
        return fit, self.rows.page_id[self._learn_hosts(due)] if len(due) else np.empty(0, np.int64)

    def hear(self, others: Floats) -> None:
        """Take what the hosts of others say of the prior above, as `taught` of theirs, summed; it counts as ours do.

        It is heard when the prior is next learnt, no earlier: learnt too often it would follow single hosts.
        """
        self._others = others
        if not self._fits:
            self._above = np.hstack([self._beside(part, alike)[0] for part, alike in self._parts_alike()])

    def forget(self, page_ids: Ints) -> Ints:
        """Drop the evidence of pages that are ours no longer; the rows that they had."""
        rows = self.rows.remove(page_ids)
        np.subtract.at(self.sizes, self._host[rows], 1)
        self._host[rows], self._evidence[rows] = -1, 0
        return rows

    def rows_at(self, numbers: Ints) -> Ints:
        """The rows of every page that was ever fitted on these hosts."""
        among = np.zeros(len(self.sizes) + 1, bool)  # the last stands for free rows
        among[numbers] = True
        return np.flatnonzero(among[self._host])

    def host_of(self, rows: Ints) -> Ints:
        """The numbers of these pages' hosts."""
        return self._host[rows].astype(np.int64)

    def _masses(self, rows: NDArray[np.float32]) -> Masses:
        found = rows.astype(float)
        return Masses(found[:, :POINTS], found[:, POINTS:].reshape(len(found), self._sources, len(KAPPAS)))

    def _learn_above(self) -> None:
        pages = np.flatnonzero(self._host >= 0)
        pages = pages[:: 1 + len(pages) // self.sample]
        host = self._host[pages]
        one_each = 1.0 / np.bincount(host)[host]
        group, found = np.zeros(len(pages), np.int64), []
        for part, alike in self._parts_alike():
            evidence, (beside, pseudo) = self._evidence[pages, part], self._beside(part, alike)
            found.append(pool(evidence, group, beside, self._above[:, part], pseudo, one_each))
            self.taught[part] = _kinds(evidence, found[-1], one_each)
        self._above = np.hstack(found)
        self._prior[self.sizes == 0] = self._told[self.sizes == 0] = self._above

    def _beside(self, part: slice, alike: float) -> tuple[Floats, float]:
        """What counts beside our own evidence for the prior above, and as how many hosts."""
        pseudo = alike + float(self._others[part].sum())
        return (alike * self._default[:, part] + self._others[part]) / pseudo, pseudo

    def _learn_hosts(self, due: Ints) -> Ints:
        place = np.full(len(self.sizes), -1)
        place[due] = np.arange(len(due))
        pages = np.flatnonzero(self._host >= 0)
        group = place[self._host[pages]]
        pages, group = pages[group >= 0], group[group >= 0]
        asked = slice(None, None, 1 + len(pages) // self.sample)
        self._prior[due] = self._pool(pages[asked], group[asked], self._above, self._prior[due])
        self._news[due] = 0
        distance = np.add.reduceat(np.abs(self._prior[due] - self._told[due]), self._parts[:-1], axis=1)
        moved = np.asarray(distance > 2.0 * self.far)
        self._told[due] = np.where(np.repeat(moved, np.diff(self._parts), axis=1), self._prior[due], self._told[due])
        return np.asarray(pages[np.asarray(moved.any(axis=1))[group]])

    def _pool(self, pages: Ints, group: Ints, above: Floats, start: NDArray[Any]) -> Floats:
        """Masses of (α, κ…) by group."""
        return np.hstack(
            [
                pool(self._evidence[pages, part], group, above[:, part], start[:, part], alike)
                for part, alike in self._parts_alike()
            ]
        )

    def _parts_alike(self) -> list[tuple[slice, float]]:
        """The columns of α and of each κ, and how many pages just like the prior above count beside the evidence."""
        return [
            (slice(first, last), self.trusted_alike if first else self.alike) for first, last in pairwise(self._parts)
        ]

    def reserve(self, pages: int) -> None:
        """Make room for that many pages at once."""
        self._host, self._evidence = grown(self._host, pages, -1), grown(self._evidence, pages, 0)

    def make_room(self, hosts: Ints) -> None:
        """A new host starts from the prior above."""
        new = int(hosts.max(initial=-1)) + 1 - len(self.sizes)
        if new > 0:
            new = max(new, len(self.sizes) // 8)  # to grow host by host copies everything again and again
            fresh = np.repeat(self._above.astype(np.float32), new, axis=0)
            self._prior, self._told = np.vstack([self._prior, fresh]), np.vstack([self._told, fresh])
            self.sizes = np.append(self.sizes, np.zeros(new, np.int64))
            self._news = np.append(self._news, np.zeros(new, np.int64))


def _columns(masses: Masses) -> Floats:
    """All masses of a page side by side: of α, then of κ by source."""
    return np.hstack([masses.alpha, masses.kappa.reshape(len(masses.kappa), -1)])


def pool(
    likelihood: NDArray[Any],
    group: Ints,
    above: Floats,
    start: NDArray[Any],
    pseudo: float,
    weights: Floats | None = None,
) -> Floats:
    """Masses (groups, points) that make the evidence of each group's pages more likely than those to start from.

    They are drawn towards the masses above, (1, points), as by `pseudo` more pages that are just like them.
    `likelihood` is (pages, points), rows of zeros saying nothing; `weights` count pages more or less.
    """
    order = np.flatnonzero(likelihood.any(axis=1))
    order = order[np.argsort(group[order], kind="stable")]
    masses = np.array(start, float)
    if not len(order):
        return masses
    likelihood, group = likelihood[order].astype(np.float32), group[order]
    weight = np.ones(len(order)) if weights is None else weights[order]
    busy, first = np.unique(group, return_index=True)
    place = np.repeat(np.arange(len(busy)), np.diff(np.r_[first, len(group)]))
    members = np.bincount(place, weight)[:, None]
    for _ in range(6):  # rounds of expectation and maximisation
        shares = likelihood * masses[busy].astype(np.float32)[place]
        shares *= (weight / shares.sum(axis=1))[:, None].astype(np.float32)
        masses[busy] = (np.add.reduceat(shares, first, axis=0) + pseudo * above) / (members + pseudo)
    return masses


def _kinds(likelihood: NDArray[Any], masses: Floats, weights: Floats) -> Floats:
    """How many pages, by weight, are of the kind that each point stands for."""
    shares = likelihood * masses
    total = shares.sum(axis=1)
    told = total > 0
    return np.asarray((weights[told] / total[told]) @ shares[told])
