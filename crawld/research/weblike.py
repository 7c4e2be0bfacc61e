"""Worlds that live as real sites do: bursts, working weeks, mass events, pages that never change, drift and sitemaps.

Times are days and day 0 is a Monday. The figures follow what real histories say (docs/method.md): weekends carry 16 %
of the changes, busy hours 2.3 times as many as quiet ones, and a good part of all changes comes in mass events.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

from crawld.research.population import HOSTS, Floats, Population, page_stream
from crawld.research.sitemaps import KINDS, Announced, Sitemap, announce, in_batches
from crawld.research.world import World

WEEK, HOURS = 7.0, 24
WEEKEND = 0.476
"""How busy a day of the weekend is beside a working day: then both carry 16 % of a week's changes."""
RHYTHM = 0.4
"""How far the busiest and the quietest hour are from the mean one."""


@dataclass(frozen=True, slots=True)
class SiteStyle:
    """How the pages of one host live."""

    pages: int
    rate: float = 0.05  # changes a day of a page that changes, mass events left out: the median over pages
    spread: float = 1.2  # standard deviation of ln rate over the pages
    never: float = 0.25  # share of pages that never change
    burst: float = 1.0  # changes that follow each one within hours, on average
    burst_days: float = 0.3  # after how long, on average
    mass_every: float = 25.0  # days between mass events, on average
    mass_share: float = 0.5  # of the changing pages that such an event hits, on average
    drift: float = 1.0  # standard deviation of ln of the factor by which rates grow from the first day to the last
    sitemap: Sitemap = Sitemap.HONEST


@dataclass(frozen=True)
class WeblikeWorld(World):
    """A world with the styles of its hosts. `population.delta` is what each page's changes come to per day."""

    styles: tuple[SiteStyle, ...] = ()


def draw_styles(hosts: int, pages: int, key: int, sitemap: Sitemap | None = None) -> list[SiteStyle]:
    """Hosts of different sizes and tempers with so many pages in all; sitemaps of every kind unless one is given.

    The k-th host has 1/k as many pages as the first.
    """
    shares = 1.0 / np.arange(1, hosts + 1)
    ends = np.rint(np.cumsum(shares) / shares.sum() * pages).astype(int)
    kinds = cycle(KINDS) if sitemap is None else cycle([sitemap])
    styles = []
    for host, (size, kind) in enumerate(zip(np.diff(ends, prepend=0), islice(kinds, hosts), strict=True)):
        stream = page_stream(key, host, HOSTS)
        styles.append(
            SiteStyle(
                pages=int(size),
                rate=float(np.exp(stream.normal(np.log(0.03), 0.8))),
                never=float(stream.uniform(0.0, 0.5)),
                burst=float(stream.uniform(0.0, 2.0)),
                mass_every=float(np.exp(stream.normal(np.log(25.0), 0.5))),
                mass_share=float(stream.uniform(0.2, 0.9)),
                sitemap=kind,
            )
        )
    return styles


def draw_weblike(styles: Sequence[SiteStyle], days: float, key: int, *, zipf: bool = True) -> WeblikeWorld:
    """Every change and signal of the hosts; importance falls as one over a random rank, or is the same for all."""
    changes: list[Floats] = []
    announced: list[Announced] = []
    first = 0
    for host, style in enumerate(styles):
        stream = np.random.Generator(np.random.Philox(key=[key, host], counter=[0, 0, 1, HOSTS]))
        drawn = in_batches(stream, style.sitemap, _changes(stream, style, days), days)
        changes += drawn
        announced.append(announce(stream, style.sitemap, drawn, days).shifted(first))
        first += style.pages
    signals = Announced.merged(announced)
    return WeblikeWorld(
        population=_population(changes, days, key, zipf=zipf),
        horizon=days,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=signals.seen,
        signal_pages=signals.pages,
        signal_claims=signals.claims,
        signal_spans=signals.spans,
        hosts=np.repeat(np.arange(len(styles)), [style.pages for style in styles]),
        listed=np.repeat([s.sitemap is not Sitemap.NONE for s in styles], [s.pages for s in styles]),
        styles=tuple(styles),
    )


def weblike(
    key: int, *, hosts: int = 10, pages: int = 300, days: float = 180.0, sitemap: Sitemap | None = None
) -> WeblikeWorld:
    """A weblike world of drawn hosts with Zipf importance."""
    return draw_weblike(draw_styles(hosts, pages, key, sitemap), days, key)


def evenly_important(world: WeblikeWorld) -> WeblikeWorld:
    """The same world with every page as important as any other."""
    return replace(world, population=replace(world.population, mu=np.ones(world.population.pages)))


def _population(changes: Sequence[Floats], days: float, key: int, *, zipf: bool) -> Population:
    pages = len(changes)
    nothing = np.zeros(pages)
    ranks = np.random.Generator(np.random.Philox(key=[key, pages], counter=[0, 0, 2, HOSTS])).permutation(pages)
    mu = 1.0 / (1.0 + ranks) if zipf else np.ones(pages)
    return Population(mu / mu.mean(), np.array([len(one) for one in changes]) / days, nothing, nothing)


def _changes(stream: np.random.Generator, style: SiteStyle, days: float) -> list[Floats]:
    """The changes of each page: starts of bursts, what follows them, and mass events."""
    changing = stream.random(style.pages) >= style.never
    rate = np.where(changing, style.rate * np.exp(style.spread * stream.normal(size=style.pages)), 0.0)
    begun = stream.poisson(rate * days / (1.0 + style.burst))
    page = np.repeat(np.arange(style.pages), begun)
    slope = style.drift * stream.normal(size=style.pages)
    start = days * _drifted(stream.random(len(page)), slope[page])
    follow = stream.poisson(style.burst, len(page))
    after = np.repeat(start, follow) + stream.exponential(style.burst_days, int(follow.sum()))
    mass = np.sort(stream.uniform(0.0, days, stream.poisson(days / style.mass_every)))
    share = stream.beta(3.0 * style.mass_share, 3.0 * (1.0 - style.mass_share), len(mass))
    event, hit = np.nonzero((stream.random((len(mass), style.pages)) < share[:, None]) & changing)
    owner = np.concatenate([page, np.repeat(page, follow), hit])
    at = _by_calendar(np.concatenate([start, after, mass[event]]), days)
    inside = at < days
    owner, at = owner[inside], at[inside]
    order = np.lexsort((at, owner))
    return np.split(at[order], np.searchsorted(owner[order], np.arange(1, style.pages)))


def _drifted(uniform: Floats, slope: Floats) -> Floats:
    """Times on (0, 1) at which events of a rate that grows by e^slope come, from uniform numbers."""
    steep = np.where(np.abs(slope) < 1e-6, 1e-6, slope)
    return np.asarray(np.log1p(uniform * np.expm1(steep)) / steep)


def _by_calendar(even: Floats, days: float) -> Floats:
    """Times that ran evenly, moved so that working days and busy hours have more of them; whole weeks stay in place."""
    hours = np.arange(int(np.ceil(days / WEEK)) * 7 * HOURS)
    busy = np.where(hours // HOURS % 7 < 5, 1.0, WEEKEND) * (1.0 - RHYTHM * np.cos(2 * np.pi * (hours % HOURS) / HOURS))
    passed = np.concatenate([[0.0], np.cumsum(busy)])
    whole = hours.size / HOURS
    return np.interp(even, passed / passed[-1] * whole, np.arange(hours.size + 1) / HOURS)
