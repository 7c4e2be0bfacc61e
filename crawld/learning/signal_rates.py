"""Counted page by page and drawn to what is usual on the host: how often signals come, and how large changes are."""

import numpy as np
from numpy.typing import NDArray

from crawld.row_index import grown

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
        self._count = np.zeros((0, sources), np.float32)  # by row: N by source; zeros that nobody writes take no memory
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
