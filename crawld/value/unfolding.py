"""Pages of the crawl value's series unfolded into single terms, evaluated in bulk and added up again."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crawld.value.terms import LATE, TALL, Pairs, Triple, lower_terms, upper_terms

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

PAIRS = 32768  # pairs evaluated at once, so that temporaries stay in the cache
_RANK = 16383.0  # added to the counts of pages whose terms are finite sums, to sort them last
CROWD = 512  # pages from which on terms of one signal count are evaluated together


class Unfolding:
    """Pages of the series, able to unfold themselves into pairs."""

    def __init__(self, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> None:
        self._rows = np.empty((7, x.size))
        self._rows[0], self._rows[1] = x, kappa
        self.prefix, self.ratio, self.decay, self.silent, self._rank = self._rows[2:]
        self.prefix[:] = 0.0
        np.minimum(np.divide(gamma, alpha, out=self.ratio), 1e300, out=self.ratio)
        np.log1p(alpha / gamma, out=self.decay)
        np.divide(alpha, alpha + gamma, out=self.silent)

    def add_up(self, low: NDArray[np.bool_], terms: Floats, *, length: bool) -> Triple:
        """Per page, the sums over so many terms from the prefix on of e^Z·T, P and pois, in rising order of i."""
        size = low.size
        totals = np.zeros((3, size))
        rows = totals if length else totals[:1]
        lower, upper = partial(lower_terms, length=length), partial(upper_terms, length=length)
        if size >= CROWD:
            terms = terms.copy()  # crowds take theirs off
            for members, kernel in ((low, lower), (~low, upper)):
                pages = (members & (terms > 0) & (self.prefix == 0)).nonzero()[0]
                self._crowds(pages, terms, kernel, rows)
        np.multiply(~low, _RANK, out=self._rank)
        for page, pairs, cut in self._pairs(terms):
            for part, kernel in ((slice(cut), lower), (slice(cut, None), upper)):
                some = page[part]
                if some.size:
                    for i, found in zip(range(len(rows)), kernel(pairs.select(part)), strict=False):
                        if size < CROWD:
                            rows[i] += np.bincount(some, found, size)
                        else:
                            np.add.at(rows[i], some, found)
        return totals[0], totals[1], totals[2]

    def _crowds(self, pages: Indices, terms: Floats, kernel: Callable[[Pairs], Triple], rows: Floats) -> None:
        """Add terms of one signal count at a time while that serves a crowd of pages, leaving the others' terms."""
        counts = np.minimum(terms[pages], LATE + 1).astype(np.int16)
        order = np.argsort(-counts, kind="stable")
        pages = pages[order]
        x, kappa, _, ratio, decay, silent = (row[pages] for row in self._rows[:6])
        sums = np.zeros((len(rows), pages.size))
        sizes = pages.size - np.add.accumulate(np.bincount(counts, minlength=LATE + 1))  # more than 0, 1, 2… terms
        i, size = 0, pages.size
        while size >= CROWD and i < LATE:
            z = x[:size] - i * kappa[:size]
            np.maximum(z, 0.0, out=z)
            u = ratio[:size] * z
            np.minimum(u, TALL, out=u)
            pairs = Pairs(np.full(size, float(i)), z, u, ratio[:size], decay[:size], silent[:size])
            for row, found in zip(sums, kernel(pairs), strict=False):
                row[:size] += found
            i += 1
            size = int(sizes[i])
        if i:
            rows[:, pages] = sums
            self.prefix[pages] = i
            terms[pages] -= i

    def _pairs(self, terms: Floats) -> Iterator[tuple[Indices, Pairs, int]]:
        """Blocks of pairs, first so many of the lower pages, then the others, each in rising order of the count."""
        pages = (terms > 0).nonzero()[0]
        counts = terms[pages].astype(np.intp)
        ends = np.add.accumulate(counts)
        start = done = 0
        while start < pages.size:
            stop = pages.size
            if ends[-1] - done > PAIRS:
                stop = max(int(np.searchsorted(ends, done + PAIRS, side="right")), start + 1)
            yield self._block(pages[start:stop], counts[start:stop], ends[start:stop] - done)
            start, done = stop, int(ends[stop - 1])

    def _block(self, pages: Indices, counts: Indices, ends: Indices) -> tuple[Indices, Pairs, int]:
        page = pages
        if ends[-1] > pages.size:
            page = pages.repeat(counts)
        x, kappa, i, ratio, decay, silent, rank = self._rows.take(page, axis=1)
        if page is not pages:
            i += np.arange(page.size)
            i -= (ends - counts).repeat(counts)
        rank += np.minimum(i, _RANK)
        order = np.argsort(rank.astype(np.int16), kind="stable")
        z = np.maximum(x - i * kappa, 0.0)
        u = np.minimum(ratio * z, 1e300 if np.count_nonzero(i >= LATE) else TALL)
        pairs = np.array((i, z, u, ratio, decay, silent)).take(order, axis=1)
        return page[order], Pairs(*pairs), int(np.count_nonzero(rank < _RANK))
