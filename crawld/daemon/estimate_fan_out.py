"""Hands new estimates to everyone who goes by them: the scheduler, and the polls that ask what signals are worth."""

from collections.abc import Mapping, Sequence

from crawld.daemon.pages.pages import Pages
from crawld.daemon.polls import Polls
from crawld.frontier.politeness import HostGate
from crawld.interfaces import Floats
from crawld.model.age_curve import AgeCurve
from crawld.model.estimate import Estimate
from crawld.scheduler import Scheduler


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

    def age_by(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Let copies age by the curves of their hosts; None: by plain time."""
        for host, curve in curves.items():
            self._scheduler.age_by(self._gate.host_of_pages(host), curve)
