"""An index of sitemaps, walked bit by bit: its files join the schedule one after the other, the latest first."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from crawld.model.signal import Source
from crawld.model.url import host_of
from crawld.signals.files import File, Origin
from crawld.signals.reading import Child
from crawld.signals.schedule import PollSchedule

MOST_CHILDREN = 2_000  # of one index
STEP = 5.0  # seconds from one file to the next
DEEPEST = 2  # an index in an index, and no further


@dataclass(frozen=True, slots=True)
class Walk:
    """What reading an index led to."""

    planned: Sequence[File] = field(default=())  # joined, or moved forward since the index says they changed
    removed: Sequence[str] = field(default=())

    @property
    def news(self) -> bool:
        """Whether the index said anything new."""
        return bool(self.planned or self.removed)


def walk(schedule: PollSchedule, index: File, children: Sequence[Child], *, complete: bool, now: float) -> Walk:
    """Watch what an index lists, poll sooner what it says has changed, and drop what it lists no more.

    A file whose lastmod stands still keeps its own rhythm: lastmod hastens, it never vetoes.
    """
    known = {file.url: file for file in schedule if file.parent == index.url}
    if not children and not known:
        return Walk()
    listed = {child.url: child.stamp for child in children[:MOST_CHILDREN] if child.url != index.url}
    removed = [url for url in known if url not in listed] if complete else []
    for url in removed:
        schedule.remove(url)
    planned: list[File] = []
    if index.depth >= DEEPEST:
        return Walk(planned, removed)
    for url, stamp in sorted(listed.items(), key=lambda item: -item[1]):
        file = known.get(url)
        if file is None:
            file = _joined(schedule, index, url, stamp, now + len(planned) * STEP)
            if file is not None:
                planned.append(file)
        elif stamp not in (0, file.stamp):
            file.stamp = stamp
            file.next_poll = min(file.next_poll, now + len(planned) * STEP)
            schedule.plan(file)
            planned.append(file)
    return Walk(planned, removed)


def _joined(schedule: PollSchedule, index: File, url: str, stamp: int, at: float) -> File | None:
    speaks_for = tuple(dict.fromkeys((index.host, *index.speaks_for)))
    origin = Origin.CONFIG if index.origin is Origin.CONFIG else Origin.INDEX
    file = File(
        url, Source.SITEMAP, host_of(url), origin, speaks_for, index.url, index.depth + 1, next_poll=at, stamp=stamp
    )
    return file if schedule.add(file) else None
