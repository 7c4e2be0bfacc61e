"""An index of sitemaps, walked bit by bit: its files join the schedule one after the other, the latest first."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from crawld.model.signal import Source
from crawld.model.url import host_of_target
from crawld.signals.contract import Slices
from crawld.signals.files import MOST_SPOKEN_FOR, File, Origin
from crawld.signals.reading import Reading
from crawld.signals.schedule import PollSchedule

WALKED_AT_ONCE = 100
"""Files of an index that are looked at in one slice."""
STEP = 5.0  # seconds from one file to the next
DEEPEST = 2  # an index in an index, and no further


@dataclass(frozen=True, slots=True)
class Walk:
    """What reading an index led to."""

    planned: Sequence[File] = field(default=())  # joined, or brought forward since the index says they changed
    moved: Sequence[File] = field(default=())  # the latter
    removed: Sequence[str] = field(default=())

    @property
    def news(self) -> bool:
        """Whether the index said anything new."""
        return bool(self.planned or self.removed)


def walk(schedule: PollSchedule, index: File, reading: Reading, now: float) -> Slices[Walk]:
    """Watch what an index lists, poll sooner what it says has changed, and drop what it lists no more.

    A file whose lastmod stands still keeps its own rhythm: lastmod hastens, it never vetoes.
    """
    known = {file.url: file for file in schedule.children(index.url)}
    if not reading.children and not known:
        return Walk()
    listed = {child.url: child.stamp for child in reading.children if child.url != index.url}
    removed = [url for url in known if url not in listed] if reading.complete else []
    for url in removed:
        schedule.remove(url)
    planned: list[File] = []
    moved: list[File] = []
    if index.depth >= DEEPEST:
        return Walk(removed=removed)
    for number, (url, stamp) in enumerate(listed.items()):
        if number % WALKED_AT_ONCE == 0:
            yield
        file = known.get(url)
        if file is None:
            file = _child(index, reading, url, stamp, now + len(planned) * STEP)
            if schedule.add(file):
                planned.append(file)
        elif stamp not in (0, file.stamp) and url in schedule:
            file.stamp = stamp
            file.next_poll = min(file.next_poll, now + len(planned) * STEP)
            schedule.plan(file)
            planned.append(file)
            moved.append(file)
    return Walk(planned, moved, removed)


def _child(index: File, reading: Reading, url: str, stamp: int, at: float) -> File:
    """A file that an index lists. Where a stranger answered for the index, the child may speak for that one alone."""
    stranger, host = reading.answered_by, host_of_target(url)
    speaks_for = (stranger,) if stranger else tuple(dict.fromkeys((index.host, *index.speaks_for)))[:MOST_SPOKEN_FOR]
    given = index.origin is Origin.CONFIG and stranger is None
    return File(
        url,
        Source.SITEMAP,
        host,
        Origin.CONFIG if given else Origin.INDEX,
        speaks_for,
        index.url,
        index.depth + 1,
        planter=index.planter,
        next_poll=at,
        stamp=stamp,
    )
