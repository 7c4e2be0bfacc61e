"""The URL list: read beside the loop, and taken over piece by piece while slots are served where it is long."""

import asyncio
import hashlib
import logging
import os
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from crawld import __version__
from crawld.model.access import access_refused
from crawld.model.errors import CrawldError, InputError
from crawld.model.page import FROM_LIST
from crawld.model.units import many
from crawld.model.web import Clock
from crawld.pages.page_set import PageSet
from crawld.pages.status import Counters
from crawld.read.url_list import UrlList, read_changed_lines, read_url_list
from crawld.store.pages import Adoption


@dataclass(frozen=True, slots=True)
class ListNews:
    """Effect of the URL list since the last reload, or the start."""

    added: int = 0
    removed: int = 0
    held_back: str | None = None  # why pages that the list no longer names stay

    @property
    def sentence(self) -> str:
        """The same for people."""
        told = (
            f"{self.added} added, {self.removed} removed" if self.added or self.removed else "nothing added or removed"
        )
        return told if self.held_back is None else f"{told}; {self.held_back}"


@dataclass(frozen=True)
class ListFileLimits:
    """Numbers that bound and tune this module."""

    max_first_wait: float = 10.0  # seconds for which the first slot waits for the list
    progress_seconds: float = 10.0
    always_removed: int = 10
    """Pages that a list may take off whatever share of all they are: who keeps a few knows them all."""


LIMITS = ListFileLimits()


log = logging.getLogger("crawld")

STANDARD_INPUT = "-"
TAKEN_OVER = "list taken over"  # the setting that holds the mark of the list, and how many lines were good and bad


def read_list(source: str) -> UrlList:
    """The URL list from a file, or from standard input for `-`."""
    return read_url_list(list_body(source))


def no_usable_line(source: str, listed: UrlList) -> InputError:
    """Returns what is wrong with a list that gives no page."""
    bad_lines = f"{len(listed.bad)} bad, the rest empty" if listed.bad else "it is empty"
    return InputError(f"URL list {source}: no usable line ({bad_lines}). Write one http or https URL a line.")


def read_once(source: str) -> bool:
    """Tells whether the list can be read a single time only: standard input, or a pipe such as `<(…)`."""
    if source == STANDARD_INPUT:
        return True
    try:
        mode = os.stat(source).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


async def _body_beside(source: str) -> bytes:
    """Read beside the loop; what may never end is read in a thread that a stop does not wait for."""
    if not read_once(source):
        return await asyncio.to_thread(list_body, source)
    result: Future[bytes] = Future()
    result.set_running_or_notify_cancel()

    def read() -> None:
        try:
            result.set_result(_standard_input() if source == STANDARD_INPUT else list_body(source))
        except InputError as error:
            result.set_exception(error)

    threading.Thread(target=read, name="URL list", daemon=True).start()
    return await asyncio.wrap_future(result)


def _standard_input() -> bytes:
    """Read descriptor 0 itself: sys.stdin has a lock, and Python cannot exit while a thread holds it."""
    try:
        with open(0, "rb", buffering=0, closefd=False) as stream:
            return stream.read() or b""
    except OSError as error:
        raise InputError(f"URL list from standard input: cannot be read: {error.strerror}") from None


def list_body(source: str) -> bytes:
    """The bytes of a URL list; InputError where it cannot be read."""
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except PermissionError:
        raise InputError(f"URL list {access_refused(Path(source))}") from None
    except OSError as error:
        raise InputError(f"URL list {source}: cannot be read: {error.strerror}") from None


def list_mark(body: bytes) -> str:
    """Returns what tells one list, as this version reads it, from another."""
    return hashlib.blake2b(body, digest_size=16, key=__version__.encode()).hexdigest()


class ListFile:
    """Takes over the URL list that `source` names, one time after another.

    The store keeps a mark of the list it holds whole, so that a restart with the same list has nothing to do.
    """

    def __init__(
        self,
        source: Callable[[], tuple[str | None, float]],
        reading: Callable[[], None],
        page_set: PageSet,
        clock: Clock,
        status: Counters,
        *,
        retire: bool = False,
        first_wait: float = LIMITS.max_first_wait,
    ) -> None:
        """`source` gives the list and the share of its pages that may go at once; `retire` is for the first list."""
        self._source, self._reading, self._status = source, reading, status
        self._page_set, self._store, self._clock = page_set, page_set.store, clock
        self._first_wait, self._retire_at_first = first_wait, retire
        self._news = ListNews()  # since the start or the last reload
        self._one_at_a_time = asyncio.Lock()
        self._first: asyncio.Task[None] | None = None
        self._used_up: str | None = None  # a source that gives nothing more

    async def begin(self) -> None:
        """Take the list over at a start; what is left of it after a while is for `run`."""
        self._first = asyncio.create_task(self._take_over(unless_same=True, retire=self._retire_at_first))
        try:
            await asyncio.wait([self._first], timeout=self._first_wait)
        except asyncio.CancelledError:
            self._first.cancel()
            await asyncio.wait([self._first])
            raise
        if self._first.done():
            await self._first

    async def run(self) -> None:
        """Go on with what `begin` began; raises what went wrong with it."""
        if self._first is not None:
            await self._first
        await asyncio.Event().wait()  # a service that ends would end the daemon

    async def begun(self) -> None:
        """Return once the first list is taken over or has failed."""
        if self._first is not None:
            await asyncio.wait([self._first])

    async def load_changed(self) -> None:
        """Take the list over where it says something else than before."""
        await self._take_over(unless_same=True)

    async def load(self, *, retire: bool = False) -> ListNews | None:
        """Take the list over as it is now; what it did since the last time, or None where there is no list.

        Pages removed by hand come back, unless they are kept out. A pipe that was read is left alone.
        """
        source, _ = self._source()
        if source is None or source != self._used_up:
            await self._take_over(unless_same=False, retire=retire)
        news, self._news = self._news, ListNews()
        return None if source is None else replace(news, held_back=self._status.list_held_back)

    async def _take_over(self, *, unless_same: bool, retire: bool = False) -> None:
        """Each bad line is named, nothing usable is an error."""
        async with self._one_at_a_time:
            source, share = self._source()
            if source is None:
                return
            self._reading()
            body = await _body_beside(source)
            self._used_up = source if read_once(source) else None
            if not await self._accepts(source, body):
                return
            mark = await asyncio.to_thread(list_mark, body)
            before, pages, bad_before = (await self._store.setting(TAKEN_OVER) or "- 0 0").split()
            if unless_same and before == mark:
                told = {"list": source, "pages": int(pages), "bad": int(bad_before), "unchanged": True}
                log.info("list", extra=told)
                return
            if self._first is None or self._first.done():
                before_it = await self._store.listed_pages(FROM_LIST)
                listed = await asyncio.to_thread(read_changed_lines, body, before_it)
                del before_it
            else:  # pages may be kept as another version spelt them
                listed = await asyncio.to_thread(read_url_list, body)
            del body
            for bad in listed.bad:
                log.warning("bad line in URL list", extra={"list": source, "reason": str(bad)})
            if not listed.pages:
                raise no_usable_line(source, listed)
            await self._store.change_setting(TAKEN_OVER, None, now=self._clock.now())
            taken = await self._adopt(source, listed, 1.0 if retire else share)
            whole = f"{mark} {listed.pages} {len(listed.bad)}"
            if not taken.held_back:  # otherwise a restart has to come upon it again
                await self._store.change_setting(TAKEN_OVER, whole, now=self._clock.now())
            self._note(source, listed, taken)

    async def _accepts(self, source: str, body: bytes) -> bool:  # noqa: ARG002 - a fleet looks at both
        """Tells whether this list may be taken over; one daemon's own always may."""
        return True

    def _note(self, source: str, listed: UrlList, taken: Adoption) -> None:
        """Log what a list did, and say in the status what it was not allowed to do."""
        added, removed = len(taken.added) + len(taken.returned), len(taken.retired)
        if self._first is None or self._first.done():  # what a start finds is no news of a reload
            self._news = replace(self._news, added=self._news.added + added, removed=self._news.removed + removed)
        self._status.list_held_back = None
        _report(source, listed, taken)
        if taken.held_back:
            named = f"the URL list {source} no longer names {many(taken.held_back, 'page')}"
            what = "more than may go at once: they stay until `crawld reload --yes`, or until the list names them again"
            self._status.list_held_back = f"{named}, {what}"
            log.warning("pages that the URL list no longer names stay", extra={"reason": self._status.list_held_back})

    async def _adopt(self, source: str, listed: UrlList, share: float) -> Adoption:
        told = self._clock.monotonic()

        def progress(lines: int) -> None:
            nonlocal told
            if (now := self._clock.monotonic()) - told >= LIMITS.progress_seconds:
                told = now
                log.info("loading the URL list", extra={"list": source, "lines": lines, "of": len(listed.wanted)})

        def may_retire(retired: int, of: int) -> bool:
            return retired <= max(LIMITS.always_removed, share * of)

        now = self._clock.now()
        return await self._page_set.adopt(
            listed.wanted, origin=FROM_LIST, now=now, kept=listed.kept, may_retire=may_retire, progress=progress
        )


def _report(source: str, listed: UrlList, taken: Adoption) -> None:
    log.info(
        "list",
        extra={
            "list": source,
            "pages": listed.pages,
            "added": len(taken.added) + len(taken.returned),
            "reweighted": len(taken.reweighted),
            "respelt": len(taken.respelt),
            "retired": len(taken.retired),
            "held_back": taken.held_back or None,
            "kept_out": taken.excluded or None,
            "bad": len(listed.bad),
            "duplicates": listed.duplicates,
            "read_as": None if listed.form == "lines" else listed.form,
        },
    )


Mark = tuple[str, int, int, int]


class ListWatch:
    """Looks at a file every few seconds and has it loaded when it is another one and has stopped growing.

    A load for another reason is announced first (`loading`), so that it is not loaded a second time.
    """

    def __init__(
        self, path: Callable[[], Path | None], load: Callable[[], Awaitable[None]], *, seconds: float = 2.0
    ) -> None:
        self._path = path
        self._load = load
        self._seconds = seconds
        self._loaded: Mark | None = None

    def loading(self) -> None:
        """The file is about to be read as it is now."""
        self._loaded = self._mark()

    async def run(self) -> None:
        """Watch for ever."""
        seen = self._mark()
        while True:
            await asyncio.sleep(self._seconds)
            before, seen = seen, self._mark()
            if seen is None or seen == self._loaded or seen != before:
                continue
            self._loaded = seen
            try:
                await self._load()
            except CrawldError as error:
                log.error("URL list not loaded", extra={"reason": str(error)})  # noqa: TRY400 - a sentence says it

    def _mark(self) -> Mark | None:
        path = self._path()
        try:
            stat = None if path is None else path.stat()
        except OSError:
            return None
        return None if stat is None else (str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino)
