"""What a bandwidth buys, by what is believed: the papers' optimum, hosts that are too slow, and what is forced."""

import numpy as np
import pytest

from crawld.choose.allocation import optimum_accuracy
from crawld.choose.forecast import Forecast, PartForecast
from crawld.choose.greedy import GreedyNcis
from crawld.choose.page_table import Intervals
from crawld.choose.sample import Believed
from crawld.choose.valuation import Beliefs, Floats
from crawld.show.forecasts import forecast_report

FREE = Intervals(longest=np.inf, shortest=0.0)


def ncis_pages(pages: int, seed: int = 1) -> Beliefs:
    """Pages as Busa-Fekete et al. 2025 draws them, known exactly."""
    rng = np.random.default_rng(seed)
    mu, delta, lam, nu = rng.random(pages), rng.random(pages), rng.beta(0.25, 0.25, pages), rng.uniform(0.1, 0.6, pages)
    gamma = lam * delta + nu
    return Beliefs(mu, (1 - lam) * delta, np.full(pages, np.inf), -np.log(nu / gamma), gamma)


def believed(beliefs: Beliefs, hosts: "np.typing.ArrayLike" = 0) -> Believed:
    """Pages held as they are believed."""
    no = np.zeros(len(beliefs.mu), dtype=np.bool_)
    place = np.broadcast_to(np.asarray(hosts, dtype=np.int64), beliefs.mu.shape)
    return Believed(place, beliefs.mu, beliefs, no, no)


def blind(mu: Floats, alpha: Floats, shape: float = np.inf) -> Beliefs:
    """Pages without signals."""
    nothing = np.zeros_like(mu)
    return Beliefs(mu, alpha, np.full_like(mu, shape), nothing, nothing)


@pytest.mark.parametrize("rate", [12.5, 50.0, 200.0])
def test_known_pages_reach_the_papers_optimum(rate: float) -> None:
    """With known parameters and no limits the forecast is Busa-Fekete et al. 2025 Theorem 1's accuracy."""
    pages = ncis_pages(500)
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE).at(rate)
    best = optimum_accuracy(pages.mu, pages.alpha, pages.kappa, pages.gamma, rate)
    assert point.freshness == pytest.approx(best, abs=0.004)
    assert point.used == pytest.approx(rate)
    assert point.round_robin < point.freshness


def test_more_bandwidth_buys_more_and_gives_fewer_pages_up() -> None:
    """Freshness rises with the rate, the level and the number of pages given up fall."""
    forecast = Forecast(believed(ncis_pages(300)), np.zeros(1), GreedyNcis(), FREE)
    points = [forecast.at(rate) for rate in (5.0, 10.0, 20.0, 40.0, 80.0)]
    assert sorted(point.freshness for point in points) == [point.freshness for point in points]
    assert sorted((point.level for point in points), reverse=True) == [point.level for point in points]
    assert sorted((point.given_up for point in points), reverse=True) == [point.given_up for point in points]
    assert points[0].given_up > points[-1].given_up


def test_the_share_of_pages_is_what_they_get() -> None:
    """Polls and robots.txt leave pages a part of the bandwidth, which is worth as much as that part alone."""
    pages = believed(ncis_pages(200))
    whole, part = (Forecast(pages, np.zeros(1), GreedyNcis(), FREE, share) for share in (1.0, 0.8))
    assert part.at(50.0).freshness == pytest.approx(whole.at(40.0).freshness)
    assert part.at(50.0).used == pytest.approx(40.0)


def test_a_part_of_the_pages_stands_for_all() -> None:
    """A quarter of them, drawn at random, forecasts what all reach, at the rates of all."""
    pages = ncis_pages(4000)
    some = np.arange(0, 4000, 4)
    whole = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE)
    part = PartForecast(Forecast(believed(pages.select(some)), np.zeros(1), GreedyNcis(), FREE), 0.25)
    assert part.pages == whole.pages
    for rate in (100.0, 400.0, 1600.0):
        ours, all_of_them = part.at(rate), whole.at(rate)
        assert ours.bandwidth == rate
        assert ours.used == pytest.approx(rate)
        assert ours.freshness == pytest.approx(all_of_them.freshness, abs=0.02)
        assert ours.round_robin == pytest.approx(all_of_them.round_robin, abs=0.02)
        assert ours.given_up == pytest.approx(all_of_them.given_up, rel=0.1, abs=20)


def test_a_slow_host_has_a_level_of_its_own() -> None:
    """It is asked as often as it allows, its pages are staler, what it leaves goes to the others, and it is named."""
    rng = np.random.default_rng(3)
    pages = blind(rng.random(400), rng.random(400))
    hosts = np.arange(400) % 2
    free = Forecast(believed(pages, hosts), np.zeros(2), GreedyNcis(), FREE).at(40.0)
    bound = Forecast(believed(pages, hosts), np.array([0.0, 0.25]), GreedyNcis(), FREE).at(40.0)
    assert free.limited == ()
    (slow,) = bound.limited
    assert (slow.host, slow.pages) == (1, 200)
    assert slow.allowed == pytest.approx(4.0)
    assert slow.wanted > 4 * slow.allowed
    assert bound.used == pytest.approx(40.0)
    assert slow.freshness < free.freshness
    assert bound.freshness < free.freshness
    assert bound.level < free.level  # the other host has more to spend
    assert free.freshness - bound.freshness < slow.costs < 1


def test_a_host_is_asked_every_whole_slot() -> None:
    """A delay of one and a half slots is two slots."""
    pages = blind(np.ones(50), np.ones(50))
    found = [Forecast(believed(pages), np.array([delay]), GreedyNcis(), FREE).at(1.0) for delay in (1.5, 2.0)]
    assert found[0].used == pytest.approx(0.5)
    assert found[0].freshness == found[1].freshness


def test_a_blocked_host_is_not_asked() -> None:
    """Its pages grow stale; those of the others share the bandwidth."""
    pages = blind(np.ones(100), np.ones(100))
    point = Forecast(
        believed(pages, np.arange(100) % 2), np.array([0.0, np.inf]), GreedyNcis(), Intervals(100.0, 0.01)
    ).at(50.0)
    assert [(host.host, host.allowed, host.freshness) for host in point.limited] == [(1, 0.0, 0.0)]
    assert point.freshness == pytest.approx((1 - np.exp(-1)) / 2, abs=0.01)  # 50 pages, each once a second


def test_the_maximum_interval_comes_first() -> None:
    """Where forced crawls need more than there is, all pages take turns: that is round robin."""
    pages = blind(np.ones(100), np.full(100, 0.1))
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), Intervals(5.0, 0.01)).at(10.0)
    assert point.freshness == pytest.approx(1 - np.exp(-1), abs=1e-3)
    assert point.freshness == point.round_robin
    assert (point.given_up, point.level) == (100, np.inf)


def test_more_bandwidth_than_pages_can_use_is_left() -> None:
    """No page is crawled more often than the minimum interval allows."""
    pages = blind(np.ones(10), np.ones(10))
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), Intervals(1e6, 0.5)).at(1000.0)
    assert point.used == pytest.approx(20.0)
    assert point.level == 0.0
    assert point.freshness == pytest.approx(2 * (1 - np.exp(-0.5)), abs=1e-3)


def test_freshness_goes_by_the_posterior_as_learnt() -> None:
    """At even intervals it is ∫(1+t/b)^−a, and with two beliefs the mean of both."""
    pages = blind(np.ones(50), np.ones(50), shape=2.0)
    pages = pages._replace(heard=np.zeros(50), deaf_alpha=np.ones(50), deaf_shape=np.full(50, 4.0))
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE).at(50.0)
    expected = 4 / 3 * (1 - (1 + 1 / 4) ** -3.0)
    assert point.round_robin == pytest.approx(expected, abs=1e-6)
    assert point.freshness == pytest.approx(expected, abs=2e-3)  # the pages are alike


def test_pages_that_never_change_stay_fresh() -> None:
    """They need no crawl."""
    pages = blind(np.ones(4), np.array([0.0, 0.0, 1.0, 1.0]))
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE).at(2.0)
    assert point.freshness == pytest.approx(0.5 + 0.5 * (1 - np.exp(-1)), abs=2e-3)


def test_a_sample_stands_for_all_pages() -> None:
    """Of 30,000 pages, some important, a third is looked at; the forecast is that of all in several parts."""
    rng = np.random.default_rng(5)
    mu, alpha = rng.pareto(1.5, 30_000) + 0.1, rng.gamma(0.5, 2.0, 30_000) + 1e-6
    pages = blind(mu, alpha, 1.0)
    whole = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE)
    assert whole.sampled < 7_000
    point = whole.at(3000.0)
    parts = [believed(pages.select(np.arange(at, 30_000, 5))) for at in range(5)]
    each = [Forecast(part, np.zeros(1), GreedyNcis(), FREE).at(600.0) for part in parts]
    weights = [float(part.importance.sum()) for part in parts]
    assert point.freshness == pytest.approx(np.average([one.freshness for one in each], weights=weights), abs=0.005)
    assert point.given_up == pytest.approx(sum(one.given_up for one in each), abs=0.02 * 30_000)


def test_pages_out_of_reach_count_as_stale() -> None:
    """A page never fetched that waits after a failure takes no bandwidth and is never fresh."""
    pages = blind(np.ones(20), np.ones(20))
    closed = np.arange(20) < 10
    held = Believed(np.zeros(20, dtype=np.int64), pages.mu, pages, np.zeros(20, dtype=np.bool_), closed)
    point = Forecast(held, np.zeros(1), GreedyNcis(), FREE).at(10.0)
    assert point.freshness == pytest.approx((1 - np.exp(-1)) / 2, abs=2e-3)


def test_the_report_is_data_for_json_with_a_sentence() -> None:
    """It has the rate set, a tenth more and the usual others; infinity and missing pages are null."""
    forecast = Forecast(believed(ncis_pages(100)), np.array([0.5]), GreedyNcis(), Intervals(1000.0, 0.01))
    report = forecast_report(forecast, 10.0, [], lambda host: f"host{host}", 0.5)
    points = report.points
    assert [point.bandwidth for point in points] == pytest.approx([2.5, 5.0, 10.0, 11.0, 20.0, 40.0])
    assert points[2].hosts[0].host == "host0"
    assert report.headline.startswith("50 % of what you care about is current. At 10/s ")
    nothing = Forecast(believed(blind(np.zeros(0), np.zeros(0))), np.zeros(0), GreedyNcis(), FREE)
    empty = forecast_report(nothing, 10.0, [5.0], str, None)
    assert (empty.headline, empty.expected, empty.document()["points"]) == ("There are no pages yet.", None, [])


@pytest.mark.parametrize("rate", [0.05, 1.0, 30.0, 1000.0])
def test_of_equal_pages_none_is_preferred(rate: float) -> None:
    """Where all pages are alike the best is round robin, from starving to more than can be used."""
    pages = blind(np.ones(40), np.full(40, 0.2), shape=1.0)
    point = Forecast(believed(pages), np.zeros(1), GreedyNcis(), Intervals(1e5, 0.01)).at(rate)
    assert point.freshness == pytest.approx(point.round_robin, abs=5e-4)


@pytest.mark.parametrize("rate", [15.0, 60.0])
def test_limits_buy_no_freshness(rate: float) -> None:
    """What the intervals force or forbid costs freshness, where there are signals too."""
    pages = ncis_pages(300)
    free = Forecast(believed(pages), np.zeros(1), GreedyNcis(), FREE).at(rate)
    bound = Forecast(believed(pages), np.zeros(1), GreedyNcis(), Intervals(40.0, 0.05)).at(rate)
    assert free.round_robin < bound.freshness < free.freshness
