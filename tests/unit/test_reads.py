"""Reading through in virtual time: the real crawler, scheduler and bids with known rates and readers at random."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from crawld.crawl.reads import ReadRate, Reads
from crawld.model.fetched import Fetched, Outcome, Request
from crawld.model.signal import SOURCES
from tests.support.virtual_web import Crawling, Web, in_virtual_time, page_url

PAGES, CHANGES, WAIT_SLOTS = 60, 6.0, 3.0


@dataclass
class Living:
    """Pages that change at random, the copy of each that was served last, and readers who want it."""

    rates: np.ndarray
    seconds: float
    rng: np.random.Generator
    insists: float | None
    changes: list[np.ndarray] = field(init=False)
    held: dict[int, int] = field(default_factory=dict)
    fresh: list[bool] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changes = [
            np.cumsum(self.rng.exponential(1 / rate, size=int(3 * rate * self.seconds) + 20)) for rate in self.rates
        ]

    def version(self, page: int) -> int:
        """The version of a page now."""
        return int(self.changes[page].searchsorted(asyncio.get_running_loop().time()))

    def answer(self, request: Request) -> Outcome:
        """A page as it is now; there is no robots.txt."""
        if request.url.endswith("robots.txt"):
            return Fetched(request.url, 404, b"", duration=0.001)
        page = int(request.url.rpartition("/")[2])
        self.held[page] = version = self.version(page)
        return Fetched(request.url, 200, b"<p>This is version %d.</p>" % version, duration=0.001)

    async def read(self, reads: Reads, page: int, wait: float) -> None:
        """One reader."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await reads.freshen(page_url(page), self.insists, wait)
        self.waits.append(loop.time() - began)
        self.fresh.append(self.held.get(page) == self.version(page))


def trial(mode: str, budget: float, reads_per_change: float = 1.0, seconds: float = 240.0) -> Living:
    """Readers of one kind of daemon, with so many requests per change."""
    rng = np.random.default_rng(7)
    rates = rng.uniform(0, 1, PAGES)
    rates *= CHANGES / rates.sum()
    living = Living(rates, seconds, rng, 1.0 if mode == "through" else None)

    async def course() -> None:
        policy = "on-demand" if mode == "through" else "greedy"
        web = Web(living.answer)
        rate = budget * CHANGES
        async with Crawling(
            web, PAGES, rate=rate, per_host=50, shortest=0.01, spacing=0.0, policy=policy, read_share=1.0
        ) as crawling:
            nothing = np.zeros((PAGES, len(SOURCES)))
            ids = np.arange(PAGES)
            known = np.full(PAGES, np.inf)
            crawling.scheduler.teach(ids.tolist(), alpha=rates, shape=known, kappa=nothing, gamma=nothing)
            await asyncio.sleep(PAGES / rate + 1)
            reads, readers = Reads(crawling.crawler, by_requests=False, in_reads=True), []
            while asyncio.get_running_loop().time() < seconds:
                await asyncio.sleep(rng.exponential(1 / (reads_per_change * CHANGES)))
                wait = 0.0 if mode == "proactive" else WAIT_SLOTS / rate
                readers.append(asyncio.create_task(living.read(reads, int(rng.integers(PAGES)), wait)))
            await asyncio.gather(*readers)
            asked = len(web.asked)
            assert asked <= rate * asyncio.get_running_loop().time() + 1

    in_virtual_time(course())
    return living


@pytest.mark.parametrize(("budget", "least"), [(0.2, 0.45), (0.5, 0.78), (1.0, 0.92)])
def test_weighing_reads_against_crawl_values_beats_either_alone(budget: float, least: float) -> None:
    """At one read per change more reads are fresh than with proactive crawling or fetching on reads alone."""
    shares = {mode: float(np.mean(trial(mode, budget).fresh)) for mode in ("proactive", "through", "both")}
    assert shares["both"] >= max(shares["proactive"] + 0.02, shares["through"] + 0.02, least)


def test_the_rate_of_reads_follows_the_last_hour() -> None:
    """Reads count less as they age; at a steady pace the rate is that pace, and half of them may be fetched."""
    rate = ReadRate(0.0)
    for second in range(1, 7200):
        rate.count(float(second))
        if second % 2:
            rate.fetched()
    assert rate.per_second == pytest.approx(1.0, rel=0.01)
    assert rate.copied == pytest.approx(0.5, rel=0.01)
    rate.count(7200 + 36_000.0)
    assert rate.per_second < 0.3
