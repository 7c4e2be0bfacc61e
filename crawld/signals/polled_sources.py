"""The sitemaps and feeds that are polled: which one next, and what its answer means. A driver sends and records."""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from crawld.model.fetched import Outcome, Purpose, Request
from crawld.model.signal import SITEMAPS, Claimed, Signal, Source, sitemap_source
from crawld.model.url import host_of, host_of_target, origin_of
from crawld.read.listing import locate
from crawld.signals.poll_signals import (
    EMPTY,
    Baseline,
    Finding,
    Known,
    ListedFile,
    ListingDifference,
    PageIndex,
    Slices,
    find_signals,
)
from crawld.signals.reading import Polled, PollReading, read_answer, site_of
from crawld.signals.schedule import LIMITS as SCHEDULE_LIMITS
from crawld.signals.schedule import File, Origin, PollSchedule, restored
from crawld.store.sources import Poll, SourceFile


@dataclass(frozen=True)
class PolledSourcesLimits:
    """Numbers that bound and tune this module."""

    walked_at_once: int = 100
    """Files of an index that are looked at in one slice."""
    step: float = 5.0  # seconds from one file to the next
    deepest: int = 2  # an index in an index, and no further
    together_seconds: float = 300.0
    """Moves of two files of one site within this time are taken for one event."""
    max_sites: int = 10_000
    """Sites whose latest moves are remembered; beyond it the older half is forgotten."""
    max_bytes: int = 50 * 2**20
    max_sitemap_lines: int = 100
    max_recent: int = 50_000
    """Signals remembered so that another file does not tell them again, and as many older ones."""
    max_linked_feeds: int = 20
    """Feeds of one page that are looked at."""
    signals_at_once: int = 2_000
    """Signals that are looked through in one slice."""
    exported_at_once: int = 50
    """Files that are made ready for the store in one slice."""


LIMITS = PolledSourcesLimits()


@dataclass(frozen=True, slots=True)
class Discoveries:
    """Pages that a file lists within the scope of discovery, where that has changed."""

    urls: Sequence[str]  # not kept yet
    listed: Sequence[int]  # pages that are kept
    complete: bool  # what was found in this file before and is listed no more has left


@dataclass(frozen=True, slots=True)
class PollResult:
    """Decisions of a poll: for the store `polls` and `signals`; those that are not stale count."""

    polls: Sequence[Poll]  # the file itself, then those it led to
    signals: Sequence[Signal] = ()
    removed: Sequence[str] = ()  # files no longer watched, to be forgotten
    discoveries: Discoveries | None = None  # None: discovery is off, or nothing came or went
    elsewhere: Sequence[Claimed] = ()  # changes of pages on other sites, where other workers hold those
    hubs: Sequence[str] = ()  # WebSub hubs that would push this feed
    topic: str | None = None
    summary: str = ""
    trouble: str | None = None  # why the file told nothing

    @property
    def news(self) -> bool:
        """Tells whether the poll brought anything but a file that says what it said before."""
        return bool(self.signals or self.removed or self.trouble) or self.discoveries is not None


@dataclass(frozen=True, slots=True)
class IndexWalk:
    """Outcome of reading an index, whose files join the schedule one after the other, the latest first."""

    planned: Sequence[File] = field(default=())  # joined, or brought forward since the index says they changed
    moved: Sequence[File] = field(default=())  # the latter
    removed: Sequence[str] = field(default=())

    @property
    def news(self) -> bool:
        """Tells whether the index said anything new."""
        return bool(self.planned or self.removed)


def walk_index(schedule: PollSchedule, index: File, reading: PollReading, now: float) -> Slices[IndexWalk]:
    """Watch what an index lists, poll sooner what it says has changed, and drop what it lists no more.

    A file whose lastmod stands still keeps its own rhythm: lastmod hastens, it never vetoes.
    """
    known = {file.url: file for file in schedule.children(index.url)}
    if not reading.children and not known:
        return IndexWalk()
    listed = {child.url: child.stamp for child in reading.children if child.url != index.url}
    removed = [url for url in known if url not in listed] if reading.complete else []
    for url in removed:
        schedule.remove(url)
    planned: list[File] = []
    moved: list[File] = []
    if index.depth >= LIMITS.deepest:
        return IndexWalk(removed=removed)
    for number, (url, stamp) in enumerate(listed.items()):
        if number % LIMITS.walked_at_once == 0:
            yield
        file = known.get(url)
        if file is None:
            file = _child(index, reading, url, stamp, now + len(planned) * LIMITS.step)
            if schedule.add(file):
                planned.append(file)
        elif stamp not in (0, file.stamp) and url in schedule:
            file.stamp = stamp
            file.next_poll = min(file.next_poll, now + len(planned) * LIMITS.step)
            schedule.plan(file)
            planned.append(file)
            moved.append(file)
    return IndexWalk(planned, moved, removed)


def _child(index: File, reading: PollReading, url: str, stamp: int, at: float) -> File:
    """A file that an index lists. Where a stranger answered for the index, the child may speak for that one alone."""
    stranger, origin = reading.answered_by, Origin.INDEX
    speaks_for = (stranger,) if stranger else tuple(dict.fromkeys((index.host, *index.speaks_for)))
    if index.origin is Origin.CONFIG and stranger is None:
        origin = Origin.CONFIG
    file = File(url, Source.SITEMAP, host_of_target(url), origin, speaks_for[: SCHEDULE_LIMITS.max_spoken_for])
    file.parent, file.depth, file.planter = index.url, index.depth + 1, index.planter
    file.next_poll, file.stamp = at, stamp
    return file


@dataclass(frozen=True, slots=True)
class MovedShare:
    """Entries of a file that moved in one poll, and how many all files of its site list."""

    moved: int
    listed: int  # entries that could have moved
    site_lists: int


@dataclass(slots=True)
class _Moves:
    """The latest moves of one site: by file, the latest last, when they were seen and how many entries moved."""

    by_file: dict[str, tuple[float, int]] = field(default_factory=dict)
    total: int = 0

    def note(self, file: str, moved: int, now: float) -> None:
        """Take in a file's moves in place of its earlier ones; forget those of long ago."""
        self.forget(file)
        while self.by_file:
            oldest, (seen, _) = next(iter(self.by_file.items()))
            if now - seen <= LIMITS.together_seconds:
                break
            self.forget(oldest)
        self.by_file[file] = (now, moved)
        self.total += moved

    def forget(self, file: str) -> None:
        """Leave a file's moves out."""
        self.total -= self.by_file.pop(file, (0.0, 0))[1]


class SiteMoves:
    """Lastmods of each site that moved together, over all its files that were polled within minutes."""

    def __init__(self) -> None:
        self.sites: dict[str, _Moves] = {}

    def expect(self, site: str, file: str, now: float) -> None:
        """An index says that a file has changed: at least one of its entries has moved."""
        self._note(site, file, 1, now)

    def source(self, site: str, file: str, share: MovedShare, now: float) -> Source:
        """The source of a poll's signals: by the share that moved in the file, or in the site's files together."""
        if not share.moved:
            if site in self.sites:
                self.sites[site].forget(file)
            return Source.SITEMAP
        together = self._note(site, file, share.moved, now)
        in_file = sitemap_source(share.moved, share.listed)
        in_site = sitemap_source(together, max(share.site_lists, together))
        return max(in_file, in_site, key=SITEMAPS.index)

    def _note(self, site: str, file: str, moved: int, now: float) -> int:
        moves = self.sites.pop(site, None) or _Moves()
        moves.note(file, moved, now)
        self.sites[site] = moves  # the latest last
        if len(self.sites) > LIMITS.max_sites:
            self.sites = dict(list(self.sites.items())[LIMITS.max_sites // 2 :])
        return moves.total


_PURPOSES = {Source.SITEMAP: Purpose.SITEMAP, Source.FEED: Purpose.FEED}


@dataclass(frozen=True, slots=True)
class Discovery:
    """Scope of the listed URLs that may become pages."""

    scope: tuple[str, ...]  # identities with which their URLs begin


@dataclass(frozen=True, slots=True)
class PollSettings:
    """Settings of what is polled and which signals are discarded."""

    find_sitemaps: bool = True
    find_feeds: bool = True
    given_sitemaps: Sequence[str] = ()
    given_feeds: Sequence[str] = ()
    delay: dict[Source, float] | float = 0.0  # seconds after a crawl in which signals are discarded
    discovery: Discovery | None = None
    others: bool = False  # whether changes that files list on other sites are told: other workers hold those pages
    sites: Sequence[str] = ()  # whose sitemaps are looked for though no page of theirs is known
    first_wait: float = SCHEDULE_LIMITS.first_wait  # seconds between the first two polls of a file
    shortest_wait: float = SCHEDULE_LIMITS.min_wait


class PolledSources:
    """Every sitemap and feed that is watched.

    `has_pages` says of a host whether any page is on it, `gone` of a page whether our last crawl found it gone.
    """

    def __init__(
        self,
        pages: PageIndex,
        last_success: Callable[[int], float],
        settings: PollSettings,
        has_pages: Callable[[str], object],
        gone: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.pages = pages
        self._gone = gone
        self._has_pages = has_pages
        self.schedule = PollSchedule()
        self._last_success = last_success
        self._settings = settings
        self._moves = SiteMoves()
        self.precision: dict[tuple[str, Source], float] = {}
        self._recent: dict[tuple[int, Source], int] = {}  # the stamp last signalled: files may list a page twice
        self._less_recent: dict[tuple[int, Source], int] = {}
        given = (*settings.sites, *settings.given_sitemaps, *settings.given_feeds)
        self.restores = 0  # how often files were taken over that were watched before
        self._given_sites = frozenset(site_of(host_of(url)) for url in given)

    def restore(self, files: Sequence[SourceFile]) -> Sequence[str]:
        """Take over what was watched before a restart, as far as settings and budgets allow; the URLs to be forgotten.

        Files that have brought signals come first, so that a flood of others is what the budgets cut off.
        """
        self.restores += 1
        kept = sorted(
            map(restored, files), key=lambda file: (file.origin is not Origin.CONFIG, -file.signals, -file.changes)
        )
        wanted = [file for file in kept if self._wants(file)]
        return [file.url for file in wanted if not (self._may_plant(file.planter) and self.schedule.add(file))]

    def _may_plant(self, host: str) -> bool:
        """Tells whether a host may name files: the settings name its site, or pages that are kept are on it."""
        names = (host, host.removeprefix("www."), f"www.{host}")
        return site_of(host) in self._given_sites or any(self._has_pages(name) for name in names)

    def _wants(self, file: File) -> bool:
        if file.origin is Origin.CONFIG:
            given = {*self._settings.given_sitemaps, *self._settings.given_feeds}
            return file.url in given or file.parent is not None
        return self._settings.find_feeds if file.origin is Origin.PAGE else self._settings.find_sitemaps

    def watch_given(self, now: float, wanted: Callable[[str], bool] = lambda _: True) -> Sequence[Poll]:
        """Watch what the settings name on hosts that are wanted; the files that are new."""
        given = [(url, Source.SITEMAP) for url in self._settings.given_sitemaps]
        given += [(url, Source.FEED) for url in self._settings.given_feeds]
        files = [File(url, source, host_of(url), Origin.CONFIG, next_poll=now) for url, source in given]
        if self._settings.find_sitemaps:
            # Of each site of which nothing is watched yet the usual one: its poll has robots.txt read first.
            watches = self.schedule.budgets.watches
            origins = dict.fromkeys(origin_of(site) for site in self._settings.sites if not watches(host_of(site)))
            guesses = [f"{origin}/sitemap.xml" for origin in origins]
            files += [File(url, Source.SITEMAP, host_of(url), Origin.GUESS, next_poll=now) for url in guesses]
        return self._watch([file for file in files if wanted(file.host)])

    def unwatch(self, hosts: Container[str]) -> int:
        """Watch no file on these hosts any more; how many are left because they are being polled."""
        found = [file.url for file in self.schedule if file.host in hosts]
        polled = [url for url in found if self.schedule.under_way(url)]
        for url in set(found).difference(polled):
            self.schedule.remove(url)
        return len(polled)

    def found(
        self, robots_url: str, sitemaps: Sequence[str], now: float, answered: str | None = None
    ) -> Sequence[Poll]:
        """Watch the sitemaps that a robots.txt names; where it names none, try the usual address.

        What a redirect to another site answered names nothing for this one.
        """
        host = host_of(robots_url)
        if not self._settings.find_sitemaps or not self._may_plant(host):
            return []
        if answered is not None and site_of(host_of(answered)) != site_of(host):
            sitemaps = ()
        named = [locate(line, robots_url) for line in sitemaps[: LIMITS.max_sitemap_lines]]
        files = [
            File(url, Source.SITEMAP, host_of_target(url), Origin.ROBOTS, speaks_for=(host,), next_poll=now)
            for url in dict.fromkeys(named)
            if url and url not in self.schedule
        ]
        if not any(named) and not self.schedule.budgets.watches(host):
            guess = f"{origin_of(robots_url)}/sitemap.xml"
            files = [File(guess, Source.SITEMAP, host, Origin.GUESS, next_poll=now)]
        return self._watch(files)

    def found_feeds(self, page_url: str, feeds: Sequence[str], now: float) -> Sequence[Poll]:
        """Watch feeds that a page links to, a few of each host."""
        host = host_of(page_url)
        room = self.schedule.budgets.room_for_feeds(host)
        if room <= 0 or not self._settings.find_feeds or not self._may_plant(host):
            return []
        named = dict.fromkeys(locate(feed, page_url) for feed in feeds[: LIMITS.max_linked_feeds])
        urls = [url for url in named if url and url not in self.schedule]
        return self._watch(
            [
                File(url, Source.FEED, host_of_target(url), Origin.PAGE, speaks_for=(host,), next_poll=now)
                for url in urls[:room]
            ]
        )

    def _watch(self, files: Sequence[File]) -> Sequence[Poll]:
        for file in files:
            file.wait = self._settings.first_wait
        return [Poll(file.exported(), polls=0) for file in files if self.schedule.add(file)]

    def appraise(self, host: str, source: Source, precision: float) -> None:
        """Take over what signals of a host and source have proved to be worth: the share of them that was right."""
        if self.schedule.budgets.watches(host):
            self.precision[host, source] = min(max(precision, 0.0), 1.0)
        else:
            self.precision.pop((host, source), None)

    def due(self, now: float, *, explore: bool = True) -> Iterator[Request]:
        """Polls to send now, by turns of the sites that planted the files; only preferred ones unless to `explore`."""
        for file in self.schedule.due(now, explore=explore):
            yield Request(file.url, file.host, _PURPOSES[file.source], file.etag, file.last_modified, LIMITS.max_bytes)

    def prefers(self, request: Request) -> bool:
        """Tells whether the poll goes before exploring ones."""
        file = self.schedule.get(request.url)
        return file is not None and file.preferred

    def postpone(self, request: Request, until: float) -> None:
        """The poll's host may not be asked before then."""
        self.schedule.rest(request.url, until)

    def begin(self, request: Request) -> None:
        """The poll is under way."""
        self.schedule.begin(request.url)

    def release(self, request: Request, not_before: float) -> None:
        """The poll was not sent, or its answer never came."""
        file = self.schedule.get(request.url)
        if file is not None:
            file.next_poll = not_before
            self.schedule.plan(file)

    def reader(self, request: Request) -> Callable[[Outcome, float], PollReading]:
        """Returns what reads the answer to a poll; it can run in a worker."""
        return self.reader_of(request.url)

    def reader_of(self, url: str) -> Callable[[Outcome, float], PollReading]:
        """Returns what reads the file at `url`, polled or delivered; it can run in a worker."""
        file, discovery = self.schedule.get(url), self._settings.discovery
        scope = () if discovery is None else discovery.scope
        if file is None:
            return partial(read_answer, Polled(url, frozenset()))
        return partial(read_answer, Polled(url, file.hosts, file.baseline, scope, self._settings.others))

    def finish(self, request: Request, reading: PollReading, now: float) -> Slices[PollResult]:
        """Decide what the answer means, and when to ask again."""
        file = self.schedule.get(request.url)
        if file is None:  # its index dropped it meanwhile
            return PollResult((), removed=(request.url,), summary="no longer watched")
        file.polls += 1
        if reading.trouble is not None or reading.listed is None or reading.difference is None:
            if reading.trouble is not None:
                file.failed(now, reading.trouble, answered=reading.gone or reading.size > 0)
            else:
                file.succeeded(now, worth=0.0, shortest=self._settings.shortest_wait)
            self.schedule.plan(file)
            told = reading.trouble or "not modified"
            return PollResult([Poll(file.exported())], summary=told, trouble=reading.trouble)
        return (yield from self._taken(file, reading, reading.listed, reading.difference, now))

    def bought(self, url: str, staleness: float, gain: float, level: float) -> Poll | None:
        """Take in what the signals of the last poll of a file bought, and poll it again as soon as that pays.

        Returns the file where it is planned anew.
        """
        file = self.schedule.get(url)
        if file is None or self.schedule.under_way(url):
            return None
        planned = file.next_poll
        file.bought(staleness, gain)
        file.plan_by_value(level, self._settings.shortest_wait)
        if file.next_poll == planned:
            return None
        self.schedule.plan(file)
        return Poll(file.exported(), polls=0)

    def poll_soon(self, url: str, now: float) -> None:
        """Polls a file at once where it is watched here: another process was told that it has changed."""
        file = self.schedule.get(url)
        if file is not None and not self.schedule.under_way(url):
            file.next_poll = min(file.next_poll, now)
            self.schedule.plan(file)

    def take_delivery(self, url: str, reading: PollReading, now: float) -> Slices[PollResult]:
        """A hub delivered the feed at `url`: what it brought, without a poll; the next one will not tell it again."""
        file = self.schedule.get(url)
        if file is None or reading.listed is None or reading.difference is None or reading.trouble is not None:
            return PollResult((), summary=reading.trouble or "nothing delivered", trouble=reading.trouble)
        finding = yield from self._compared(file, reading.listed, reading.difference, Source.WEBSUB, now)
        signals, useful = yield from self._unheard(finding)
        return PollResult(
            polls=[Poll(file.exported(), polls=0)],
            signals=signals,
            discoveries=self._discoveries(reading.listed, finding, complete=False),
            elsewhere=_elsewhere(reading.listed, reading.difference, finding.source),
            summary=_summary(finding, reading.listed, useful, len(signals) - useful),
        )

    def _compared(
        self, file: File, listed: ListedFile, difference: ListingDifference, kind: Source, now: float
    ) -> Slices[Finding]:
        delay = self._settings.delay
        delay = delay.get(kind, 0.0) if isinstance(delay, dict) else delay
        known = Known(self.pages, self._last_success, delay, self._gone)

        def source_of(moved: int, of: int) -> Source:
            if kind is not Source.SITEMAP:
                return kind
            share = MovedShare(moved, of, self.schedule.budgets.entries(file.planter))
            return self._moves.source(file.planter, file.url, share, now)

        finding = yield from find_signals(listed, difference, source_of, known, now)
        if file.url in self.schedule and not self.schedule.budgets.remember(file, difference.baseline):
            ours = (Baseline.unpacked(difference.baseline) or EMPTY).only(listed.keys[finding.positions])
            if not self.schedule.budgets.remember(file, ours.packed()):
                self.schedule.budgets.remember(file, b"")
        return finding

    def _taken(
        self, file: File, reading: PollReading, listed: ListedFile, difference: ListingDifference, now: float
    ) -> Slices[PollResult]:
        feed = reading.is_feed
        file.source = Source.FEED if feed else Source.SITEMAP  # whatever it was taken for
        file.etag, file.last_modified = reading.etag, reading.last_modified
        file.size = reading.size
        self.schedule.budgets.count_entries(file, len(listed.keys))
        first = not file.baseline
        finding = yield from self._compared(file, listed, difference, file.source, now)
        signals, useful = yield from self._unheard(finding)
        walk = yield from walk_index(self.schedule, file, reading, now)
        for moved in walk.moved:
            self._moves.expect(moved.planter, moved.url, now)
        file.changes += bool(finding.moved or finding.new or walk.news or first)
        file.signals += useful
        file.stale += len(signals) - useful
        file.discarded += finding.discarded
        file.site_events += finding.is_event
        worth = self.precision.get((file.host, signals[0].source), 1.0) if useful else 0.0
        shortest = self._settings.shortest_wait
        file.succeeded(now, worth=max(worth, float(walk.news)), shortest=shortest)
        self.schedule.plan(file)
        children = yield from _exported(walk.planned)
        return PollResult(
            polls=[Poll(file.exported(), site_events=int(finding.is_event)), *children],
            signals=signals,
            removed=walk.removed,
            discoveries=self._discoveries(listed, finding, complete=reading.complete and not feed),
            elsewhere=_elsewhere(listed, difference, finding.source),
            hubs=reading.hubs if feed else (),
            topic=reading.topic,
            summary=_summary(finding, listed, useful, len(signals) - useful),
        )

    def _unheard(self, finding: Finding) -> Slices[tuple[list[Signal], int]]:
        """The signals that another file has not given before with the very same time, and how many are not stale."""
        news: list[Signal] = []
        useful = 0
        for number, (signal, stamp) in enumerate(zip(finding.signals, finding.stamps, strict=True), 1):
            heard = (signal.page_id, signal.source.kind)
            before = self._recent.get(heard, self._less_recent.get(heard))
            if stamp == 0 or before != stamp or self._gone(signal.page_id):
                self._recent[heard] = stamp
                news.append(signal)
                useful += not signal.stale
            if len(self._recent) >= LIMITS.max_recent:
                self._recent, self._less_recent = {}, self._recent
            if number % LIMITS.signals_at_once == 0:
                yield
        return news, useful

    def _discoveries(self, listed: ListedFile, finding: Finding, *, complete: bool) -> Discoveries | None:
        discovery = self._settings.discovery
        if discovery is None:
            return None
        others = ~np.isin(listed.wanted, finding.positions)
        all_urls = listed.wanted_urls.split("\n") if others.any() else []
        urls = [all_urls[i] for i in np.flatnonzero(others).tolist()]
        if not urls and not finding.vanished:
            return None
        return Discoveries(urls, finding.pages.tolist(), complete)

    def statistics(self) -> dict[tuple[str, Source], Counter[str]]:
        """By host and source: files, dead, polls, changes, signals, stale, discarded, site_events."""
        totals: dict[tuple[str, Source], Counter[str]] = {}
        for file in self.schedule:
            total = totals.setdefault((file.host, file.source), Counter())
            total.update(files=1, dead=int(file.dead), polls=file.polls, changes=file.changes, signals=file.signals)
            total.update(stale=file.stale, discarded=file.discarded, site_events=file.site_events)
        return totals


def _elsewhere(listed: ListedFile, difference: ListingDifference, source: Source) -> Sequence[Claimed]:
    """The changes that a file told of pages on other sites; what it lists for the first time is no change."""
    urls, claims = listed.other_urls.split("\n"), listed.at[listed.others].tolist()
    moved = np.flatnonzero(difference.news[listed.others]).tolist()
    return [(urls[i], source, None if math.isnan(claims[i]) else claims[i]) for i in moved]


def _exported(files: Sequence[File]) -> Slices[list[Poll]]:
    """Files for the store."""
    polls = []
    for number, file in enumerate(files, 1):
        polls.append(Poll(file.exported(), polls=0))
        if number % LIMITS.exported_at_once == 0:
            yield
    return polls


def _summary(finding: Finding, listed: ListedFile, useful: int, stale: int) -> str:
    parts = {"entries": len(listed.keys), "ours": len(finding.pages), "moved": finding.moved, "new": finding.new}
    parts |= {"signals": useful, "stale": stale, "discarded": finding.discarded, "foreign": listed.foreign}
    text = " ".join(f"{name}={count}" for name, count in parts.items() if count)
    return f"{text} site event" if finding.is_event else text or "empty"
