"""The learner: takes pages with new crawls, fits their histories, keeps what it believes, and teaches the scheduler."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from crawld.interfaces import Clock, Floats, Histories, Store
from crawld.learning.estimator import YEAR, Prior
from crawld.learning.online_learner import OnlineLearner, Shift, Update
from crawld.model.age_curve import AgeCurve
from crawld.model.estimate import Estimate
from crawld.model.signal import SOURCES

BATCH = 500  # pages; fewer where their histories are long
SLOWEST_RECORD = 300.0  # seconds in which a finished crawl has surely reached the store


class Student(Protocol):
    """Whoever picks by estimates."""

    def learn(self, estimates: Sequence[Estimate], most_shape: Floats) -> None:
        """Take over new estimates; values are to be taken over shapes of at most `most_shape`."""

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Value copies made at `last`, where still the latest, as if made at `since`."""

    def age_by(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Let copies age by the curves of their hosts; None: by plain time."""


class Learner:
    """Learns as long as it runs. A page is dirty until its estimate knows its latest crawl: a restart loses nothing."""

    def __init__(
        self,
        store: Store,
        student: Student,
        clock: Clock,
        *,
        interval: float = 5.0,
        half_life: float = YEAR,
        prior: Prior | None = None,
    ) -> None:
        self._store, self._student, self._clock = store, student, clock
        self._interval = interval
        self._tutor = OnlineLearner(prior or Prior(), len(SOURCES), half_life=half_life)
        self._again: dict[int, None] = {}  # pages to fit again because of what their host taught, in order
        self._behind = False  # whether the last batch left pages waiting

    async def run(self) -> None:
        """Learn until cancelled, one batch after another while there is more than one to do."""
        while True:
            await self.learn()
            if not self._behind:
                await self._clock.sleep_until(self._clock.monotonic() + self._interval)

    async def learn(self) -> int:
        """Fit one batch: pages with new crawls first, then those whose prior moved; how many there were."""
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
        lesson, estimates, shift, curves = await asyncio.to_thread(self._decide, histories, now)
        await self._store.save_estimates(estimates)
        await self._store.save_age_curves(curves)
        self._student.learn(estimates, lesson.most_shape)
        self._student.shift(shift.page_ids.tolist(), shift.last, shift.since)
        self._student.age_by(curves)
        self._again |= dict.fromkeys(lesson.again.tolist())
        return fitted

    def _decide(
        self, histories: Histories, now: float
    ) -> tuple[Update, list[Estimate], Shift, dict[str, AgeCurve | None]]:
        lesson = self._tutor.teach(histories, now)
        shift, curves = self._tutor.shift(histories.hosts, now), self._tutor.curves(histories.hosts, now)
        return lesson, _estimates(histories, lesson, now), shift, curves


def _estimates(histories: Histories, lesson: Update, now: float) -> list[Estimate]:
    """The columns as estimates; each is as of the latest crawl it knows, so that a later one makes it dirty."""
    posterior = lesson.posterior
    starts, ends = histories.offsets[:-1], histories.offsets[1:]
    latest = np.nan_to_num(histories.first_success)
    told = ends > starts
    latest[told] = histories.at[ends[told] - 1]
    changes = np.concatenate([[0], np.cumsum(histories.changed)])
    columns = (
        histories.page_ids,
        np.maximum(latest, now - SLOWEST_RECORD),
        posterior.shape,
        posterior.rate,
        posterior.trust,
        lesson.gamma,
        posterior.alpha_se,
        posterior.kappa_se,
        ends - starts,
        changes[ends] - changes[starts],
        histories.signal_counts,
    )
    return [
        Estimate(page, at, shape, rate, tuple(kappa), tuple(heard), se, tuple(kappa_se), crawls, seen, tuple(signals))
        for page, at, shape, rate, kappa, heard, se, kappa_se, crawls, seen, signals in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
