"""The value of a poll, in the currency of crawl values, and the account of what signals gained."""

import math

import numpy as np
import pytest
from scipy.special import gammainc

from crawld.choose import policies
from crawld.choose.frontier import Frontier
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.value import inverse_gamma_2, revisit_interval
from crawld.crawl.polls import SignalGains, fresh_seconds
from crawld.model.crawl import Crawl, Verdict
from crawld.model.signal import SOURCES, Signal, SignalGain, Source, bought_in_words
from crawld.signals.schedule import File, Origin, PollSchedule

DAY = 86_400.0


@pytest.mark.parametrize("p", [1e-12, 1e-6, 0.01, 0.3, 0.9, 0.999999])
def test_inverse_of_the_incomplete_gamma_function(p: float) -> None:
    """The inverse of P(2, y) agrees with scipy's P(2, y)."""
    assert gammainc(2, inverse_gamma_2(p)) == pytest.approx(p, rel=1e-6)


def test_a_page_that_is_never_worth_the_level_is_never_revisited() -> None:
    """The value of a crawl without signals is at most μ/Δ."""
    assert math.isinf(revisit_interval(rate=1.0, importance=1.0, level=1.0))
    assert revisit_interval(rate=0.0, importance=1.0, level=0.1) == math.inf
    assert revisit_interval(rate=1e-5, importance=1.0, level=1.0) < 1e5


def polled(gain_a_signal: float, *, signals: int, every: float, polls: int = 40, lead: float = DAY) -> File:
    """A file that brought `signals` true signals at each of its polls, `every` seconds apart."""
    file = File("https://a.org/s", Source.SITEMAP, "a.org", Origin.ROBOTS)
    for poll in range(polls):
        file.succeeded(1_000.0 + poll * every, worth=0.0)
        file.bought(signals * gain_a_signal / lead, signals * gain_a_signal)
    return file


def test_a_poll_is_due_where_its_cost_per_second_is_least() -> None:
    """Polling at intervals T costs Λ/T requests' worth and gLT/2 staleness: the wait balances the two."""
    level, lead, every = 50.0, 30 * DAY, 3_600.0
    file = polled(lead, signals=1, every=every, lead=lead)  # each signal gains a fresh second a second, for a month
    rate = 1.0 / every * 40 / 39  # signals a second: the first poll brought one too
    best = min(np.linspace(60, 20_000, 4_000), key=lambda wait: level / wait + rate * wait / 2)
    assert file.pays_after(level) == pytest.approx(best, rel=0.05)


def test_a_file_without_gain_is_only_explored() -> None:
    """Signals that are not believed gain nothing, and a level of nothing says nothing."""
    file = polled(0.0, signals=3, every=600.0)
    assert math.isinf(file.pays_after(50.0))
    assert math.isinf(polled(DAY, signals=3, every=600.0).pays_after(0.0))


def test_polls_that_pay_come_before_those_that_explore() -> None:
    """Where the share for exploring is spent, only files that pay are offered."""
    schedule = PollSchedule()
    for name, pays in (("a.org", False), ("b.org", True)):
        schedule.add(File(f"https://{name}/s", Source.SITEMAP, name, Origin.GUESS, next_poll=0.0, pays=pays))
    assert [file.host for file in schedule.due(1.0)] == ["b.org", "a.org"]
    assert [file.host for file in schedule.due(1.0, explore=False)] == ["b.org"]


def test_a_file_that_no_longer_pays_is_explored_again() -> None:
    """When a file stops bringing news its polls fade out by themselves."""
    file = polled(DAY, signals=2, every=60.0)
    file.plan_by_value(level=50.0, shortest=15.0)
    assert file.pays
    for poll in range(300):
        file.succeeded(10_000.0 + 600.0 * poll, worth=0.0)
        file.plan_by_value(level=50.0, shortest=15.0)
    assert not file.pays


class Account:
    """Takes what would be stored."""

    def __init__(self) -> None:
        self.gains: list[SignalGain] = []

    def record_signal_gain(self, gain: SignalGain) -> None:
        """Keep it."""
        self.gains.append(gain)


def scheduled(kappa: float) -> Scheduler:
    """Twenty pages, crawled at different times, picked at some level."""
    scheduler = Scheduler(Frontier(policies.choose("greedy-ncis").valuation()))  # type: ignore[misc]  # it has one
    size, sources = 20, len(SOURCES)
    column = np.zeros((size, sources))
    kappas, gammas = column.copy(), column.copy()
    kappas[:, 0], gammas[:, 0] = kappa, 1e-5
    ids = np.arange(1, size + 1)
    scheduler.add(
        Arrivals(ids, np.zeros(size, np.int64), np.ones(size), -np.linspace(0.0, DAY, size), None,
                 np.full(size, 1e-6), np.full(size, np.inf), kappas, gammas)
    )  # fmt: skip
    page = scheduler.pick(0.0)
    assert page is not None
    scheduler.settle(page, 0.0)
    return scheduler


def test_a_believed_signal_gains_the_time_until_the_page_would_have_been_crawled() -> None:
    """A confirmed signal is credited with the time it came sooner; one in vain costs a part of a visit."""
    scheduler, account = scheduled(kappa=3.0), Account()
    gains = SignalGains(scheduler, account)  # type: ignore[arg-type]  # all that it needs of a store
    expected = gains.notice([Signal(1, Source.SITEMAP, 0.0), Signal(2, Source.SITEMAP, 0.0)], 0.0)
    assert 1.5 < expected.staleness < 2.0
    assert expected.gain > 0
    gains.settle("a.org", Crawl(1, 10.0, Verdict.CHANGED), last=0.0)
    gains.settle("a.org", Crawl(2, 10.0, Verdict.UNCHANGED), last=0.0)
    gains.settle("a.org", Crawl(3, 10.0, Verdict.CHANGED), last=0.0)
    right, vain = account.gains
    rate, level = scheduler.change_rate_of(1), scheduler.chooser.level
    lead = revisit_interval(rate, 1.0, level) - 10.0
    assert right.gain == pytest.approx(fresh_seconds(rate, lead))
    assert right.saved == pytest.approx(right.gain / level - lead / (lead + 10.0))
    assert (vain.confirmed, vain.in_vain, vain.gain) == (0, 1, 0.0)
    assert -1.0 <= vain.saved < 0


def test_an_unbelieved_signal_gains_nothing() -> None:
    """A signal that raises no staleness is counted and leaves no mark in any account."""
    account = Account()
    gains = SignalGains(scheduled(kappa=0.0), account)  # type: ignore[arg-type]  # all that it needs of a store
    assert gains.notice([Signal(1, Source.SITEMAP, 0.0)], 0.0).gain == 0.0
    gains.settle("a.org", Crawl(1, 10.0, Verdict.CHANGED), last=0.0)
    assert account.gains == []


def test_what_a_source_bought_is_told_in_words() -> None:
    """A source that costs more than it brings says so."""
    assert bought_in_words(0, -3.0, 0.0) == "nothing yet"
    assert bought_in_words(9, 340.2, 0.04) == "saved 340 requests, +0.040 freshness"
    assert bought_in_words(9, -1.2, None) == "cost 1 request"


def test_files_that_bring_news_go_before_exploring_ones() -> None:
    """A named file is preferred at once, one that pays always, one that mostly brings news for its first polls."""

    def preferred(origin: Origin, **state: int) -> bool:
        return File("https://a.org/s", Source.SITEMAP, "a.org", origin, **state).preferred  # type: ignore[arg-type]

    assert preferred(Origin.ROBOTS)
    assert not preferred(Origin.GUESS)
    assert preferred(Origin.GUESS, polls=10, changes=5)
    assert not preferred(Origin.ROBOTS, polls=10, changes=4)
    assert not preferred(Origin.ROBOTS, polls=100, changes=100)
    assert preferred(Origin.ROBOTS, polls=100, pays=True)
    assert not preferred(Origin.GUESS, polls=1, failures=1)
