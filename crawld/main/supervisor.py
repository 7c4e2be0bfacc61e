"""The daemon's life on one screen: start, serve, tick, stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from crawld.choose.scheduler import Scheduler
from crawld.crawl.loop import Crawler
from crawld.model.crawl import Verdict
from crawld.model.units import format_rate
from crawld.model.web import Clock, Fetcher, Workers
from crawld.pages.page_set import PageSet
from crawld.pages.status import FreshnessNow
from crawld.show.actions import Reload
from crawld.store.batch import FreshnessPoint
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class SupervisorLimits:
    """Numbers that bound and tune this module."""

    max_line: int = 400
    drain_seconds: float = 3.0
    tick_seconds: float = 60.0
    prune_seconds: float = 300.0
    prune_pause: float = 1.0
    max_troubles_told: int = 3
    """Kinds of trouble that a summary names, the most frequent first."""
    forget_seconds: float = 600.0
    """Hosts without pages are forgotten once they were not asked for this long, at most twice as long."""


LIMITS = SupervisorLimits()


class Notifier:
    """Tells the service manager, where NOTIFY_SOCKET names one, how the daemon stands."""

    def __init__(self, address: str | None = None) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET") if address is None else address

    def send(self, *lines: str) -> None:
        """Send state lines such as READY=1; a service manager that has gone away is no reason to stop."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            try:
                sock.connect(address)
                sock.sendall("\n".join(lines).encode())
            except OSError:
                self._address = None

    @staticmethod
    def watchdog_seconds() -> float | None:
        """Returns how often the service manager wants to hear from us at the least, if it does."""
        usec, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
        if not usec or (pid and int(pid) != os.getpid()):
            return None
        return int(usec) / 1e6


def one_line(text: str) -> str:
    """A text of several lines as `systemctl status` can show it."""
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip()).replace(":; ", ": ")
    return line if len(line) <= LIMITS.max_line else f"{line[: LIMITS.max_line - 1]}…"


log = logging.getLogger("crawld")


Service = Callable[[], Awaitable[None]]


@contextlib.contextmanager
def handling_signals(stop: Callable[[], None], hang_up: Callable[[], None]) -> Iterator[None]:
    """Has the loop call these meanwhile: SIGTERM and SIGINT end a run, SIGHUP reads settings again."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: hang_up}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


@dataclass(slots=True)
class Daemon:
    """Everything that runs, put together by wiring."""

    store: SqlStore
    fetcher: Fetcher
    scheduler: Scheduler
    crawler: Crawler
    freshness: FreshnessNow
    page_set: PageSet
    clock: Clock
    workers: Workers
    prepare: Callable[[], Awaitable[None]]
    """Runs between restoring the pages and the first slot: takes over the list and the operator's settings."""
    control: Service | None = None
    """Answers commands from before the pages are restored; they are told how far that is."""
    services: Sequence[Service] = ()
    """Further loops that run beside the crawler until they are cancelled, as the learner does."""
    listening: Callable[[], Awaitable[str | None]] | None = None
    """Waits until it is known where the dashboard and API answer; None where they do not."""
    read_again: Callable[[bool], Awaitable[Reload]] | None = None
    """Reads settings and URL list again and takes them over, or says why not; True: also if many pages go."""
    tick_seconds: float = LIMITS.tick_seconds
    notifier: Notifier = field(default_factory=Notifier)
    catch_signals: bool = True
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: asyncio.Event = field(default_factory=asyncio.Event)
    _told: tuple[Counter[str], Counter[str], int] = field(default_factory=lambda: (Counter(), Counter(), 0))
    """Verdicts, troubles and requests that the log has been told of."""
    _one_reload: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reloading: set[asyncio.Future[Reload]] = field(default_factory=set)

    def stop(self) -> None:
        """End the run cleanly."""
        self._stop.set()

    async def run(self) -> None:
        """Live until `stop`, SIGTERM or SIGINT, or until one of the loops fails, which is raised."""
        with handling_signals(self.stop, self._on_hangup) if self.catch_signals else contextlib.nullcontext():
            await self.store.start()
            control = [] if self.control is None else [asyncio.ensure_future(self.control())]
            try:
                self.workers.start()
                self.crawler.status.starting = "restoring pages"
                await self._begin()
                self.crawler.status.starting = "taking over the URL list"
                if await self._prepared():
                    await self._serve(control)
            finally:
                for task in control:
                    task.cancel()
                await asyncio.gather(*control, return_exceptions=True)
                self.notifier.send("STOPPING=1")
                await self.fetcher.close()
                await self.workers.close()
                await self.store.close()

    async def _begin(self) -> None:
        """Bring back what is in the store."""
        self.page_set.on_restored = self._tell_restored
        pages = await self.page_set.restore(self.clock.now())
        log.info("restored", extra={"pages": pages})

    def _tell_restored(self, pages: int, of: int) -> None:
        self.crawler.status.starting = f"restoring pages: {pages:,} of {of:,}"

    async def _end(self) -> None:
        """Nothing is under way any more; the loops still run."""

    def _loops(self) -> Sequence[Service]:
        """Returns what runs beside the services."""
        return [self.crawler.run, self._tick, self._prune, self._forget, self._feed_watchdog, self.store.watch]

    async def _prepared(self) -> bool:
        """Prepare for the first slot; False where we are to stop before that."""
        preparing = asyncio.ensure_future(self.prepare())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([preparing, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            preparing.cancel()  # changes nothing where it is done
        try:
            await preparing
        except asyncio.CancelledError:
            log.info("stopped before the first request")
            return False
        return True

    async def _serve(self, control: Sequence[asyncio.Task[None]]) -> None:
        self.crawler.status.starting = None
        tasks = [asyncio.ensure_future(loop()) for loop in (*self._loops(), *self.services)]
        tasks += control
        stopping = asyncio.create_task(self._stop.wait())
        await self.freshness.renew()
        looking = asyncio.create_task(self._where_to_look())  # READY promises that commands are answered
        await asyncio.wait([looking, stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            self._serving.set()
            self._tell_ready(looking.result())
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        looking.cancel()
        log.info("stopping")
        self.crawler.stop()
        given_up = await self.crawler.drain(LIMITS.drain_seconds)
        await self._end()
        failed = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
        self._record_last()
        log.info("stopped", extra={"requests": self.crawler.status.requests, "given_up": given_up})
        for error in failed:
            if error is not None:
                raise error

    def _tell_ready(self, told: dict[str, object]) -> None:
        """Say that requests leave and commands are answered."""
        self.notifier.send("READY=1", self._status_line())
        log.info("ready", extra=told)

    async def _where_to_look(self) -> dict[str, object]:
        """Returns what the first line says: how much is crawled how fast, and where to look on."""
        address = None if self.listening is None else await self.listening()
        commands = "`crawld stats` shows how fresh the copy is" + (", `crawld dashboard` opens this" if address else "")
        return {
            "pages": len(self.scheduler),
            "bandwidth": format_rate(self.crawler.status.bandwidth),
            "dashboard": None if address is None else f"http://{address}/",
            "next": commands,
        }

    def _on_hangup(self) -> None:
        reloading = asyncio.ensure_future(self.reload())
        self._reloading.add(reloading)
        reloading.add_done_callback(self._reloading.discard)

    async def reload(self, retire: bool = False) -> Reload:
        """Read settings and list again; systemd is told, and shows a refusal until a reload is taken over."""
        if self.read_again is None:
            return Reload(refused="this daemon was started without settings to read again")
        await self._serving.wait()  # a SIGHUP may come before there is anything to change
        async with self._one_reload:
            self.notifier.send("RELOADING=1", f"MONOTONIC_USEC={int(self.clock.monotonic() * 1e6)}")
            try:
                result = await self.read_again(retire)
                self._report(result)
            finally:
                self.notifier.send("READY=1", self._status_line())
        return result

    def _report(self, result: Reload) -> None:
        """Log a reload; one that was refused is a warning that stays in the status."""
        status = self.crawler.status
        if result.refused is None:
            status.reload_refused = None
            log.info("reload", extra={"result": result.sentence})
        else:
            at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.clock.now()))
            status.reload_refused = f"reload refused at {at}: {one_line(result.refused).rstrip('.')}; old settings kept"
            log.warning("reload refused", extra={"result": result.sentence})

    async def _tick(self) -> None:
        """Once a minute: a point of the freshness history, a line for the log and one for systemd."""
        while True:
            await asyncio.sleep(self.tick_seconds)
            self._record_freshness()
            self._tell_standing()

    def _tell_standing(self) -> None:
        """Sum up what was done since the last time, in the log, and say how things stand to systemd."""
        status, fresh = self.crawler.status, self.freshness.predicted()
        verdicts, troubles = status.verdicts - self._told[0], status.troubles - self._told[1]
        requests = status.requests - self._told[2]
        self._told = (status.verdicts.copy(), status.troubles.copy(), status.requests)
        named = ", ".join(f"{count} {trouble}" for trouble, count in troubles.most_common(LIMITS.max_troubles_told))
        told: dict[str, object] = {"requests": requests, "crawls": verdicts.total()}
        told |= {verdict.value: verdicts[verdict.value] for verdict in Verdict}
        told |= {"troubles": named or None, "freshness": None if fresh is None else round(fresh, 3)}
        log.info("summary", extra=told | {"pages": len(self.scheduler), "waiting": status.waiting or None})
        self.notifier.send(self._status_line())

    async def _prune(self) -> None:
        """Delete a little of what retention no longer keeps, now and then more often while there is much."""
        while True:
            await asyncio.sleep(LIMITS.prune_seconds)
            while await self.store.prune() > 0:  # noqa: ASYNC110 - there is nothing to wait for but time
                await asyncio.sleep(LIMITS.prune_pause)

    async def _forget(self) -> None:
        """Forget hosts that turned up once: redirects and sitemaps may lead to any number of them."""
        while True:
            await asyncio.sleep(LIMITS.forget_seconds)
            await self.crawler.admission.forget_idle_hosts()

    async def _feed_watchdog(self) -> None:
        """Tell systemd that we live, but only while slots are served and the store takes what we record."""
        limit = self.notifier.watchdog_seconds()
        if limit is None:
            await asyncio.Event().wait()
            return
        while True:
            if await self._well():
                self.notifier.send("WATCHDOG=1")
            await asyncio.sleep(limit / 3)

    async def _well(self) -> bool:
        """Tells whether slots are served and what was recorded is committed."""
        if not (self.crawler.serves_slots() and self.store.healthy):
            return False
        await self.store.flush()
        return True

    def _status_line(self) -> str:
        fresh = self.freshness.predicted()
        unknown = "freshness not known yet" if len(self.scheduler) else "no pages yet"
        shown = unknown if fresh is None else f"freshness {fresh:.3f}"
        refused = self.crawler.status.reload_refused
        more = "" if refused is None else f"; {refused}"
        return f"STATUS={self.scheduler.documents} pages at {format_rate(self.crawler.status.bandwidth)}, {shown}{more}"

    def _record_last(self) -> None:
        """Write down how things stand at the end."""
        self._record_freshness()

    def _record_freshness(self) -> None:
        """Write one point of the freshness history."""
        now, status = self.clock.now(), self.crawler.status
        measured = self.crawler.audits.measured()
        judged = status.verdicts["changed"] + status.verdicts["unchanged"]
        self.store.record_freshness(
            FreshnessPoint(
                at=now,
                bandwidth=status.bandwidth,
                request_rate=self.crawler.request_rate(now),
                predicted=self.freshness.predicted(),
                measured=measured[0] if measured else None,
                measured_low=measured[1] if measured else None,
                measured_high=measured[2] if measured else None,
                level=self.scheduler.chooser.level,
                pages=self.scheduler.documents,
                changed_share=status.verdicts["changed"] / judged if judged else None,
                skipped_slots=status.skipped_slots,
                slots=self.crawler.newly_spent(),
            )
        )
