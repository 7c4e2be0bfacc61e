"""Pages a second that the daemon's learner re-estimates from a real SQLite file."""

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawld.crawl.learner import Learner
from crawld.model.clock import SystemClock
from crawld.model.crawl import Crawl, Verdict
from crawld.model.estimate import AgeCurve, Estimate, Floats
from crawld.model.page import PageState, Wanted
from crawld.model.signal import SOURCES
from crawld.store.batch import Record
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class LearningStoreLimits:
    """Numbers of this benchmark."""

    crawls: int = 20
    hosts: int = 100
    day: float = 86400.0


LIMITS = LearningStoreLimits()


class NullSink:
    """Takes over nothing: only the learner is measured."""

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Forget them."""

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Forget them too."""

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """And these."""

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """And this."""


def pages_per_second(pages: int) -> tuple[float, str]:
    """Pages per second of processor time over a full pass, reading, fitting and saving; and what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(f"sqlite:///{Path(folder) / 'crawld.db'}", pages))


async def _measure(url: str, pages: int) -> tuple[float, str]:
    store = SqlStore(url)
    await store.start()
    now = time.time()
    await _fill(store, pages, now)
    learner = Learner(store, NullSink(), SystemClock())
    start, fitted = time.process_time(), 0
    while fitted < pages:
        fitted += await learner.learn()
    seconds = time.process_time() - start
    await store.close()
    return (
        fitted / seconds,
        f"{pages} pages of {LIMITS.hosts} hosts with {LIMITS.crawls} crawls each, {seconds:.2f} s of one core",
    )


async def _fill(store: SqlStore, pages: int, now: float) -> None:
    """Pages crawled daily, half of them with a sitemap that announces some changes."""
    rng = np.random.default_rng(1)
    wanted = [Wanted(f"https://h{page % LIMITS.hosts}.example/{page}") for page in range(pages)]
    added = (await store.adopt(wanted, origin="benchmark", now=now)).added
    changed = rng.random((pages, LIMITS.crawls)) < rng.uniform(0.02, 0.8, pages)[:, None]
    signals = (changed & (rng.random((pages, LIMITS.crawls)) < 0.5)) | (rng.random((pages, LIMITS.crawls)) < 0.1)
    start = now - (LIMITS.crawls + 1) * LIMITS.day
    for number, page in enumerate(added):
        store.record(Record(Crawl(page.id, start, Verdict.NEW), PageState.LIVE))
        for crawl in range(LIMITS.crawls):
            verdict = Verdict.CHANGED if changed[number, crawl] else Verdict.UNCHANGED
            heard = (int(signals[number, crawl]), *(0,) * (len(SOURCES) - 1))
            at = start + (crawl + 1) * LIMITS.day
            store.record(Record(Crawl(page.id, at, verdict, tau=LIMITS.day, signals=heard), PageState.LIVE))
        if number % 100 == 0:
            await store.flush()
    await store.flush()
