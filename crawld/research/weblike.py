"""Worlds that live as real sites do: bursts, working weeks, mass events, pages that never change, drift and sitemaps.

Times are days and day 0 is a Monday. The figures follow what real histories say (docs/method.md): weekends carry 16 %
of the changes, busy hours 2.3 times as many as quiet ones, and a good part of all changes comes in mass events.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, islice
from typing import Self

import numpy as np

from crawld.research.world import Floats, Ints, Population, Stream, World, page_stream


@dataclass(frozen=True)
class WeblikeLimits:
    """Numbers that bound and tune this module."""

    late: float = 7.0
    """Days between two issues of a sitemap that is late."""
    poll: float = 1.0 / 24.0
    """Days between two polls of a sitemap: what moved in between is seen at once."""
    told: float = 0.95
    """The share of changes that an honest sitemap tells."""
    false: float = 0.03
    """False signals of an honest sitemap, for each true one."""
    builds: float = 0.7
    """Builds a day of a site that stamps every page at each."""
    weekend: float = 0.476
    """Changes of a day of the weekend beside those of a working day: both together carry 16 % of a week's."""
    rhythm: float = 0.4
    """Distance of the busiest and the quietest hour from the mean one."""


LIMITS = WeblikeLimits()


class Sitemap(StrEnum):
    """Kinds of sitemaps, by how their lastmods come about."""

    NONE = "none"
    HONEST = "honest"  # a lastmod moves with its page, nearly always
    BUILD = "build-time"  # every build stamps every page; changes are published by builds
    STATIC = "static"  # lastmods are there and never move
    DATE_ONLY = "date-only"  # honest, but the second change of a day cannot be told from the first
    LATE = "late"  # honest, but issued once a week


@dataclass(frozen=True, slots=True)
class Announced:
    """Signals as columns: when and of which page they are seen, what time they claim, and how wide that claim is."""

    seen: Floats
    pages: Ints
    claims: Floats
    spans: Floats

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """All of them in the order in which they are seen."""
        seen, pages, claims, spans = (
            np.concatenate(column)
            for column in zip(*((p.seen, p.pages, p.claims, p.spans) for p in parts), strict=True)
        )
        order = np.lexsort((pages, seen))
        return cls(seen[order], pages[order], claims[order], spans[order])

    def shifted(self, first: int) -> "Announced":
        """Counts the pages from `first` on."""
        return Announced(self.seen, self.pages + first, self.claims, self.spans)


def in_batches(stream: np.random.Generator, kind: Sitemap, changes: list[Floats], days: float) -> list[Floats]:
    """Changes as published: where builds publish, each waits for the next one, and those of one build are one."""
    if kind is not Sitemap.BUILD:
        return changes
    builds = _builds(stream, days)
    published = [np.append(builds, days)[np.searchsorted(builds, one)] for one in changes]
    return [np.unique(one[one < days]) for one in published]


def announce(stream: np.random.Generator, kind: Sitemap, changes: list[Floats], days: float) -> Announced:
    """Signals of the sitemap for these changes, in no order."""
    at = np.concatenate(changes)
    page = np.repeat(np.arange(len(changes)), [len(one) for one in changes])
    if kind in {Sitemap.NONE, Sitemap.STATIC}:
        return _claimed(at[:0], page[:0], at[:0], days)
    if kind is Sitemap.BUILD:
        builds = np.unique(at)
        idle = stream.uniform(0.0, days, stream.poisson(0.3 * len(builds)))  # builds without a change of the text
        stamped = np.concatenate([builds, idle])
        pages = np.tile(np.arange(len(changes)), len(stamped))
        return _claimed(_polled(np.repeat(stamped, len(changes))), pages, np.repeat(stamped, len(changes)), days)
    told = stream.random(len(at)) < LIMITS.told
    at, page = at[told], page[told]
    false = stream.poisson(LIMITS.false * len(at))
    at = np.concatenate([at, stream.uniform(0.0, days, false)])
    page = np.concatenate([page, stream.integers(0, len(changes), false)])
    if kind is Sitemap.LATE:
        return _claimed(LIMITS.late * np.ceil(at / LIMITS.late), page, at, days)
    if kind is Sitemap.DATE_ONLY:
        order = np.lexsort((at, page))
        at, page = at[order], page[order]
        _, first = np.unique(np.column_stack([page, np.floor(at)]), axis=0, return_index=True)
        return _claimed(_polled(at[first]), page[first], np.floor(at[first]), days, span=1.0)
    return _claimed(_polled(at), page, at, days)


def _builds(stream: np.random.Generator, days: float) -> Floats:
    return np.sort(stream.uniform(0.0, days, stream.poisson(LIMITS.builds * days)))


def _polled(at: Floats) -> Floats:
    return np.asarray(LIMITS.poll * np.ceil(at / LIMITS.poll))


def _claimed(seen: Floats, page: Ints, claims: Floats, days: float, span: float = 0.0) -> Announced:
    """Signals seen before the end; of several of one page in one poll the last is all there is to see."""
    order = np.lexsort((claims, seen, page))
    order = order[seen[order] < days]
    seen, page, claims = seen[order], page[order], claims[order]
    last = np.ones(len(seen), bool)
    last[:-1] = (seen[1:] != seen[:-1]) | (page[1:] != page[:-1])
    return Announced(seen[last], page[last], claims[last], np.full(int(last.sum()), span))


@dataclass(frozen=True, slots=True)
class Honesty:
    """Distribution of signals for recorded pages: shares of changes told and of true signals, days until seen."""

    recall: float
    precision: float
    late: float = 0.0  # at most, evenly


def tell(world: World, how: Honesty, stream: np.random.Generator) -> World:
    """The world with signals of its changes in place of its own; `population` gets their true rates.

    What changed at one moment is told at one moment, so a mass change arrives in bulk; false signals come alone. No
    signal claims a time.
    """
    pages = np.repeat(np.arange(world.population.pages), np.diff(world.change_offsets))
    moments, moment = np.unique(world.changes, return_inverse=True)
    told = stream.random(len(pages)) < how.recall
    seen = (moments + stream.uniform(0.0, how.late, len(moments)))[moment]
    lived = world.died - world.born
    rate = np.diff(world.change_offsets) / np.maximum(lived, LIMITS.poll)
    nu = how.recall * rate * (1.0 - how.precision) / how.precision
    false = np.repeat(np.arange(world.population.pages), stream.poisson(nu * lived))
    at = stream.uniform(world.born[false], world.died[false])
    population = replace(world.population, delta=rate, lam=np.full(len(rate), how.recall), nu=nu)
    return _signalled(
        replace(world, population=population), np.concatenate([seen[told], at]), np.concatenate([pages[told], false])
    )


def name_at_random(world: World, daily: float, stream: np.random.Generator, half: bool = False) -> World:
    """The world with signals that each name a living page at random, so many a day: their precision is chance.

    With `half` only every second page is named so; the others keep their signals.
    """
    times = np.sort(stream.uniform(0.0, world.horizon, stream.poisson(daily * world.horizon)))
    liars = np.arange(world.population.pages) % 2 == 0 if half else np.ones(world.population.pages, bool)
    named = [np.flatnonzero(liars & (world.born < at) & (world.died > at)) for at in times.tolist()]
    lives = np.array([len(one) > 0 for one in named], bool)
    pages = np.array([one[stream.integers(len(one))] for one in named if len(one)], np.int64)
    kept = ~liars[world.signal_pages]
    p = world.population
    lam, nu = np.where(liars, 0.0, p.lam), np.where(liars, daily / max(liars.sum(), 1), p.nu)
    return _signalled(
        replace(world, population=replace(p, lam=lam, nu=nu)),
        np.concatenate([world.signal_times[kept], times[lives]]),
        np.concatenate([world.signal_pages[kept], pages]),
    )


def _signalled(world: World, seen: Floats, pages: Ints) -> World:
    """The world with these signals, those that are seen while their page lives."""
    inside = np.flatnonzero((seen < world.died[pages]) & (seen > world.born[pages]) & (seen < world.horizon))
    order = inside[np.lexsort((pages[inside], seen[inside]))]
    listed = np.ones(world.population.pages, bool)
    return replace(
        world,
        signal_times=seen[order],
        signal_pages=pages[order],
        signal_claims=None,
        signal_spans=None,
        listed=listed,
    )


@dataclass(frozen=True, slots=True)
class SiteStyle:
    """The style of one host's pages."""

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
    kinds = cycle(Sitemap) if sitemap is None else cycle([sitemap])
    styles = []
    for host, (size, kind) in enumerate(zip(np.diff(ends, prepend=0), islice(kinds, hosts), strict=True)):
        stream = page_stream(key, host, Stream.HOSTS)
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
        stream = np.random.Generator(np.random.Philox(key=[key, host], counter=[0, 0, 1, Stream.HOSTS]))
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
    """Gives all pages of a world the same importance."""
    return replace(world, population=replace(world.population, mu=np.ones(world.population.pages)))


def _population(changes: Sequence[Floats], days: float, key: int, *, zipf: bool) -> Population:
    pages = len(changes)
    nothing = np.zeros(pages)
    ranks = np.random.Generator(np.random.Philox(key=[key, pages], counter=[0, 0, 2, Stream.HOSTS])).permutation(pages)
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
    hours = np.arange(int(np.ceil(days / 7.0)) * 7 * 24)
    busy = np.where(hours // 24 % 7 < 5, 1.0, LIMITS.weekend) * (
        1.0 - LIMITS.rhythm * np.cos(2 * np.pi * (hours % 24) / 24)
    )
    passed = np.concatenate([[0.0], np.cumsum(busy)])
    whole = hours.size / 24
    return np.interp(even, passed / passed[-1] * whole, np.arange(hours.size + 1) / 24)
