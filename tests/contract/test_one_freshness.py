"""One freshness: what the scheduler believes in memory is what the views say, page by page and in sum."""

import math
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from crawld.choose.frontier import Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.host_gate import HostGate
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import Scheduler
from crawld.crawl.learner import Learner
from crawld.model.crawl import Crawl, Verdict
from crawld.model.estimate import AgeCurve, Estimate, Floats
from crawld.model.page import PageState, Wanted
from crawld.model.signal import SOURCES, Signal
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.signals.poll_signals import PageIndex
from crawld.store.batch import Record
from crawld.store.report import Reader
from crawld.store.settings import StoredDemand
from crawld.store.store import SqlStore
from tests.support.store_builders import by_source, rows

HOUR = 3600.0
CLOSE = 1e-6


class Kept:
    """A scheduler and a store that are told the same, as the daemon tells them."""

    def __init__(self, url: str, now: float, store: SqlStore | None = None) -> None:
        self.url, self.time = url, now
        self.store = store or SqlStore(url)
        self.gate = HostGate()
        self.pages = Pages()
        chooser = Scan(GreedyNcis(), intervals=Intervals(longest=1e9, shortest=0.0))
        self.scheduler = Scheduler(chooser)
        self.page_set = PageSet(self.store, self.pages, self.scheduler, self.gate, PageIndex())
        self.learner = Learner(self.store, self, self)

    def now(self) -> float:
        """The time it was set to."""
        return self.time

    def monotonic(self) -> float:
        """The same."""
        return self.time

    async def sleep_until(self, monotonic: float) -> None:
        """Jump there."""
        self.time = monotonic

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Hand estimates on."""
        self.scheduler.learn(estimates)

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Hand shifts on."""
        self.scheduler.shift(page_ids, last, since)

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Hand age curves on."""
        for host, curve in curves.items():
            self.scheduler.set_age_curve(self.gate.host(host), curve)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Hand it on."""
        self.scheduler.signify(page_ids, significance)

    def crawl(self, page_id: int, verdict: Verdict, state: PageState) -> None:
        """A crawl that ends now."""
        last = self.scheduler.last_success(page_id)
        assert self.scheduler.hold(page_id, self.time)
        tau = None if math.isnan(last) else self.time - last
        if not verdict.succeeded:
            self.store.record(Record(Crawl(page_id, self.time, verdict), state))
            self.scheduler.release(page_id, self.time)
            return
        crawl = Crawl(page_id, self.time, verdict, tau=tau, signals=self.scheduler.heard(page_id))
        self.store.record(Record(crawl, state))
        self.scheduler.settle(page_id, self.time, gone=state is PageState.GONE)

    def signal(self, page_id: int, source: int) -> None:
        """A signal seen now."""
        self.store.record_signals([Signal(page_id, SOURCES[source], self.time)])
        self.scheduler.notice(page_id, source)


@pytest.fixture
async def kept(store_url: str) -> AsyncIterator[Kept]:
    """Pages of three hosts, none crawled yet, three days ago."""
    made = Kept(store_url, time.time() - 72 * HOUR)
    await made.store.start()
    wanted = [Wanted(f"https://{host}.example/{i}", 1.0 + i % 3) for host in "abc" for i in range(12)]
    await made.page_set.adopt(wanted, origin="list", now=made.time)
    yield made
    await made.store.close()


async def live(kept: Kept, rng: random.Random, hours: int) -> None:
    """Hours of crawls and signals, with learning every fourth; hosts change in bursts; page 36 is never crawled."""
    gone: set[int] = set()
    for hour in range(hours):
        kept.time += HOUR
        for page_id in rng.sample(range(1, 36), 12):
            if page_id not in kept.scheduler:
                continue
            first = math.isnan(kept.scheduler.last_success(page_id))
            dies, fails, changes = rng.random() < 0.1, rng.random() < 0.1, page_id <= 12 and hour % 20 < 3
            if fails:
                kept.crawl(page_id, Verdict.FAILED, PageState.FAILING)
            elif dies and page_id not in gone:
                gone.add(page_id)
                kept.crawl(page_id, Verdict.GONE, PageState.GONE)
            elif page_id in gone and rng.random() < 0.7:
                kept.crawl(page_id, Verdict.UNCHANGED, PageState.GONE)
            else:
                back = page_id in gone
                gone.discard(page_id)
                verdict = Verdict.NEW if first else Verdict.CHANGED if changes or back else Verdict.UNCHANGED
                kept.crawl(page_id, verdict, PageState.LIVE)
        for page_id in rng.sample(range(1, 37), 3):
            if page_id in kept.scheduler:
                kept.signal(page_id, rng.randrange(len(SOURCES)))
        await kept.store.flush()
        while (hours - hour) % 4 == 1 and await kept.learner.learn():
            pass


async def compare(kept: Kept) -> dict[str, float]:
    """Every figure of the database against the scheduler's, which is asked before and after; the freshness by URL."""
    await kept.store.flush()
    before = time.time()
    async with Reader(kept.url) as reader:
        stats = [row for row in await reader.page_stats() if row.state != "retired"]
        figures: dict[str, Any] = {row.url: row.freshness for row in stats}
        figures |= {row.host: row.freshness or 0.0 for row in await reader.host_stats()}
        figures["all"] = (await reader.overall()).freshness or 0.0
    query = "SELECT sum(weight * freshness) / sum(weight) FROM page_stats WHERE state <> 'retired'"
    ((figures["queried"],),) = await rows(kept.url, query)
    high, low = held(kept, before), held(kept, time.time())
    assert figures.keys() == high.keys()
    wrong = {name: seen for name, seen in figures.items() if not low[name] - CLOSE <= seen <= high[name] + CLOSE}
    assert wrong == {}
    return {page.url: low[page.url] for page in kept.pages}


def held(kept: Kept, now: float) -> dict[str, float]:
    """The scheduler's figures: by URL, by host, and of all."""
    pages, scheduler = list(kept.pages), kept.scheduler
    fresh = {page.url: scheduler.freshness_of(page.id, now) for page in pages}
    weight = {page.url: float(scheduler.importance_of([page.id])[0]) for page in pages}
    found = dict(fresh)
    for host in {page.host for page in pages}:
        urls = [page.url for page in pages if page.host == host]
        found[host] = sum(weight[url] * fresh[url] for url in urls) / sum(weight[url] for url in urls)
    found["all"] = found["queried"] = scheduler.predicted_freshness(now) or 0.0
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_views_say_what_the_scheduler_believes(kept: Kept, seed: int) -> None:
    """After crawls, signals, learning, gone pages and failures, memory, views and sums agree, also after a restart."""
    rng = random.Random(seed)
    await live(kept, rng, 60)
    kept.time = time.time() - 60.0
    for page_id in range(1, 6):  # these have pending signals or are crawled but not learnt yet
        kept.signal(page_id, 0)
        kept.crawl(page_id + 20, Verdict.UNCHANGED, PageState.LIVE)
    fresh = await compare(kept)
    assert fresh["https://c.example/11"] == 0.0
    assert len({round(fresh, 6) for fresh in fresh.values()}) > 12  # pages of a host may go by one rate
    curves = await kept.store.age_curves()
    assert any(abs(seconds) > HOUR for curve in curves.values() for seconds in curve.extra)

    again = Kept(kept.url, time.time(), kept.store)
    await again.page_set.restore(again.time)
    assert await compare(again) == pytest.approx(fresh, abs=1e-4)
    again.crawl(1, Verdict.UNCHANGED, PageState.LIVE)
    again.crawl(30, Verdict.GONE, PageState.GONE)
    await again.store.flush()
    await again.learner.learn()
    await compare(again)
    assert await again.store.age_curves() == curves  # too little was learnt again to draw better ones


async def test_pages_come_back_as_fresh_as_they_are(kept: Kept) -> None:
    """Pages taken off the list and put on again, with new weights, are the same in memory and in the views."""
    await live(kept, random.Random(3), 30)
    urls = [page.url for page in list(kept.pages)[::3]]
    await kept.page_set.retire(urls, now=kept.time)
    await compare(kept)
    await kept.page_set.adopt([Wanted(url, 7.0) for url in urls], origin="list", now=kept.time, complete=False)
    await live(kept, random.Random(4), 3)
    fresh = await compare(kept)
    assert max(fresh[url] for url in urls) > 0.0


async def test_a_page_that_is_gone_is_current_and_one_never_fetched_is_not(kept: Kept) -> None:
    """However long ago it was found gone; a signal makes it doubtful once signals have proved true."""
    kept.crawl(1, Verdict.GONE, PageState.GONE)
    kept.crawl(2, Verdict.NEW, PageState.LIVE)
    kept.crawl(3, Verdict.GONE, PageState.GONE)
    estimates = [Estimate(page, kept.time, 1.0, HOUR, kappa=by_source(sitemap=1.0)) for page in (1, 2, 3)]
    await kept.store.flush()
    await kept.store.save_estimates(estimates)
    kept.scheduler.learn(estimates)
    kept.signal(3, 0)
    kept.crawl(1, Verdict.FAILED, PageState.FAILING)  # says nothing new
    fresh = await compare(kept)
    assert [fresh[f"https://a.example/{i}"] for i in range(4)] == pytest.approx(
        [1.0, 1 / 73, math.exp(-1.0), 0.0], rel=1e-3
    )


async def test_weights_by_requests_count_in_the_views(kept: Kept) -> None:
    """Where demand decides what pages weigh, the mean in SQL weighs them the same; a new start begins with the list."""
    await live(kept, random.Random(5), 10)
    ids = np.array([1, 2])
    kept.scheduler.reweight([1, 2], np.array([50.0, 90.0]))
    zeros = np.zeros(2)
    await kept.store.save_demand(StoredDemand(ids, zeros, zeros, zeros, np.array([50.0, 90.0])))
    await compare(kept)
    await kept.page_set.adopt([Wanted("https://a.example/0", 4.0)], origin="list", now=kept.time, complete=False)
    await compare(kept)
    await kept.store.forget_weights()
    assert await rows(kept.url, "SELECT count(*) FROM page_stats WHERE weight <> importance") == [(0,)]


async def test_a_copy_from_the_future_is_of_unknown_age(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """After the clock was set back by days nothing is fresh until it is crawled again, and the log warns once."""
    kept.time = time.time() + 72 * HOUR
    for page_id in (1, 2):
        kept.crawl(page_id, Verdict.NEW, PageState.LIVE)
    await kept.store.flush()
    again = Kept(kept.url, time.time(), kept.store)
    await again.page_set.restore(again.time)
    assert len([line for line in caplog.records if "set back" in line.message]) == 1
    assert set((await compare(again)).values()) == {0.0}
    assert not again.scheduler.dated(1, again.time)
    again.crawl(1, Verdict.UNCHANGED, PageState.LIVE)
    fresh = await compare(again)
    assert fresh["https://a.example/0"] == pytest.approx(1.0, abs=1e-3)
    assert fresh["https://a.example/1"] == 0.0
