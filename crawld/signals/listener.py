"""The listener: which file to poll next, and what its answer means. It decides; a driver sends and records."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from crawld.content.listing import locate
from crawld.interfaces import Discoveries, Poll, PollResult, SourceFile
from crawld.model.fetched import Fetched, Outcome, Purpose, Request
from crawld.model.signal import Signal, Source
from crawld.model.url import host_of, origin_of
from crawld.signals import indexes
from crawld.signals.baseline import Baseline
from crawld.signals.files import FIRST_WAIT, SHORTEST_WAIT, File, Origin, restored
from crawld.signals.matching import PageIndex
from crawld.signals.reading import Listed, Reading, read_answer
from crawld.signals.schedule import PollSchedule
from crawld.signals.watcher import Finding, Known, compare

MOST_BYTES = 50 * 2**20
MOST_SITEMAP_LINES = 100
MOST_FEEDS_PER_HOST = 5  # of those found by links in pages
MOST_RECENT = 100_000
_PURPOSES = {Source.SITEMAP: Purpose.SITEMAP, Source.FEED: Purpose.FEED}


@dataclass(frozen=True, slots=True)
class Discovery:
    """Which listed URLs become pages of ours, and how many at most."""

    within: Callable[[str], bool]
    limit: int


@dataclass(frozen=True, slots=True)
class Listening:
    """How to listen: what is looked for, what is left alone, what is discarded."""

    find_sitemaps: bool = True
    find_feeds: bool = True
    given_sitemaps: Sequence[str] = ()
    given_feeds: Sequence[str] = ()
    delay: dict[Source, float] | float = 0.0  # seconds after a crawl in which signals are discarded
    discovery: Discovery | None = None
    sites: Sequence[str] = ()  # whose sitemaps are looked for though no page of theirs is known
    first_wait: float = FIRST_WAIT  # seconds between the first two polls of a file
    shortest_wait: float = SHORTEST_WAIT


class Listener:
    """Every sitemap and feed that is watched."""

    def __init__(self, pages: PageIndex, last_success: Callable[[int], float], listening: Listening) -> None:
        self.pages = pages
        self.schedule = PollSchedule()
        self._last_success = last_success
        self._listening = listening
        self._precision: dict[tuple[str, Source], float] = {}
        self._recent: dict[tuple[int, Source], int] = {}  # the stamp last signalled: files may list a page twice

    # -- what is watched --------------------------------------------------------------------------------------------

    def restore(self, files: Sequence[SourceFile]) -> None:
        """Take over what was watched before a restart, as far as the settings still want it."""
        for kept in files:
            file = restored(kept)
            if self._wants(file):
                self.schedule.add(file)

    def _wants(self, file: File) -> bool:
        match file.origin:
            case Origin.CONFIG:
                given = {*self._listening.given_sitemaps, *self._listening.given_feeds}
                return file.url in given or file.parent is not None
            case Origin.PAGE:
                return self._listening.find_feeds
            case _:
                return self._listening.find_sitemaps

    def watch_given(self, now: float) -> Sequence[Poll]:
        """Watch what the settings name; the files that are new."""
        given = [(url, Source.SITEMAP) for url in self._listening.given_sitemaps]
        given += [(url, Source.FEED) for url in self._listening.given_feeds]
        files = [File(url, source, host_of(url), Origin.CONFIG, next_poll=now) for url, source in given]
        return self._watch(files + self._first_guesses(now))

    def _first_guesses(self, now: float) -> list[File]:
        """The usual sitemap of each site of which nothing is watched yet: its poll has robots.txt read first."""
        watched = {file.host for file in self.schedule}
        origins = dict.fromkeys(origin_of(site) for site in self._listening.sites if host_of(site) not in watched)
        urls = [f"{origin}/sitemap.xml" for origin in origins] if self._listening.find_sitemaps else []
        return [File(url, Source.SITEMAP, host_of(url), Origin.GUESS, next_poll=now) for url in urls]

    def found(self, robots_url: str, sitemaps: Sequence[str], now: float) -> Sequence[Poll]:
        """Watch the sitemaps that a robots.txt names; where it names none, try the usual address."""
        if not self._listening.find_sitemaps:
            return []
        host = host_of(robots_url)
        named = [locate(line, robots_url) for line in sitemaps[:MOST_SITEMAP_LINES]]
        files = [
            File(url, Source.SITEMAP, host_of(url), Origin.ROBOTS, speaks_for=(host,), next_poll=now)
            for url in dict.fromkeys(named)
            if url
        ]
        if not files and not any(file.host == host for file in self.schedule):
            guess = f"{origin_of(robots_url)}/sitemap.xml"
            files = [File(guess, Source.SITEMAP, host, Origin.GUESS, next_poll=now)]
        return self._watch(files)

    def found_feeds(self, page_url: str, feeds: Sequence[str], now: float) -> Sequence[Poll]:
        """Watch feeds that a page links to, a few of each host."""
        if not self._listening.find_feeds:
            return []
        host = host_of(page_url)
        room = MOST_FEEDS_PER_HOST - sum(f.origin is Origin.PAGE and host in f.speaks_for for f in self.schedule)
        named = dict.fromkeys(locate(feed, page_url) for feed in feeds)
        urls = [url for url in named if url and url not in self.schedule][: max(room, 0)]
        files = [File(url, Source.FEED, host_of(url), Origin.PAGE, speaks_for=(host,), next_poll=now) for url in urls]
        return self._watch(files)

    def _watch(self, files: Sequence[File]) -> Sequence[Poll]:
        for file in files:
            file.wait = self._listening.first_wait
        return [Poll(file.exported(), polls=0) for file in files if self.schedule.add(file)]

    def appraise(self, host: str, source: Source, precision: float) -> None:
        """Take over what signals of a host and source have proved to be worth: the share of them that was right."""
        self._precision[host, source] = min(max(precision, 0.0), 1.0)

    # -- polls ------------------------------------------------------------------------------------------------------

    def due(self, now: float) -> Sequence[Request]:
        """Polls to send now, longest waiting first."""
        return [
            Request(file.url, file.host, _PURPOSES[file.source], file.etag, file.last_modified, MOST_BYTES)
            for file in self.schedule.due(now)
        ]

    def begin(self, request: Request) -> None:
        """The poll is under way."""
        self.schedule.begin(request.url)

    def release(self, request: Request, not_before: float) -> None:
        """The poll was not sent, or its answer never came."""
        file = self.schedule.get(request.url)
        if file is not None:
            file.next_poll = not_before
            self.schedule.plan(file)

    def reader(self, request: Request) -> Callable[[Outcome, float], Reading]:
        """What reads the answer to a poll; it can be pickled and run in a worker."""
        file = self.schedule.get(request.url)
        return partial(read_answer, request.url, file.hosts if file else frozenset())

    def finish(self, request: Request, reading: Reading, now: float) -> PollResult:
        """Decide what the answer means, and when to ask again."""
        file = self.schedule.get(request.url)
        if file is None:  # its index dropped it meanwhile
            return PollResult((), removed=(request.url,), summary="no longer watched")
        file.polls += 1
        if reading.trouble is not None:
            file.failed(now, reading.trouble, answered=reading.gone or reading.size > 0)
            result = PollResult([Poll(file.exported())], summary=reading.trouble)
        elif reading.listed is None:
            file.succeeded(now, worth=0.0, shortest=self._listening.shortest_wait)
            result = PollResult([Poll(file.exported())], summary="not modified")
        else:
            result = self._taken(file, reading, reading.listed, now)
        self.schedule.plan(file)
        return result

    def pushed(self, url: str, body: bytes, now: float) -> PollResult:
        """A hub delivered the feed at `url`: what it brought, without a poll; the next one will not tell it again."""
        file = self.schedule.get(url)
        reading = read_answer(url, file.hosts if file else frozenset(), Fetched(url, 200, body), now)
        if file is None or reading.listed is None or reading.trouble is not None:
            return PollResult((), summary=reading.trouble or "nothing delivered")
        finding = self._compared(file, reading, reading.listed, Source.WEBSUB, now)
        signals = self._unheard(finding)
        useful = sum(not signal.stale for signal in signals)
        return PollResult(
            polls=[Poll(file.exported(), polls=0)],
            signals=signals,
            discoveries=self._discoveries(reading.listed, finding, complete=False),
            summary=_summary(finding, reading.listed, useful, len(signals) - useful),
        )

    def _compared(self, file: File, reading: Reading, listed: Listed, source: Source, now: float) -> Finding:
        feed = reading.form is not None and reading.form.is_feed
        known = Known(self.pages, self._last_success, self._delay(source))
        before = Baseline.unpacked(file.baseline)
        finding = compare(before, listed, source, known, now, feed=feed, complete=reading.complete)
        file.baseline = finding.baseline.packed()
        return finding

    def _taken(self, file: File, reading: Reading, listed: Listed, now: float) -> PollResult:
        feed = reading.form is not None and reading.form.is_feed
        file.source = Source.FEED if feed else Source.SITEMAP  # whatever it was taken for
        file.etag, file.last_modified = reading.etag, reading.last_modified
        file.size, file.entries = reading.size, len(listed.keys) + len(reading.children)
        first = not file.baseline
        finding = self._compared(file, reading, listed, file.source, now)
        signals = self._unheard(finding)
        useful = sum(not signal.stale for signal in signals)
        walk = indexes.walk(self.schedule, file, reading.children, complete=reading.complete, now=now)
        file.changes += bool(finding.moved or finding.new or walk.news or first)
        file.signals += useful
        file.stale += len(signals) - useful
        file.discarded += finding.discarded
        file.site_events += finding.is_event
        worth = self._precision.get((file.host, file.source), 1.0) if useful else 0.0
        shortest = self._listening.shortest_wait
        file.succeeded(now, worth=max(worth, float(walk.news)), shortest=shortest)
        return PollResult(
            polls=[
                Poll(file.exported(), site_events=int(finding.is_event)),
                *(Poll(child.exported(), polls=0) for child in walk.planned),
            ],
            signals=signals,
            removed=walk.removed,
            discoveries=self._discoveries(listed, finding, complete=reading.complete and not feed),
            hubs=reading.hubs if feed else (),
            topic=reading.topic,
            summary=_summary(finding, listed, useful, len(signals) - useful),
        )

    def _delay(self, source: Source) -> float:
        delay = self._listening.delay
        return delay.get(source, 0.0) if isinstance(delay, dict) else delay

    def _unheard(self, finding: Finding) -> list[Signal]:
        """The signals that another file has not given before with the very same time."""
        news = []
        for signal, stamp in zip(finding.signals, finding.stamps, strict=True):
            heard = (signal.page_id, signal.source)
            if stamp != 0 and self._recent.get(heard) == stamp:
                continue
            self._recent[heard] = stamp
            news.append(signal)
        while len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]
        return news

    def _discoveries(self, listed: Listed, finding: Finding, *, complete: bool) -> Discoveries | None:
        discovery = self._listening.discovery
        if discovery is None:
            return None
        positions, ids = self.pages.find(listed.keys)
        ours = set(positions.tolist())
        wanted = (url for i, url in enumerate(listed.urls) if i not in ours and discovery.within(url))
        urls = list(islice(wanted, discovery.limit))
        if not urls and not len(finding.vanished):
            return None
        return Discoveries(urls, ids.tolist(), complete)

    # -- statistics -------------------------------------------------------------------------------------------------

    def statistics(self) -> dict[tuple[str, Source], Counter[str]]:
        """By host and source: files, dead, polls, changes, signals, stale, discarded, site_events."""
        totals: dict[tuple[str, Source], Counter[str]] = {}
        for file in self.schedule:
            total = totals.setdefault((file.host, file.source), Counter())
            total.update(files=1, dead=int(file.dead), polls=file.polls, changes=file.changes, signals=file.signals)
            total.update(stale=file.stale, discarded=file.discarded, site_events=file.site_events)
        return totals


def _summary(finding: Finding, listed: Listed, useful: int, stale: int) -> str:
    parts = {"entries": len(listed.keys), "ours": finding.matched, "moved": finding.moved, "new": finding.new}
    parts |= {"signals": useful, "stale": stale, "discarded": finding.discarded, "foreign": listed.foreign}
    text = " ".join(f"{name}={count}" for name, count in parts.items() if count)
    return f"{text} site event" if finding.is_event else text or "empty"
