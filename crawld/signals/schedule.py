"""Watched files: which to poll next, and how long to wait before a file is asked again.

A file whose signals have bought freshness is asked as often as that pays: again when the value of a poll, in the
currency of a page's crawl value, reaches the level at which pages are picked (docs/method.md, "The value of a poll").
Every file is also explored. That wait is multiplied by 1.5 after a poll without a signal for our pages, by 0.5 after
one whose signals are all right, by something between where its host's signals have proved right only at times. It
settles where a bit more than a third of the polls bring something; what never changes, or is always wrong, fades out
to one poll a week. The shorter of the two waits counts.
"""

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import islice

from crawld.choose.value import inverse_gamma_2
from crawld.model.signal import Source
from crawld.signals.reading import site_of
from crawld.store.sources import SourceFile


@dataclass(frozen=True)
class ScheduleLimits:
    """Numbers that bound and tune this module."""

    first_wait: float = 60.0
    min_wait: float = 15.0
    max_wait: float = 7 * 86_400.0
    first_wait_failing: float = 600.0
    max_wait_dead: float = 30 * 86_400.0
    dead_after: int = 8  # successive failures
    growth: float = 1.5
    shrinkage: float = 0.5
    proving_polls: int = 20  # within which a file whose polls bring news is polled as one that pays
    poll_memory: float = 0.95  # what earlier polls of a file still weigh at the next one
    megabyte: float = 2.0**20
    max_spoken_for: int = 4  # hosts: those of a robots.txt, an index of indexes, and an index
    max_files: int = 100_000
    """Files watched in all, at some 700 bytes each."""
    max_files_per_host: int = 2_000
    """Files on one host, whatever planted them: an index may have as many."""
    max_planted: int = 2_000
    """Files one host plants in all."""
    max_planted_elsewhere: int = 500
    """Files one host plants on other sites, such as the network that delivers its sitemaps."""
    max_other_hosts: int = 5
    """Other hosts on which one host plants."""
    max_feeds_per_host: int = 5
    """Feeds of a host that are found by links in pages."""
    max_remembered_bytes: int = 256 * 2**20
    """What all files listed, packed: some 20 million entries."""
    max_remembered_bytes_per_planter: int = 16 * 2**20
    """What the files listed that one host planted, packed: more than a million entries."""
    max_offered: int = 16
    """Sites whose files are offered for one slot; those that cannot be asked make room for others at the next one."""
    max_looked_at: int = 200
    """Sites that are looked at for one slot, those included that turn out to have nothing due."""
    spare_entries: int = 16
    """Entries that a lane may have beside two for each of its files."""


LIMITS = ScheduleLimits()


class Origin(StrEnum):
    """Origin of our knowledge of a file."""

    CONFIG = "config"
    ROBOTS = "robots"
    GUESS = "guess"
    INDEX = "index"
    PAGE = "page"  # a link in the head of a page


@dataclass(slots=True)
class File:
    """One sitemap or feed: where it is, how it was found, how it did so far."""

    url: str
    source: Source
    host: str
    origin: Origin
    speaks_for: tuple[str, ...] = ()  # hosts beside its own; with origin config: any
    parent: str | None = None  # the index that lists it
    depth: int = 0
    planter: str = ""  # the host by which we came to know of it: its files share turns and budgets
    next_poll: float = 0.0
    wait: float = LIMITS.first_wait
    polls: int = 0
    changes: int = 0  # polls that brought something new
    signals: int = 0
    stale: int = 0
    discarded: int = 0
    site_events: int = 0
    failures: int = 0  # successive
    entries: int = 0
    size: int = 0
    stamp: int = 0  # the lastmod its index gives
    polled_at: float = 0.0  # the last poll that went well
    pays: bool = False  # the next poll is planned because it pays, not to explore
    watched: float = 0.0  # seconds between polls; this and the next two fade by poll
    staleness: float = 0.0  # importance of the pages that its signals showed to be stale, by their probability
    gain: float = 0.0  # fresh seconds, by importance, that those signals bought
    etag: str | None = None
    last_modified: str | None = None
    trouble: str | None = None
    hub: str | None = None  # WebSub: who pushes it
    topic: str | None = None  # the address the hub knows it by
    hub_secret: str | None = None
    hub_asked_at: float = 0.0
    hub_until: float = 0.0  # the end of the lease, 0 where there is none
    baseline: bytes = field(default=b"", repr=False)  # what it listed, packed

    def __post_init__(self) -> None:
        if not self.planter:  # the host that named it first: the last, as each index is put in front of its own
            named = self.origin in {Origin.ROBOTS, Origin.INDEX, Origin.PAGE} and self.speaks_for
            self.planter = self.speaks_for[-1] if named else self.host

    @property
    def dead(self) -> bool:
        """Tells whether it has failed so often that it is asked once a month only."""
        return self.failures >= LIMITS.dead_after

    @property
    def preferred(self) -> bool:
        """Tells whether the next poll goes before exploring ones.

        1. It pays. 2. The file was never polled, and a person or a robots.txt named it. 3. It was polled once or twice,
        or a few times of which half brought something new: what its signals are worth is known only after they were
        heard for a while.
        """
        if self.pays or self.failures:
            return self.pays
        if self.polls == 0:
            return self.origin in {Origin.CONFIG, Origin.ROBOTS}
        return self.polls <= 2 or (self.polls < LIMITS.proving_polls and 2 * self.changes >= self.polls)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The hosts it may speak for: its own and the one that named it; any where a person gave it."""
        return None if self.origin is Origin.CONFIG else frozenset((self.host, *self.speaks_for))

    def succeeded(self, now: float, *, worth: float, shortest: float = LIMITS.min_wait) -> None:
        """Plan the next poll after one that went well; `worth` is 0 (nothing) to 1 (signals that are all right)."""
        self.failures, self.trouble = 0, None
        self.wait *= LIMITS.growth ** (1.0 - worth) * LIMITS.shrinkage**worth
        least = shortest * (1.0 + self.size / LIMITS.megabyte)  # what is dear to send is asked for less often
        self.wait = min(max(self.wait, least), LIMITS.max_wait)
        self.next_poll, self.pays = now + self.wait, False
        self.watched = LIMITS.poll_memory * self.watched + (now - self.polled_at if self.polled_at else 0.0)
        self.staleness, self.gain = LIMITS.poll_memory * self.staleness, LIMITS.poll_memory * self.gain
        self.polled_at = now

    def bought(self, staleness: float, gain: float) -> None:
        """Take in what the signals of the last poll bought: stale pages shown, and fresh seconds, by importance."""
        self.staleness += staleness
        self.gain += gain

    def plan_by_value(self, level: float, shortest: float) -> None:
        """Poll earlier than planned where that pays at this level of crawl values."""
        pays_after = self.pays_after(level)
        if not math.isfinite(pays_after):
            return
        wait = max(pays_after, shortest * (1.0 + self.size / LIMITS.megabyte))
        if self.polled_at + wait < self.next_poll:
            self.next_poll, self.pays = self.polled_at + wait, True

    def pays_after(self, level: float) -> float:
        """Seconds after a poll at which the next one is worth as much as a crawl; inf where it never is.

        A poll after σ seconds is worth B·L·P(2, σ/L): B is the gain per second if signals were heard at once, L the
        mean time by which a signal brings a crawl forward (docs/method.md, "The value of a poll").
        """
        if level <= 0 or self.gain <= 0 or self.watched <= 0:
            return math.inf
        lead = self.gain / self.staleness
        return lead * inverse_gamma_2(level * self.watched / (self.gain * lead))

    def failed(self, now: float, trouble: str, *, answered: bool = False) -> None:
        """Plan the next poll after one that failed: later each time; a guess that the host denied, in a month."""
        denied = answered and self.origin is Origin.GUESS and not self.changes
        self.failures = LIMITS.dead_after if denied else self.failures + 1
        self.trouble = trouble[:200]
        wait = max(self.wait, LIMITS.first_wait_failing) * 2.0 ** min(self.failures - 1, 20)
        self.next_poll = now + (LIMITS.max_wait_dead if self.dead else min(wait, LIMITS.max_wait))

    def exported(self) -> SourceFile:
        """As the store keeps it: its numbers as JSON, a NUL, and what it listed."""
        state = {name: value for name, value in asdict(self).items() if name not in _APART}
        changed = {name: value for name, value in state.items() if value != _DEFAULTS.get(name)}
        packed = json.dumps(changed).encode() + b"\0" + self.baseline
        return SourceFile(self.url, self.source, self.host, self.next_poll, packed)


_APART = frozenset({"url", "source", "host", "next_poll", "baseline"})
_DEFAULTS: Mapping[str, object] = {one.name: one.default for one in fields(File)}


def restored(kept: SourceFile) -> File:
    """The file that was exported; what a newer version added is left out."""
    numbers, _, baseline = kept.state.partition(b"\0")
    given = {name: value for name, value in json.loads(numbers).items() if name in _DEFAULTS and name not in _APART}
    given["origin"] = Origin(given.get("origin", Origin.ROBOTS))
    given["speaks_for"] = tuple(given.get("speaks_for", ()))[: LIMITS.max_spoken_for]
    return File(kept.url, kept.source, kept.host, next_poll=kept.next_poll, baseline=baseline, **given)


@dataclass(slots=True)
class _Tally:
    """Files that one host has planted."""

    files: int = 0
    feeds: int = 0  # found by links in pages
    elsewhere: int = 0
    others: Counter[str] = field(default_factory=Counter)  # files by host, of other sites
    remembered: int = 0  # bytes
    entries: int = 0  # pages that the files list


class Budgets:
    """Per-host limits on discovered sitemaps and feeds; the host that names a file pays for it."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._on_host: Counter[str] = Counter()
        self._files = self._remembered = 0

    def watches(self, host: str) -> bool:
        """Tells whether any file of the host is watched."""
        return host in self._on_host

    def room_for_feeds(self, planter: str) -> int:
        """Returns how many feeds a host may still have found by links in its pages."""
        return LIMITS.max_feeds_per_host - (self._tallies[planter].feeds if planter in self._tallies else 0)

    def has_room(self, file: File) -> bool:
        """Tells whether the host that plants the file may do so. What the settings name may lie on any host."""
        if self._files >= LIMITS.max_files or self._on_host[file.host] >= LIMITS.max_files_per_host:
            return False
        tally = self._tallies.get(file.planter)
        if tally is None:
            return True
        feeds = tally.feeds if file.origin is Origin.PAGE else 0
        if tally.files >= LIMITS.max_planted or feeds >= LIMITS.max_feeds_per_host:
            return False
        if file.origin is Origin.CONFIG or site_of(file.host) == site_of(file.planter):
            return True
        known = file.host in tally.others or len(tally.others) < LIMITS.max_other_hosts
        return known and tally.elsewhere < LIMITS.max_planted_elsewhere

    def count(self, file: File, step: int) -> None:
        """Count a file for the host that planted it (1), or no longer (-1)."""
        tally = self._tallies.setdefault(file.planter, _Tally())
        self._files += step
        self._on_host[file.host] += step
        if not self._on_host[file.host]:
            del self._on_host[file.host]
        tally.files += step
        tally.feeds += step * (file.origin is Origin.PAGE)
        if site_of(file.host) != site_of(file.planter):
            tally.elsewhere += step
            tally.others[file.host] += step
            if not tally.others[file.host]:
                del tally.others[file.host]
        tally.entries += step * file.entries
        tally.remembered += step * len(file.baseline)
        self._remembered += step * len(file.baseline)
        if not tally.files:
            del self._tallies[file.planter]

    def entries(self, planter: str) -> int:
        """Returns how many pages the files list that a host planted."""
        return self._tallies[planter].entries if planter in self._tallies else 0

    def count_entries(self, file: File, entries: int) -> None:
        """Take over how many pages a watched file lists."""
        self._tallies[file.planter].entries += entries - file.entries
        file.entries = entries

    def remember(self, file: File, baseline: bytes) -> bool:
        """Keep what a watched file listed; False where its planter, or all together, would hold too much."""
        tally, more = self._tallies[file.planter], len(baseline) - len(file.baseline)
        fits = self._remembered + more <= LIMITS.max_remembered_bytes
        if more > 0 and not (fits and tally.remembered + more <= LIMITS.max_remembered_bytes_per_planter):
            return False
        tally.remembered += more
        self._remembered += more
        file.baseline = baseline
        return True


class _Lane:
    """The files that one site planted on one host, by the time of their next poll."""

    __slots__ = ("entries", "files", "rests_until")

    def __init__(self) -> None:
        self.entries: list[tuple[float, str]] = []  # a heap; those of files planned anew since are out of date
        self.files = 0
        self.rests_until = float("-inf")


class PollRotation:
    """Files that are due, in rotation over the sites that planted them and over their hosts.

    `planned` gives a file where an entry of that time is up to date.
    """

    def __init__(self, planned: Callable[[float, str], File | None]) -> None:
        self._planned = planned
        self._lanes: dict[str, dict[str, _Lane]] = {}  # planter -> host -> lane, each in the order of turns
        self._awake: dict[str, None] = {}  # planters with files that may be due, in the order of turns
        self._asleep: list[tuple[float, str]] = []  # a heap of the others, by when to look again
        self._wakes_at: dict[str, float] = {}

    def __len__(self) -> int:
        """Entries that are held, those out of date included."""
        return sum(len(lane.entries) for lanes in self._lanes.values() for lane in lanes.values())

    def join(self, file: File) -> None:
        """A file takes part."""
        self._lanes.setdefault(file.planter, {}).setdefault(file.host, _Lane()).files += 1

    def leave(self, file: File) -> None:
        """A file takes part no more."""
        lanes = self._lanes[file.planter]
        lanes[file.host].files -= 1
        if not lanes[file.host].files:
            del lanes[file.host]
        if not lanes:
            del self._lanes[file.planter]
            self._awake.pop(file.planter, None)
            self._wakes_at.pop(file.planter, None)

    def plan(self, file: File) -> None:
        """Take over the time of a file's next poll."""
        lane = self._lanes[file.planter][file.host]
        heapq.heappush(lane.entries, (file.next_poll, file.url))
        if len(lane.entries) > 2 * lane.files + LIMITS.spare_entries:
            lane.entries = sorted({entry for entry in lane.entries if self._planned(*entry) is not None})
        self._wake(file.planter, max(file.next_poll, lane.rests_until))

    def rest(self, planter: str, host: str, until: float) -> None:
        """Offer nothing of a host until then: it may not be asked."""
        lane = self._lanes.get(planter, {}).get(host)
        if lane is not None:
            lane.rests_until = until

    def _wake(self, planter: str, at: float) -> None:
        if planter not in self._awake and at < self._wakes_at.get(planter, float("inf")):
            self._wakes_at[planter] = at
            heapq.heappush(self._asleep, (at, planter))

    @property
    def next_at(self) -> float:
        """The time from which a file may be due."""
        return float("-inf") if self._awake else self._asleep[0][0] if self._asleep else float("inf")

    def due(self, now: float) -> Iterator[File]:
        """Files to poll now, one of each site, least recently offered first; files not taken keep their turn."""
        while self._asleep and self._asleep[0][0] <= now:
            at, planter = heapq.heappop(self._asleep)
            if self._wakes_at.get(planter) == at:
                del self._wakes_at[planter]
                self._awake[planter] = None
        offered = 0
        for planter in list(islice(self._awake, LIMITS.max_looked_at)):
            if offered == LIMITS.max_offered:
                break
            if planter not in self._awake:  # its last file left while another was offered
                continue
            del self._awake[planter]
            file = self._first_due(planter, now)
            if file is None:
                lanes = (lane for lane in self._lanes[planter].values() if lane.entries)
                at = min((max(lane.entries[0][0], lane.rests_until) for lane in lanes), default=math.inf)
                self._wake(planter, at)
                continue
            self._awake[planter] = None
            offered += 1
            yield file

    def _first_due(self, planter: str, now: float) -> File | None:
        """The longest waiting file of the host whose turn it is, of those that may be asked."""
        lanes = self._lanes[planter]
        for host in list(lanes):
            lane = lanes[host]
            while lane.entries and self._planned(*lane.entries[0]) is None:
                heapq.heappop(lane.entries)
            if lane.entries and max(lane.entries[0][0], lane.rests_until) <= now:
                lanes[host] = lanes.pop(host)
                return self._planned(*lane.entries[0])
        return None


class PollSchedule:
    """Files by the time of their next poll; one that is being polled is not due until it is planned again."""

    def __init__(self) -> None:
        self.budgets = Budgets()
        self._files: dict[str, File] = {}
        self._children: dict[str, dict[str, None]] = {}  # of an index
        self._under_way: set[str] = set()
        self._exploring, self._preferred = PollRotation(self._planned), PollRotation(self._planned)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, url: str) -> bool:
        return url in self._files

    def __iter__(self) -> Iterator[File]:
        return iter(self._files.values())

    def get(self, url: str) -> File | None:
        """The file, None if it is not watched."""
        return self._files.get(url)

    def children(self, url: str) -> Sequence[File]:
        """The files that an index led to."""
        return [self._files[child] for child in self._children.get(url, ())]

    def add(self, file: File) -> bool:
        """Watch a file; False where it is watched already, or the host that planted it has planted enough."""
        if file.url in self._files or not self.budgets.has_room(file):
            return False
        self._files[file.url] = file
        self.budgets.count(file, 1)
        self._exploring.join(file)
        self._preferred.join(file)
        if file.parent is not None:
            self._children.setdefault(file.parent, {})[file.url] = None
        self.plan(file)
        return True

    def remove(self, url: str) -> None:
        """Watch a file no longer."""
        file = self._files.pop(url, None)
        if file is None:
            return
        self.budgets.count(file, -1)
        self._exploring.leave(file)
        self._preferred.leave(file)
        self._under_way.discard(url)
        siblings = self._children.get(file.parent or "", {})
        siblings.pop(url, None)
        if not siblings:
            self._children.pop(file.parent or "", None)

    def plan(self, file: File) -> None:
        """Take over the time of a file's next poll."""
        self._under_way.discard(file.url)
        if file.url in self._files:
            (self._preferred if file.preferred else self._exploring).plan(file)

    def begin(self, url: str) -> None:
        """A poll of the file is under way."""
        self._under_way.add(url)

    def under_way(self, url: str) -> bool:
        """Tells whether the file is being polled."""
        return url in self._under_way

    def rest(self, url: str, until: float) -> None:
        """Offer no file of this one's host until then, as far as the same site planted it."""
        file = self._files.get(url)
        if file is not None:
            self._exploring.rest(file.planter, file.host, until)
            self._preferred.rest(file.planter, file.host, until)

    def some_due(self, now: float) -> bool:
        """Tells whether any file may be due."""
        return self._preferred.next_at <= now or self._exploring.next_at <= now

    def due(self, now: float, *, explore: bool = True) -> Iterator[File]:
        """Files to poll now, preferred ones first, by turns of the sites that planted them; others to `explore`.

        Several, since a host may not be ready.
        """
        yield from self._preferred.due(now)
        if explore:
            yield from self._exploring.due(now)

    def _planned(self, at: float, url: str) -> File | None:
        """The file, where it is to be polled at that time and not under way."""
        file = self._files.get(url)
        return file if file is not None and file.next_poll == at and url not in self._under_way else None
