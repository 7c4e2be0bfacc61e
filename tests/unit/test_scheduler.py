"""The facade: pages by id, held while they are out, signals counted once."""

from dataclasses import replace

import numpy as np
import pytest

from crawld.choose.frontier import Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import LIMITS, Arrivals, Scheduler
from crawld.model.estimate import AgeCurve, Estimate
from crawld.model.signal import SOURCES
from tests.support.rising_values import Linear
from tests.support.store_builders import by_source


def scheduler(pages: int, *, last: float = np.nan, kappa: float = 0.0) -> Scheduler:
    """Pages 100, 101, … with importance 1, 2, … on host 0."""
    made = Scheduler(Scan(Linear(), intervals=Intervals(longest=1e9, shortest=0.0)), assumed=(0.1, 1.0))
    made.add(
        Arrivals(
            ids=np.arange(100, 100 + pages),
            hosts=np.zeros(pages, dtype=np.int64),
            importance=np.arange(1.0, 1.0 + pages),
            last=np.full(pages, last),
            kappa=np.full((pages, len(SOURCES)), kappa),
        )
    )
    return made


def test_pages_never_crawled_come_first_by_importance_and_a_picked_page_is_held() -> None:
    """Each page is picked once until it is given back."""
    made = scheduler(3)
    assert [made.pick(0.0) for _ in range(4)] == [102, 101, 100, None]
    made.release(101)
    assert made.pick(0.0) == 101


def test_settling_makes_a_page_fresh() -> None:
    """A crawled page is fresh at that moment and less so later; one never crawled is not fresh at all."""
    made = scheduler(2)
    assert made.predicted_freshness(0.0) == 0.0
    page = made.pick(5.0)
    assert page == 101
    made.settle(page, 5.0)
    assert made.freshness_of(101, 5.0) == 1.0
    assert made.freshness_of(101, 15.0) == pytest.approx(0.5)
    assert made.predicted_freshness(5.0) == pytest.approx(2 / 3)


def test_signals_raise_staleness_and_are_used_up_by_a_crawl() -> None:
    """A signal adds κ; those seen before the pick are gone after it, those seen since still count."""
    made = scheduler(2, last=0.0, kappa=2.0)
    made.notice(100)
    assert made.freshness_of(100, 0.0) == pytest.approx(np.exp(-2))
    assert made.pick(0.1) == 100
    made.notice(100)
    made.settle(100, 0.1)
    standing = made.standing(100)
    assert standing is not None
    assert standing.signals == by_source(sitemap=1)
    assert made.value_of(100, 0.1) == pytest.approx(2.0)


def test_signals_seen_while_a_page_is_out_count_when_it_comes_back_as_it_was() -> None:
    """A failed attempt loses no signal."""
    made = scheduler(1, last=0.0, kappa=2.0)
    assert made.pick(0.1) == 100
    made.notice(100)
    made.release(100)
    assert made.value_of(100, 0.0) == pytest.approx(2.0)


def test_ids_far_apart_find_their_rows_and_lose_them() -> None:
    """Whatever numbers the store gives, a page is found by its own."""
    made = Scheduler(Scan(Linear()))
    ids = np.array([0, 1, 1023, 1024, 5_000_000_000, 7])
    made.add(Arrivals(ids, np.zeros(6, dtype=np.int64), np.ones(6), np.arange(6.0)))
    assert [made.last_success(int(page)) for page in ids] == list(range(6))
    made.retire([1024, 99])
    assert len(made) == 5
    assert (1024 in made, 1025 in made, 5_000_000_000 in made) == (False, False, True)
    assert np.isnan(made.last_success(1024))


def test_new_estimates_count_the_signals_anew() -> None:
    """A signal seen while κ was 0 counts with the κ learnt since."""
    made = scheduler(1, last=0.0)
    made.notice(100)
    assert made.value_of(100, 0.0) == 0.0
    made.learn([Estimate(100, 1.0, shape=2.0, rate=10.0, kappa=by_source(sitemap=3.0), gamma=by_source(sitemap=0.1))])
    assert made.value_of(100, 0.0) == pytest.approx(3.0)
    assert made.value_of(100, 10.0) == pytest.approx(5.0)


def test_a_page_retired_while_it_is_out_leaves_when_it_is_given_back() -> None:
    """Its row serves another page afterwards."""
    made = scheduler(1)
    page = made.pick(0.0)
    assert page == 100
    made.retire([100])
    assert len(made) == 0
    made.settle(100, 1.0)
    assert made.pick(1e6) is None
    made.add(Arrivals(np.array([7]), np.array([0]), np.array([1.0]), np.array([np.nan])))
    assert made.pick(1e6) == 7


def test_a_page_may_be_told_to_wait_after_it_was_settled() -> None:
    """A page that is gone is known, and yet not asked again before its time."""
    made = scheduler(1)
    assert made.pick(0.0) == 100
    made.settle(100, 0.0, not_before=50.0)
    assert made.pick(49.0) is None
    assert made.pick(50.0) == 100


def test_audits_draw_pages_by_importance() -> None:
    """Page i is drawn as often as its share of the importance."""
    made = scheduler(3, last=0.0)
    drawn = [made.draw(u) for u in np.linspace(0, 1, 601)[:-1]]
    assert [drawn.count(page) for page in (100, 101, 102)] == [100, 200, 300]


def test_several_sources_are_merged_into_one_that_keeps_change_rate_and_drift() -> None:
    """The merged source has the same γ(1 − e^−κ) and γκ; a single useful source is kept as it is."""
    made = scheduler(2, last=0.0)
    kappa = np.array([by_source(sitemap=0.5, feed=2.0), by_source(feed=1.5)])
    gamma = np.array([by_source(sitemap=0.3, feed=0.1, ping=0.4), by_source(sitemap=0.2, feed=0.1)])
    made.teach([100, 101], alpha=np.array([0.1, 0.1]), shape=np.array([1.0, 1.0]), kappa=kappa, gamma=gamma)
    chooser = made.chooser
    assert isinstance(chooser, Scan)
    believed = chooser.pages.beliefs(np.array([0, 1]))
    true = (gamma * -np.expm1(-kappa)).sum(axis=1)
    assert believed.gamma * -np.expm1(-believed.kappa) == pytest.approx(true, rel=1e-9)
    assert believed.gamma * believed.kappa == pytest.approx((gamma * kappa).sum(axis=1), rel=1e-9)
    assert (believed.kappa[1], believed.gamma[1]) == (1.5, 0.1)


def test_one_page_and_all_pages_are_as_fresh_by_either_way() -> None:
    """The freshness of a page is the same asked alone and in the mean over all."""
    made = scheduler(3, last=0.0, kappa=0.3)
    made.notice(101)
    weights = np.array([1.0, 2.0, 3.0])
    slow = AgeCurve.of(-100.0, 10.0, [-8.0] * 15 + [0.0] * 50)
    for curve in (None, slow):
        made.set_age_curve(0, curve)
        alone = np.array([made.freshness_of(page, 12.0) for page in (100, 101, 102)])
        mean = float((weights * alone).sum() / weights.sum())
        assert made.predicted_freshness(12.0) == pytest.approx(mean, rel=1e-12)
        assert alone[2] == pytest.approx(1 / (1 + 0.1 * (12.0 if curve is None else 4.0)))


def test_many_pages_are_as_fresh_as_each_alone() -> None:
    """The freshness of all pages is looked at in parts, and every part ends up in its place."""
    made = scheduler(2 * LIMITS.aged_at_once + 10, last=0.0, kappa=0.3)
    some = [100, 99 + LIMITS.aged_at_once, 100 + LIMITS.aged_at_once, 109 + 2 * LIMITS.aged_at_once]
    for page in some:
        made.notice(page)
    ids, fresh, _ = made.freshness_of_all(12.0)
    assert len(fresh) == len(made)
    assert ids[np.flatnonzero(fresh < fresh.max())].tolist() == some
    assert fresh[np.isin(ids, some)] == pytest.approx([made.freshness_of(page, 12.0) for page in some])


def test_what_was_learnt_of_ages_moves_values_and_not_the_copy() -> None:
    """A shift makes a page worth more; how fresh its copy is goes by the age curve of its host alone."""
    made = scheduler(1, last=0.0)
    before = made.freshness_of(100, 12.0), made.value_of(100, 12.0)
    made.shift([100], np.array([0.0]), np.array([-50.0]))
    assert made.freshness_of(100, 12.0) == before[0]
    assert made.value_of(100, 12.0) > before[1]


def test_a_value_is_the_mean_of_hearing_and_deaf() -> None:
    """Value and freshness of a page are those of both beliefs, each with its weight; the frontier picks by them."""
    made = Scheduler(Scan(GreedyNcis(), intervals=Intervals(longest=1e9, shortest=0.0)))
    pages = np.arange(100, 103)
    made.add(Arrivals(ids=pages, hosts=np.zeros(3, np.int64), importance=np.ones(3), last=np.zeros(3)))
    kappa, gamma = (2.0, *(0.0,) * 5), (0.1, *(0.0,) * 5)
    deaf = Estimate(101, 1.0, shape=2.0, rate=20.0)
    hearing = Estimate(100, 1.0, shape=4.0, rate=100.0, kappa=kappa, gamma=gamma)
    both = replace(hearing, page_id=102, heard=0.3, deaf_alpha=0.1, deaf_shape=2.0)
    made.learn([hearing, deaf, both])
    for _ in range(2):
        for ask in (made.value_of, made.freshness_of):
            heard, alone, mixed = (ask(page, 12.0) for page in pages.tolist())
            assert mixed == pytest.approx(0.3 * heard + 0.7 * alone)
        assert made.freshness_of_all(12.0)[1] == pytest.approx([made.freshness_of(p, 12.0) for p in pages.tolist()])
        for page in pages.tolist():
            made.notice(page, 0)


def test_some_waiting_pages_are_those_that_could_be_asked() -> None:
    """Pages whose own wait is over come alone; where all wait, any of them do; held ones never."""
    made = Scheduler(Scan(Linear(), intervals=Intervals(longest=1e9, shortest=60.0)))
    last = np.array([0.0, 0.0, 100.0, np.nan])
    made.add(Arrivals(np.arange(4), np.zeros(4, dtype=np.int64), np.ones(4), last))
    assert made.some_waiting(70.0, 10) == [0, 1, 3]
    assert made.some_waiting(70.0, 2) == [0, 3]
    assert made.pick(30.0) == 3
    assert made.some_waiting(30.0, 10) == [0, 1, 2]


def test_a_visit_of_several_requests_is_worth_less() -> None:
    """Its page is valued per request, estimates or not, and regains its value when visits cost one request again."""
    made = scheduler(2, last=0.0)
    before = made.value_of(101, 5.0)
    for _ in range(20):
        made.charge(101, 4)
    assert made.value_of(101, 5.0) == pytest.approx(before / 4, rel=0.01)
    assert made.pick(5.0) == 100
    standing = made.standing(101)
    assert standing is not None
    assert standing.importance == 2.0
    made.reweight([101], np.array([4.0]))
    assert made.value_of(101, 5.0) == pytest.approx(before / 2, rel=0.01)
    for _ in range(20):
        made.charge(101, 1)
    assert made.cost_of(101) == 1.0
    assert made.value_of(101, 5.0) == pytest.approx(2 * before)


def test_a_change_counts_by_its_significance_and_freshness_does_not() -> None:
    """A page whose changes are three times the usual is worth three times as much, whatever its visits cost."""
    made = scheduler(2, last=0.0)
    before = made.value_of(100, 5.0)
    made.signify([100, 999], np.array([3.0, 5.0]))
    assert made.value_of(100, 5.0) == pytest.approx(3 * before)
    assert (made.weight_of(100), made.cost_of(100)) == (3.0, 1.0)
    assert made.freshness_of_all(5.0)[2].tolist() == [1.0, 2.0]
    assert made.pick(5.0) == 100
    made.release(100)
    for _ in range(20):
        made.charge(100, 2)
    made.reweight([100], np.array([4.0]))
    assert made.value_of(100, 5.0) == pytest.approx(6 * before, rel=0.01)
    made.signify([100], np.array([1.0]))
    assert made.value_of(100, 5.0) == pytest.approx(2 * before, rel=0.01)
    assert made.cost_of(100) == pytest.approx(2.0, rel=0.01)


def test_an_alias_weighs_nothing_and_its_page_what_the_heavier_weighs() -> None:
    """Freshness, audits and counts know the page alone, with the largest importance; split, both weigh as before."""
    made = scheduler(2, last=0.0)
    made.merge(101, 100)
    assert (made.documents, made.alias_of(101), list(made.aliases_of(100))) == (1, 100, [101])
    assert {made.draw(uniform) for uniform in (0.0, 0.3, 0.6, 0.99)} == {100}
    standing = made.standing(100)
    assert standing is not None
    assert standing.importance == 2.0
    assert made.importance_of([100, 101]).tolist() == [1.0, 2.0]
    made.reweight([101, 100], np.array([7.0, 3.0]))
    _, _, weights = made.freshness_of_all(0.0)
    assert weights.tolist() == [7.0, 0.0]
    made.charge(101, 3)
    assert made.pick(1.0) in {100, 101}
    made.split(101)
    _, _, weights = made.freshness_of_all(0.0)
    assert (weights.tolist(), made.documents) == ([3.0, 7.0], 2)


def test_a_page_that_comes_after_its_alias_weighs_what_the_heavier_weighs() -> None:
    """An alias may be known before the page it stands for is here, as when pages come in parts."""
    made = scheduler(2, last=0.0)
    made.merge(101, 500)
    added = np.array([500])
    made.add(Arrivals(ids=added, hosts=np.array([0]), importance=np.array([0.5]), last=np.array([0.0])))
    standing = made.standing(500)
    assert standing is not None
    assert standing.importance == 2.0
