"""One round of learning: what the histories of some pages teach whoever picks by estimates.

The daemon reads the histories from its store and the simulator from memory; what is made of them is this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.learn.online_learner import LIMITS as ONLINE_LEARNER_LIMITS
from crawld.learn.online_learner import OnlineLearner, Shift, Update
from crawld.model.estimate import AgeCurve, Estimate, Histories
from crawld.model.signal import SignalTrust

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class EstimateSink(Protocol):
    """Picks by estimates."""

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Take over new estimates."""

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Value copies made at `last`, where still the latest, as if made at `since`."""

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Let copies age by the curves of their hosts; None: by plain time."""

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Weigh a change of each page by how much of its text changes, 1 being usual."""


@dataclass(frozen=True, slots=True)
class EstimateUpdate:
    """New estimates of some pages, shifts, curves and heard signals of their hosts, and the pages to fit again."""

    estimates: list[Estimate]
    shift: Shift
    curves: dict[str, AgeCurve | None]
    trust: list[SignalTrust]
    again: Ints
    significance: Floats | None = None  # by estimate; None: changes count alike

    @classmethod
    def of(
        cls,
        learner: OnlineLearner,
        histories: Histories,
        now: float,
        most_foretold: int = ONLINE_LEARNER_LIMITS.foretold,
    ) -> "EstimateUpdate":
        """Let the learner take in the histories."""
        update = learner.teach(histories, now, most_foretold)
        shift, curves = learner.shift(histories.hosts, now), learner.curves(histories.hosts, now)
        trust = learner.trust(histories.hosts)
        return cls(_estimates(histories, update, now), shift, curves, trust, update.again, update.significance)

    def apply_to(self, sink: EstimateSink) -> None:
        """Hand everything to whoever picks."""
        sink.learn(self.estimates)
        self.apply_clocks_to(sink)

    def apply_clocks_to(self, sink: EstimateSink) -> None:
        """Hand on how pages age by the clocks of their hosts and what their changes weigh, and no estimates."""
        sink.shift(self.shift.page_ids.tolist(), self.shift.last, self.shift.since)
        sink.set_age_curve(self.curves)
        if self.significance is not None:
            sink.signify([one.page_id for one in self.estimates], self.significance)


def _estimates(histories: Histories, update: Update, now: float) -> list[Estimate]:
    """The columns as estimates; each is as of the latest crawl it knows, so that a later one makes it dirty."""
    starts, ends = histories.offsets[:-1], histories.offsets[1:]
    latest = np.nan_to_num(histories.first_success)
    told = ends > starts
    latest[told] = histories.at[ends[told] - 1]
    changes = np.concatenate([[0], np.cumsum(histories.changed)])
    columns = (
        histories.page_ids,
        np.maximum(latest, now - 300.0),  # seconds in which a finished crawl has surely reached the store
        update.shape,
        update.rate,
        update.kappa,
        update.gamma,
        np.sqrt(update.shape) / update.rate,
        update.kappa_se,
        ends - starts,
        changes[ends] - changes[starts],
        histories.signal_counts,
        update.heard,
        update.deaf_alpha,
        update.deaf_shape,
    )
    return [
        Estimate(page, at, shape, rate, tuple(kappa), tuple(gamma), se, tuple(errors), crawls, seen, tuple(told), *deaf)
        for page, at, shape, rate, kappa, gamma, se, errors, crawls, seen, told, *deaf in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
