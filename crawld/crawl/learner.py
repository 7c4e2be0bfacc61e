"""The learner: takes pages with new crawls, fits their histories, keeps what it believes, and teaches the scheduler."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.crawl.polls import Polls
from crawld.learn.estimate_update import EstimateSink, EstimateUpdate
from crawld.learn.observations import YEAR, Prior
from crawld.learn.online_learner import LIMITS as ONLINE_LEARNER_LIMITS
from crawld.learn.online_learner import OnlineLearner
from crawld.model.estimate import AgeCurve, Estimate, Floats, Ints
from crawld.model.signal import SOURCES, SignalTrust
from crawld.model.web import Clock
from crawld.pages.page_set import give_back
from crawld.pages.pages import Pages
from crawld.store.store import SqlStore

BATCH = 500  # pages; fewer where their histories are long
Crawled = Callable[[int, int], Awaitable[Ints]]


class Learner:
    """Learns as long as it runs. A page is dirty until its estimate knows its latest crawl: a restart loses nothing.

    What is known of hosts (priors, clocks, scores, heard signals) lives in memory alone: `recall` makes it again from
    the stored histories.
    """

    def __init__(
        self,
        store: SqlStore,
        sink: EstimateSink,
        clock: Clock,
        *,
        interval: float = 1.0,
        half_life: float = YEAR,
        prior: Prior | None = None,
        significance: bool = False,
    ) -> None:
        self._store, self._sink, self._clock = store, sink, clock
        self._interval = interval
        self._online_learner = OnlineLearner(
            prior or Prior(), len(SOURCES), half_life=half_life, significance=significance
        )
        self._leaving: list[int] = []  # pages to forget before the next batch
        self._again: dict[int, None] = {}  # pages to fit again because of what their host taught, in order
        self._behind = False  # whether the last batch left pages waiting
        self.caught_up_at = clock.monotonic()  # when no page waited any more

    async def run(self) -> None:
        """Recall, then learn until cancelled, one batch after another while there is more than one to do."""
        await self.recall()
        while True:
            await self.learn_on()

    @property
    def taught(self) -> Floats:
        """Returns what our hosts say of hosts in general, for the learners of other workers to `hear`."""
        return self._online_learner.taught

    @property
    def pages(self) -> int:
        """Number of pages whose histories the learner knows."""
        return self._online_learner.pages

    def reserve(self, pages: int, hosts: int) -> None:
        """Make room for so many at once."""
        self._online_learner.reserve(pages, hosts)

    def hear(self, others: Floats) -> None:
        """Take over what the hosts of all other workers say: the sum of what each has `taught`."""
        self._online_learner.hear(others)

    def forget(self, page_ids: Sequence[int]) -> None:
        """Drop what is kept of pages that are ours no longer, before the next batch."""
        self._leaving.extend(page_ids)

    def _let_go(self) -> None:
        leaving, self._leaving = self._leaving, []
        for page_id in leaving:
            self._again.pop(page_id, None)
        self._online_learner.forget(np.array(leaving, dtype=np.int64))

    async def learn_on(self) -> None:
        """Fit one batch, and wait a while where no page is left."""
        await self.learn()
        if not self._behind:
            self.caught_up_at = self._clock.monotonic()
            await self._clock.sleep_until(self._clock.monotonic() + self._interval)

    async def recall(self, crawled: Crawled | None = None) -> None:
        """Learn again what the hosts of crawled pages have taught; the estimates that are kept stay as they are.

        `crawled` names the pages: the first, by id, beyond an id, at most so many. Without it they are all pages.
        """
        last, now = 0, self._clock.now()
        crawled = crawled or self._store.crawled_pages
        trust: dict[tuple[str, str], SignalTrust] = {}  # kept at the end: half of a host may hear less than all of it
        while len(pages := await crawled(last, BATCH)):
            histories = await self._store.histories(pages)
            update = await asyncio.to_thread(
                EstimateUpdate.of, self._online_learner, histories, now, ONLINE_LEARNER_LIMITS.recalled
            )
            last = int(histories.page_ids[-1])
            trust |= {(one.host, one.source): one for one in update.trust}
            update.apply_clocks_to(self._sink)
            self._again |= dict.fromkeys(update.again.tolist())
        await self._store.save_signal_trust([*trust.values()])
        await asyncio.to_thread(give_back)

    async def learn(self) -> int:
        """Fit one batch: pages with new crawls first, then those whose prior moved; how many there were."""
        if self._leaving:
            self._let_go()
        dirty = (await self._store.dirty_pages(BATCH)).tolist()
        waiting = dict.fromkeys([*dirty, *islice(self._again, BATCH - len(dirty))])
        now = self._clock.now()
        histories = await self._store.histories(np.array([*waiting], np.int64))
        fitted = len(histories.page_ids)
        self._behind = fitted < len(waiting) or fitted == BATCH
        if not fitted:
            return 0
        for page in histories.page_ids.tolist():
            self._again.pop(page, None)
        # Off the loop: arithmetic of some tens of milliseconds must not delay a slot.
        update = await asyncio.to_thread(EstimateUpdate.of, self._online_learner, histories, now)
        await self._store.save_estimates(update.estimates)
        if update.curves:
            await self._store.save_age_curves(update.curves)
        if update.trust:
            await self._store.save_signal_trust(update.trust)
        update.apply_to(self._sink)
        self._again |= dict.fromkeys(update.again.tolist())
        return fitted


# Hands new estimates to everyone who goes by them: the scheduler, and the polls that ask what signals are worth.


class EstimateFanOut:
    """What the learner tells of what it learnt."""

    def __init__(self, scheduler: Scheduler, polls: Polls, pages: Pages, gate: HostGate) -> None:
        self._scheduler, self._polls, self._pages, self._gate = scheduler, polls, pages, gate

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Take over new estimates."""
        self._scheduler.learn(estimates)
        self._polls.learn(estimates, self._pages)

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Value copies made at `last`, where still the latest, as if made at `since`."""
        self._scheduler.shift(page_ids, last, since)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Weigh a change of each page by how much of its text changes."""
        self._scheduler.signify(page_ids, significance)

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Let copies age by the curves of their hosts; None: by plain time."""
        for host, curve in curves.items():
            self._scheduler.set_age_curve(self._gate.host_of_pages(host), curve)
