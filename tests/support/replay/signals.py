"""Recorded signals by the crowd they came with, counted as the daemon's poller counts them."""

from collections.abc import Sequence

import numpy as np

from crawld.model.signal import CROWDS, crowd_of
from tests.support.replay.site import Floats, Ints, Moments, Site


class CrowdCounts:
    """A site's signals split into sources: alone, with a few, with a large part of their host's pages."""

    def __init__(self, site: Site) -> None:
        signals, self._pages = site.signals, site.pages
        page = np.repeat(np.arange(site.pages), np.diff(np.r_[0, signals.ends]))
        kind = kinds(site, page)
        self._sources: Sequence[Moments] = [_only(signals, page, kind == k, site.pages) for k in range(len(CROWDS))]

    def count(self, pages: Ints, after: Floats, until: float) -> Ints:
        """Signals of each page in (after, until], by source."""
        counts = np.zeros((len(pages), len(self._sources)), np.int64)
        for source, moments in enumerate(self._sources):
            if len(moments.times):
                counts[:, source] = moments.count(pages, after, until)
        return counts


def kinds(site: Site, page: Ints) -> Ints:
    """The source of each signal: by the share of its host's living pages that had one at the same instant."""
    times = site.signals.times
    host = np.zeros(site.pages, np.int64) if site.hosts is None else site.hosts
    kind = np.zeros(len(times), np.int64)
    for number in np.unique(host[page]).tolist():
        own = np.flatnonzero(host[page] == number)
        moments, place, moved = np.unique(times[own], return_inverse=True, return_counts=True)
        born, dead = np.sort(site.birth[host == number]), np.sort(site.death[host == number])
        listed = np.searchsorted(born, moments, side="right") - np.searchsorted(dead, moments, side="right")
        crowds = [CROWDS.index(crowd_of(*pair)) for pair in zip(moved.tolist(), listed.tolist(), strict=True)]
        kind[own] = np.array(crowds, np.int64)[place]
    return kind


def _only(moments: Moments, page: Ints, kept: Ints, pages: int) -> Moments:
    offsets = np.r_[0, np.cumsum(np.bincount(page[kept], minlength=pages))]
    return Moments(offsets, moments.times[kept], moments.start, moments.start + moments.stride / 2 - 1.0)
