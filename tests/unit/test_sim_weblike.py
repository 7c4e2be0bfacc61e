"""Weblike worlds: from a seed, with the statistics that real histories have."""

import numpy as np
import pytest

from crawld.research.weblike import (
    Sitemap,
    SiteStyle,
    WeblikeWorld,
    draw_styles,
    draw_weblike,
    evenly_important,
    weblike,
)

DAYS = 364.0


def _one_host(**style: object) -> WeblikeWorld:
    return draw_weblike([SiteStyle(pages=200, **style)], DAYS, 5)  # type: ignore[arg-type] # fields by name


def _signals_by_change(world: WeblikeWorld) -> float:
    return len(world.signal_times) / len(world.changes)


def _same_instant_share(world: WeblikeWorld) -> float:
    """The share of changes that hit more than a twentieth of the pages at one instant."""
    _, count = np.unique(world.changes, return_counts=True)
    return float(count[count > world.population.pages / 20].sum() / len(world.changes))


def test_a_seed_makes_one_world() -> None:
    """The same key draws the same world, another key another one."""
    one, again, other = weblike(3), weblike(3), weblike(4)
    assert np.array_equal(one.changes, again.changes)
    assert np.array_equal(one.signal_times, again.signal_times)
    assert not np.array_equal(one.changes, other.changes)


def test_changes_are_in_order_and_inside_the_world() -> None:
    """Each page's changes rise, and nothing happens before the start or after the end."""
    world = weblike(1)
    assert all(np.all(np.diff(times) >= 0) for times in world.changes_by_page)
    assert world.changes.min() >= 0
    assert world.changes.max() < world.horizon
    assert np.all(np.diff(world.signal_times) >= 0)
    assert len(world.host_of) == world.population.pages == 300


def test_weekends_and_nights_are_quiet() -> None:
    """Saturday and Sunday carry 16 % of changes; the busiest hours have over twice those of the quietest."""
    world = _one_host(rate=0.3, burst=0.0, mass_every=1e9, drift=0.0)
    assert (np.floor(world.changes) % 7 >= 5).mean() == pytest.approx(0.16, abs=0.02)
    hours = np.bincount((world.changes * 24).astype(int) % 24, minlength=24)
    assert 1.9 < np.sort(hours)[-4:].mean() / np.sort(hours)[:4].mean() < 2.8


def test_some_pages_never_change() -> None:
    """About the share that the style says, at rates at which all others do."""
    world = _one_host(never=0.4, rate=1.0)
    assert (np.diff(world.change_offsets) == 0).mean() == pytest.approx(0.4, abs=0.1)


def test_bursts_make_gaps_irregular() -> None:
    """Where changes follow each other within hours, gaps scatter far more than those of a Poisson process."""

    def scatter(burst: float) -> float:
        world = _one_host(burst=burst, rate=0.2, mass_every=1e9, drift=0.0, spread=0.0)
        gaps = np.concatenate([np.diff(times) for times in world.changes_by_page])
        return float(gaps.std() / gaps.mean())

    assert scatter(0.0) < 1.2
    assert scatter(2.0) > 1.4


def test_mass_events_hit_many_pages_at_one_instant() -> None:
    """Without them no instant has many changes; with them a good part of all changes comes so."""
    assert _same_instant_share(_one_host(mass_every=1e9)) == 0.0
    assert _same_instant_share(_one_host(mass_every=20.0, rate=0.02)) > 0.3


def test_rates_drift() -> None:
    """Pages that were busy in the first half are not the same as in the second, more than chance makes it."""

    def unlike(drift: float) -> float:
        world = _one_host(drift=drift, rate=0.3, burst=0.0, spread=0.0, never=0.0, mass_every=1e9)
        early = np.array([(times < DAYS / 2).sum() for times in world.changes_by_page])
        late = np.diff(world.change_offsets) - early
        return float(np.std(np.log((early + 1) / (late + 1))))

    assert unlike(2.0) > 2 * unlike(0.0)


def test_importance_falls_as_one_over_rank() -> None:
    """The most important page weighs twice the second; evenly important worlds keep all else."""
    world = weblike(2)
    mu = np.sort(world.population.mu)[::-1]
    assert mu[0] == pytest.approx(2 * mu[1])
    assert mu.mean() == pytest.approx(1.0)
    even = evenly_important(world)
    assert np.all(even.population.mu == 1.0)
    assert np.array_equal(even.changes, world.changes)


def test_honest_sitemaps_tell_nearly_every_change() -> None:
    """At the next poll, within the hour; few signals are false."""
    world = _one_host(sitemap=Sitemap.HONEST, burst=0.0, mass_every=1e9)
    assert _signals_by_change(world) == pytest.approx(0.97, abs=0.05)
    assert world.signal_claims is not None
    waited = world.signal_times - world.signal_claims
    assert waited.min() >= 0
    assert waited.max() <= 1 / 24 + 1e-9


def test_builds_stamp_every_page() -> None:
    """Each build signals all pages at once, and changes are published by builds."""
    world = _one_host(sitemap=Sitemap.BUILD)
    seen, count = np.unique(world.signal_times, return_counts=True)
    assert set(count.tolist()) == {200}
    assert len(np.unique(world.changes)) <= len(seen) * 1.2
    assert _signals_by_change(world) > 5


def test_static_and_absent_sitemaps_say_nothing() -> None:
    """No signal ever."""
    assert all(len(_one_host(sitemap=kind).signal_times) == 0 for kind in (Sitemap.STATIC, Sitemap.NONE))


def test_dates_hide_the_second_change_of_a_day() -> None:
    """One signal a page and day at most, which claims that whole day."""
    world = _one_host(sitemap=Sitemap.DATE_ONLY, rate=1.0, burst=2.0)
    assert world.signal_claims is not None
    days = np.column_stack([world.signal_pages, world.signal_claims])
    assert len(np.unique(days, axis=0)) == len(days)
    assert np.all(world.signal_claims % 1.0 == 0)
    assert all(until == first + 1.0 for first, until in world.claims)


def test_late_sitemaps_come_once_a_week() -> None:
    """Signals come at the issues only, and claim changes of the week before."""
    world = _one_host(sitemap=Sitemap.LATE)
    assert world.signal_claims is not None
    assert np.all(world.signal_times % 7.0 == 0)
    assert (world.signal_times - world.signal_claims).mean() > 2.0


def test_styles_share_out_the_pages() -> None:
    """So many pages in all, the first host having the most, and every kind of sitemap."""
    styles = draw_styles(12, 400, 1)
    assert sum(style.pages for style in styles) == 400
    assert styles[0].pages == max(style.pages for style in styles)
    assert {style.sitemap for style in styles} == set(Sitemap)
