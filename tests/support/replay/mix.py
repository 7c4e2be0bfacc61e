"""Several recorded sites in one replay: many hosts share one budget, as they do in the daemon."""

from collections.abc import Sequence

import numpy as np

from tests.support.replay.site import Floats, Ints, Moments, Site

DAYS = 365.0  # of each record, from a day drawn at random
SHORTEST = 180.0  # records shorter than this are left out
PAGES = 60  # of each host, drawn at random


def mix(sites: Sequence[Site], seed: int, pages: int = PAGES) -> Site:
    """One draw: of every site that is long enough a year, or what there is of it, and some of its pages."""
    rng = np.random.default_rng(seed)
    parts = []
    for site in sites:
        end = float(site.death.max())
        if end >= SHORTEST:
            start = rng.uniform(0.0, max(end - DAYS, 0.0))
            cut = window(site, start, min(start + DAYS, end))
            parts.append(cut.only(np.sort(rng.permutation(cut.pages)[:pages])))
    return together(parts)


def window(site: Site, start: float, end: float) -> Site:
    """What happened to a site between two days, counted from the first of them."""
    lived = np.flatnonzero((site.birth < end) & (site.death > start))
    site = site.only(lived)
    changes, signals = _between(site.changes, start, end), _between(site.signals, start, end)
    birth = np.maximum(site.birth - start, 0.0)
    return Site(site.name, birth, np.minimum(site.death, end) - start, changes, signals)


def together(sites: Sequence[Site]) -> Site:
    """Sites side by side, each a host of its own."""
    end = max(float(site.death.max()) for site in sites)
    hosts: Ints = np.repeat(np.arange(len(sites)), [site.pages for site in sites])
    changes, signals = (_joined(kind, end) for kind in ([s.changes for s in sites], [s.signals for s in sites]))
    birth: Floats = np.concatenate([site.birth for site in sites])
    death: Floats = np.concatenate([site.death for site in sites])
    return Site("+".join(site.name for site in sites), birth, death, changes, signals, hosts=hosts)


def _between(moments: Moments, start: float, end: float) -> Moments:
    kept = (moments.times >= start) & (moments.times < end)
    counted = np.r_[0, np.cumsum(kept)]
    return Moments(np.r_[0, counted[moments.ends]], moments.times[kept] - start, 0.0, end - start)


def _joined(parts: Sequence[Moments], end: float) -> Moments:
    counts = np.concatenate([np.diff(np.r_[0, part.ends]) for part in parts])
    return Moments(np.r_[0, np.cumsum(counts)], np.concatenate([part.times for part in parts]), 0.0, end)
