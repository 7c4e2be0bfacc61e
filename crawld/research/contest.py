"""Several real daemons crawl the lab's site at once, each with the same bandwidth, and the site keeps the score."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from crawld.choose.policies import Policy
from crawld.main.settings import Settings
from crawld.research.score import WARM_UP, Score, Visits
from crawld.research.site import LabSite, until


@dataclass(frozen=True)
class ContestLimits:
    """Numbers that bound and tune this module."""

    min_seconds: float = 5.0
    """Seconds below which there is nothing to compare."""
    learn_seconds: float = 0.5
    tick_seconds: float = 5.0
    poll_seconds: float = 1.0


LIMITS = ContestLimits()


class RunningDaemon(Protocol):
    """The part of a daemon that a contest uses."""

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
    """Samples taken while the contest ran, a row a tick."""

    at: list[float] = field(default_factory=list)
    true: dict[str, list[float]] = field(default_factory=dict)
    predicted: dict[str, list[float]] = field(default_factory=dict)

    def mean_predicted(self, name: str, since: float) -> float | None:
        """Mean freshness that an entrant predicted since then."""
        judged = [value for at, value in zip(self.at, self.predicted[name], strict=True) if at >= since]
        return sum(judged) / len(judged) if judged else None


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a contest: from when to when it ran and was judged, and each entrant's score."""

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
        if ended - started < LIMITS.min_seconds:
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


@contextmanager
def contest_progress(
    seconds: float, names: Mapping[str, str] | None = None, *, quiet: bool = False
) -> "Iterator[Callable[[float, Samples], None]]":
    """Show the bar while the block runs; the block is given what moves it. `names` are those to show for entrants."""
    shown = names or {}
    columns = (TextColumn("fresh now:"), TextColumn("{task.fields[line]}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("", total=seconds, line="")

        def show(elapsed: float, samples: "Samples") -> None:
            line = ", ".join(f"{shown.get(name, name)} {values[-1]:.2f}" for name, values in samples.true.items())
            bar.update(task, completed=elapsed, line=line)

        yield show


@dataclass(frozen=True, slots=True)
class LabDaemons:
    """The daemons of one run: their databases, what they crawl, and their rate."""

    folder: Path
    bandwidth: float
    audit_share: float = 0.0
    listen: str | None = None
    """Address at which a daemon serves its dashboard; only one at a time can."""
    read_share: float = 0.5
    mode: str = "main"
    """The part of pages that is compared; `raw` spends no request on telling noise from edits."""

    @property
    def url_list(self) -> Path:
        """The list that all of them crawl."""
        return self.folder / "urls.txt"

    def database(self, name: str) -> Path:
        """The database of the daemon of that name."""
        return self.folder / f"{name}.db"

    def enter(self, name: str, policy: Policy) -> "Entrant":
        """A daemon that follows the policy; `name` is the product token by which the site knows it."""
        from crawld.main.assembly import Tempo, build

        tempo = Tempo(learn=LIMITS.learn_seconds, tick=LIMITS.tick_seconds, poll=LIMITS.poll_seconds)
        daemon = build(Settings.model_validate(self._settings(name, policy)), tempo=tempo)
        daemon.catch_signals = False

        def predicted() -> float:
            return daemon.scheduler.predicted_freshness(daemon.clock.now()) or 0.0

        return Entrant(name, daemon, predicted)

    def socket(self, name: str) -> Path:
        """The control socket of the daemon of that name."""
        return self.folder / f"{name}.db.sock"

    def _settings(self, name: str, policy: Policy) -> Mapping[str, Any]:
        return {
            "bandwidth": self.bandwidth,
            "urls": str(self.url_list),
            "database": f"sqlite:///{self.database(name)}",
            "user_agent": f"{name}/1.0 (+mailto:lab@localhost)",
            "policy": policy.name,
            "allow_private": ["127.0.0.0/8"],
            "politeness": {"delay": 0, "per_host": 100},
            "min_interval": 0.2,
            "signals": {} if policy.hears else {"sitemaps": "off", "feeds": "off"},
            "audit": {"share": self.audit_share if policy.hears else 0},
            "read_through": {"share": self.read_share},
            "digest": [{"pattern": "*", "mode": self.mode}],
            "log": {"level": "warning"},
            "api": {"listen": self.listen},
        }
