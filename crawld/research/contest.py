"""Several real daemons crawl the lab's site at once, each with the same bandwidth, and the site keeps the score."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from crawld.research.score import WARM_UP, Score, Visits
from crawld.research.site import LabSite, until

SHORTEST = 5.0
"""Seconds below which there is nothing to compare."""


class RunningDaemon(Protocol):
    """What a contest needs of a daemon."""

    async def run(self) -> None:
        """Crawl until it is stopped."""

    def stop(self) -> None:
        """End it cleanly."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A daemon that takes part; `name` is the product token of its user agent, `predicted` what it expects now."""

    name: str
    daemon: RunningDaemon
    predicted: Callable[[], float]


@dataclass(slots=True)
class Samples:
    """What was seen while the contest ran, a row a tick."""

    at: list[float] = field(default_factory=list)
    true: dict[str, list[float]] = field(default_factory=dict)
    predicted: dict[str, list[float]] = field(default_factory=dict)

    def mean_predicted(self, name: str, since: float) -> float | None:
        """What an entrant expected on average since then."""
        judged = [value for at, value in zip(self.at, self.predicted[name], strict=True) if at >= since]
        return sum(judged) / len(judged) if judged else None


@dataclass(frozen=True, slots=True)
class Finish:
    """How a contest ended: from when to when it ran and was judged, and each entrant's score."""

    started: float
    judged_from: float
    ended: float
    scores: dict[str, Score]
    visits: dict[str, Visits]
    samples: Samples


class Contest:
    """One run of the entrants against the site, to its end or to the first ctrl-C."""

    def __init__(self, site: LabSite, entrants: Sequence[Entrant], seconds: float) -> None:
        self._site, self._entrants, self._seconds = site, entrants, seconds
        self.samples = Samples()

    async def run(self, show: Callable[[float, Samples], None]) -> Finish | None:
        """Run it, and tell `show` how far it is; None where it was stopped too early to compare anything."""
        site, loop = self._site, asyncio.get_running_loop()
        started = site.elapsed
        daemons = [asyncio.create_task(entrant.daemon.run()) for entrant in self._entrants]

        def look() -> None:
            self._sample()
            show(site.elapsed - started, self.samples)

        watcher = asyncio.create_task(until(site, started + self._seconds, look))
        loop.add_signal_handler(signal.SIGINT, watcher.cancel)
        await asyncio.wait([watcher, *daemons], return_when=asyncio.FIRST_COMPLETED)
        loop.remove_signal_handler(signal.SIGINT)  # a second ctrl-C does not wait
        ended = site.elapsed
        for entrant in self._entrants:
            entrant.daemon.stop()
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
        await asyncio.gather(*daemons)
        if ended - started < SHORTEST:
            return None
        judged_from = started + WARM_UP * (ended - started)
        scores = {one.name: site.board.score(one.name, judged_from, ended) for one in self._entrants}
        visits = {one.name: site.board.of(one.name) for one in self._entrants}
        return Finish(started, judged_from, ended, scores, visits, self.samples)

    def _sample(self) -> None:
        now = self._site.elapsed
        self.samples.at.append(now)
        for one in self._entrants:
            self.samples.true.setdefault(one.name, []).append(self._site.board.freshness_now(one.name, now))
            self.samples.predicted.setdefault(one.name, []).append(one.predicted())
