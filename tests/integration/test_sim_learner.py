"""The simulator learns by the daemon's own rounds: the same history, through a real store, teaches the very same."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from crawld.crawl.learner import Learner
from crawld.learn.estimate_update import EstimateSink
from crawld.learn.observations import Prior
from crawld.model.crawl import Crawl, Verdict
from crawld.model.estimate import AgeCurve, Estimate, Floats
from crawld.model.page import PageState, Wanted
from crawld.model.signal import SOURCES, Signal
from crawld.model.units import DAY
from crawld.research.engine import simulate
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.weblike import WeblikeWorld, weblike
from crawld.research.world import NO_CLAIM, Claim
from crawld.store.batch import Record
from crawld.store.store import SqlStore
from tests.support.hand_clock import HandClock

PRIOR = Prior(alpha_rate=5 * DAY)
UPDATES = 3


class Transcript:
    """Everything that was taught, update by update, and passed on where there is somebody to learn it."""

    def __init__(self, sink: EstimateSink | None = None) -> None:
        self.estimates: list[list[Estimate]] = []
        self.shifts: list[tuple[list[int], list[float]]] = []
        self.curves: list[list[AgeCurve | None]] = []
        self._sink = sink

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Write them down."""
        self.estimates.append(list(estimates))
        if self._sink:
            self._sink.learn(estimates)

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Write them down too."""
        self.shifts.append((list(page_ids), since.tolist()))
        if self._sink:
            self._sink.shift(page_ids, last, since)

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """And these."""
        self.curves.append(list(curves.values()))
        if self._sink:
            self._sink.set_age_curve(curves)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Nobody asks for it here."""
        raise AssertionError(f"significance of {page_ids}: {significance}")


class Logged(OnlineCrawler):
    """Writes down what happens to it: signals counted, crawls, rounds."""

    def __init__(self, world: WeblikeWorld, bandwidth: float) -> None:
        self.log: list[tuple[str, float, int, tuple[int, ...], bool]] = []
        super().__init__("greedy-ncis", world, bandwidth, OnlineLearning(PRIOR, max_updates=UPDATES), copies=False)
        self.transcript = Transcript(self.sink)
        self.sink = self.transcript

    def settle(self, page: int, now: float, changed: bool) -> None:
        """A crawl."""
        self.log.append(("crawl", now * DAY, page, self.scheduler.heard(page), changed))
        super().settle(page, now, changed)

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:
        """A signal, if it counts."""
        before = self.scheduler.heard(page)
        super().notice(page, now, claimed)
        for source, (new, old) in enumerate(zip(self.scheduler.heard(page), before, strict=True)):
            if new > old:
                self.log.append(("signal", now * DAY, page, (source,), False))

    def learn(self, now: float) -> None:
        """A round."""
        self.log.append(("round", now, 0, (), False))
        super().learn(now)


async def taught_by_the_daemon(path: Path, world: WeblikeWorld, log: Logged) -> Transcript:
    """What the daemon's learner teaches when the same things happen to a store."""
    store = SqlStore(f"sqlite:///{path / 'crawld.db'}")
    await store.start()
    urls = [f"https://host{host}.example/{page}" for page, host in enumerate(world.host_of)]
    pages = (await store.adopt([Wanted(url) for url in urls], origin="list", now=1.0)).added
    ids = {page.url: page.id for page in pages}
    transcript, clock = Transcript(), HandClock(0.0)
    learner = Learner(store, transcript, clock, prior=PRIOR)
    last: dict[int, float] = {}
    for kind, at, page, signals, changed in log.log:
        page_id = ids[urls[page]]
        if kind == "signal":
            store.record_signals([Signal(page_id, SOURCES[signals[0]], at)])
        elif kind == "crawl":
            verdict = Verdict.NEW if page not in last else Verdict.CHANGED if changed else Verdict.UNCHANGED
            tau = at - last[page] if page in last else None
            store.record(Record(Crawl(page_id, at, verdict, tau=tau, signals=signals), PageState.LIVE))
            last[page] = at
        else:
            await store.flush()
            clock.time = at
            for _ in range(UPDATES):
                if not await learner.learn():
                    break
    await store.close()
    return transcript


async def test_the_simulator_learns_what_the_daemon_learns(tmp_path: Path) -> None:
    """Estimates, caution, shifts of the host clock and age curves are the same in every update."""
    world = weblike(11, hosts=3, pages=40, days=40.0)
    crawler = Logged(world, 10.0)
    simulate(world, crawler, 10.0, started_fresh=False)
    simulated = crawler.transcript
    daemon = await taught_by_the_daemon(tmp_path, world, crawler)
    assert len(simulated.estimates) > 200
    assert any(found for found, _ in simulated.shifts)
    assert any(sum(one.signals) for update in simulated.estimates for one in update)
    assert len(simulated.estimates) == len(daemon.estimates)
    for mine, theirs in zip(simulated.estimates, daemon.estimates, strict=True):
        assert [(one.crawls, one.changes, one.signals) for one in mine] == [
            (one.crawls, one.changes, one.signals) for one in theirs
        ]
        for name in ("shape", "rate", "kappa", "gamma"):
            ours = [getattr(one, name) for one in mine]
            assert np.allclose(ours, [getattr(one, name) for one in theirs], rtol=1e-6), name
    for (_, mine_since), (_, their_since) in zip(simulated.shifts, daemon.shifts, strict=True):
        assert mine_since == pytest.approx(their_since, rel=1e-6)
    assert simulated.curves[-1] == daemon.curves[-1]
