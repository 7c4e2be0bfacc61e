"""How many files one host may have us watch: whoever names a file plants it, and pays for it.

A host plants through its robots.txt, through links in its pages, and through the indexes found that way, however deep.
"""

from collections import Counter
from dataclasses import dataclass, field

from crawld.signals.files import File, Origin
from crawld.signals.sites import site_of

MOST_FILES = 100_000
"""Files watched in all, at some 700 bytes each."""
MOST_FILES_PER_HOST = 2_000
"""Files on one host, whoever planted them: an index may have as many."""
MOST_PLANTED = 2_000
"""Files one host plants in all."""
MOST_PLANTED_ELSEWHERE = 500
"""Files one host plants on other sites, such as the network that delivers its sitemaps."""
MOST_OTHER_HOSTS = 5
"""Other hosts on which one host plants."""
MOST_FEEDS_PER_HOST = 5
"""Feeds of a host that are found by links in pages."""
MOST_REMEMBERED_BYTES = 256 * 2**20
"""What all files listed, packed: some 20 million entries."""
MOST_REMEMBERED_BYTES_PER_PLANTER = 16 * 2**20
"""What the files listed that one host planted, packed: more than a million entries."""


@dataclass(slots=True)
class _Tally:
    """What one host has planted."""

    files: int = 0
    feeds: int = 0  # found by links in pages
    elsewhere: int = 0
    others: Counter[str] = field(default_factory=Counter)  # files by host, of other sites
    remembered: int = 0  # bytes
    entries: int = 0  # pages that the files list


class Budgets:
    """What each host has planted, and whether there is room for more."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._on_host: Counter[str] = Counter()
        self._files = self._remembered = 0

    def watches(self, host: str) -> bool:
        """Whether any file of the host is watched."""
        return host in self._on_host

    def room_for_feeds(self, planter: str) -> int:
        """How many feeds a host may still have found by links in its pages."""
        return MOST_FEEDS_PER_HOST - self._tallies[planter].feeds if planter in self._tallies else MOST_FEEDS_PER_HOST

    def has_room(self, file: File) -> bool:
        """Whether the host that plants the file may do so. What the settings name may lie on any host."""
        if self._files >= MOST_FILES or self._on_host[file.host] >= MOST_FILES_PER_HOST:
            return False
        tally = self._tallies.get(file.planter)
        if tally is None:
            return True
        if tally.files >= MOST_PLANTED or (file.origin is Origin.PAGE and tally.feeds >= MOST_FEEDS_PER_HOST):
            return False
        if file.origin is Origin.CONFIG or site_of(file.host) == site_of(file.planter):
            return True
        known = file.host in tally.others or len(tally.others) < MOST_OTHER_HOSTS
        return known and tally.elsewhere < MOST_PLANTED_ELSEWHERE

    def add(self, file: File) -> None:
        """Count a file for the host that planted it."""
        self._count(file, 1)

    def remove(self, file: File) -> None:
        """Count a file no longer."""
        self._count(file, -1)

    def _count(self, file: File, step: int) -> None:
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
        self._remember(tally, step * len(file.baseline))
        if not tally.files:
            del self._tallies[file.planter]

    def _remember(self, tally: _Tally, size: int) -> None:
        tally.remembered += size
        self._remembered += size

    def entries(self, planter: str) -> int:
        """How many pages the files list that a host planted."""
        return self._tallies[planter].entries if planter in self._tallies else 0

    def count_entries(self, file: File, entries: int) -> None:
        """Take over how many pages a watched file lists."""
        self._tallies[file.planter].entries += entries - file.entries
        file.entries = entries

    def remember(self, file: File, baseline: bytes) -> bool:
        """Keep what a watched file listed; False where its planter, or all together, would hold too much."""
        tally, more = self._tallies[file.planter], len(baseline) - len(file.baseline)
        fits = self._remembered + more <= MOST_REMEMBERED_BYTES
        if more > 0 and not (fits and tally.remembered + more <= MOST_REMEMBERED_BYTES_PER_PLANTER):
            return False
        self._remember(tally, more)
        file.baseline = baseline
        return True
