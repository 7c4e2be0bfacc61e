"""What the drivers need of signal sources, polled and pushed."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from crawld.model.fetched import Outcome, Request
from crawld.model.signal import SOURCES, Claimed, KeyCheck, PushAnswer, Signal, Source
from crawld.store.sources import Poll

T = TypeVar("T")
Slices = Generator[None, None, T]
"""Work in slices of a few milliseconds: whoever drives it lets others have their turn in between."""


def at_once(slices: Slices[T]) -> T:
    """Do all slices in a row, where they are known to be few."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What a file lists within the scope of discovery, where that has changed."""

    urls: Sequence[str]  # no pages of ours yet
    listed: Sequence[int]  # pages of ours
    complete: bool  # what was found in this file before and is listed no more has left


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a poll decided: for the store `polls` and `signals`, for the scheduler `counted`."""

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
        """Whether the poll brought anything but a file that says what it said before."""
        return bool(self.signals or self.removed or self.trouble) or self.discoveries is not None

    @property
    def counted(self) -> Sequence[tuple[int, int]]:
        """Page id and source index of every signal that counts."""
        return [(signal.page_id, SOURCES.index(signal.source)) for signal in self.signals if not signal.stale]


class SignalSources(Protocol):
    """Signal sources: what to poll next, and what the answers mean. No verb awaits."""

    def due(self, now: float, *, explore: bool = True) -> Iterator[Request]:
        """Polls to send now, by turns of the sites that planted the files; several, since a host may not be ready.

        Unless to `explore`, only files whose signals pay for their polls.
        """

    def prefers(self, request: Request) -> bool:
        """Whether the poll goes before exploring ones."""

    def postpone(self, request: Request, until: float) -> None:
        """The poll's host may not be asked before then."""

    def begin(self, request: Request) -> None:
        """The poll is under way: it is not due again until `finish`."""

    def release(self, request: Request, not_before: float) -> None:
        """Give up a poll that was not sent, or whose answer never came; it is due again from then on."""

    def reader(self, request: Request) -> Callable[[Outcome, float], Any]:
        """What reads the answer to a poll, for `finish` alone; it can run in a worker."""

    def finish(self, request: Request, reading: Any, now: float) -> Slices[PollResult]:
        """Decide what the answer means in the light of the last one; trouble takes no slice."""

    def bought(self, url: str, staleness: float, gain: float, level: float) -> Poll | None:
        """Take in what the last poll's signals bought: importance shown to be stale, fresh seconds by importance.

        `level` is the crawl value at which pages are picked. Returns the file where its next poll is planned anew.
        """

    def found(
        self, robots_url: str, sitemaps: Sequence[str], now: float, answered: str | None = None
    ) -> Sequence[Poll]:
        """robots.txt of a site was read; these are its Sitemap lines. The files that are watched from now on.

        `answered` is the URL that redirects led to: another site names nothing for this one.
        """

    def found_feeds(self, page_url: str, feeds: Sequence[str], now: float) -> Sequence[Poll]:
        """A page links to these feeds in its head. The files that are watched from now on."""

    def appraise(self, host: str, source: Source, precision: float) -> None:
        """Signals of this host and source proved right this often: poll them as often as that is worth."""


class Pings(Protocol):
    """Takes what is pushed: bodies in, answers and signals out."""

    @property
    def read_signals(self) -> Callable[[bytes, float], Any]:
        """Reads the body of a `POST /signals` at a time, for `take` alone; can run in a worker."""

    @property
    def read_indexnow(self) -> Callable[[bytes], Any]:
        """Reads the body of an IndexNow POST, for `take` alone; can run in a worker."""

    def take(self, ping: Any, now: float) -> Slices[PushAnswer]:
        """Take in a ping that was read."""

    def get_indexnow(self, query: Mapping[str, str], now: float) -> PushAnswer:
        """IndexNow's GET."""

    def key_checked(self, check: KeyCheck, outcome: Outcome, now: float) -> Sequence[Signal]:
        """Asking the host for a key brought this: the signals that waited for it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A feed that a hub delivered: `read(now)` reads it; it can run in a worker."""

    url: str
    host: str
    read: Callable[[float], Any]


class Hubs(Protocol):
    """WebSub: asks hubs to push feeds, and takes what they send."""

    def subscribe(self, url: str, hubs: Sequence[str], topic: str | None, now: float) -> Request | None:
        """The request to send where a poll of the feed at `url` found hubs."""

    def renewals(self, now: float) -> Sequence[Request]:
        """Requests for leases that are about to end."""

    def confirm(self, token: str, query: Mapping[str, str], now: float) -> tuple[int, str]:
        """Status and text to answer a hub that asks whether we meant it."""

    def accept(
        self, token: str, body: bytes, headers: Mapping[str, str], now: float
    ) -> tuple[int, str, Delivery | None]:
        """Status and text to answer a delivery, and what to read where it is to be taken in."""

    def take(self, url: str, reading: Any, now: float) -> Slices[PollResult]:
        """Take in what a delivery for the feed at `url` was read as."""
