"""`crawld run --processes N`: a fleet of N workers on this machine, started, watched and stopped by one command.

Each worker is `crawld fleet run` in a process of its own, which tells us over a socket, as it would tell systemd, that
it is ready, that it lives, and why it cannot start. We tell systemd of all of them.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawld.cli import TRY_AGAIN
from crawld.cli.run import check_pages
from crawld.fleet.asking import is_fleet
from crawld.fleet.assembly import check_fleet_settings
from crawld.fleet.own_server import OwnServer, short_folder
from crawld.fleet.ray import LIMITS as RAY_LIMITS
from crawld.fleet.ray import end_with_parent
from crawld.fleet.setup_commands import Told
from crawld.fleet.store.making import change_first_bandwidth, make_fleet
from crawld.fleet.store.transfer import named_counts, take_over
from crawld.main.checks import set_up_logging
from crawld.main.settings import Settings
from crawld.main.supervisor import Notifier, handling_signals
from crawld.model.clock import SystemClock
from crawld.model.units import format_rate, many
from crawld.pages.list_file import list_body, read_once


@dataclass(frozen=True)
class ProcessesLimits:
    """Numbers that bound and tune this module."""

    first_rest: float = 1.0
    longest_rest: float = 60.0
    """Seconds before a process that ended is started again: twice as many each time that it ends soon."""
    well_seconds: float = 60.0
    """After which a process that ends has run well."""
    watch_seconds: float = 60.0
    """A process that says nothing for so long hangs, and is killed; systemd may want it shorter."""
    look_seconds: float = 1.0
    stop_seconds: float = 25.0
    """For requests under way, the last records, and giving the shards back."""
    max_message: int = 4096
    max_name: int = 50
    shards: int = 64
    shards_each: int = 16
    """Of a new fleet: few, for they are loaded one after another, and enough for more processes later."""


LIMITS = ProcessesLimits()

log = logging.getLogger("crawld.fleet")


@dataclass(slots=True)
class Member:
    """One process: how it is started, and what it said last."""

    number: int
    name: str
    words: Sequence[str]
    place: Path  # of the socket on which it tells how it stands
    process: asyncio.subprocess.Process | None = None
    started_at: float = 0.0
    heard_at: float = 0.0
    ready: bool = False
    reloading: bool = False
    failure: str = ""
    dashboard: str = ""

    @property
    def running(self) -> asyncio.subprocess.Process | None:
        """Its process while it lives."""
        return self.process if self.process is not None and self.process.returncode is None else None


@dataclass(slots=True)
class ProcessGroup:
    """Keeps the processes of one `crawld run` running until it is told to stop."""

    members: Sequence[Member]
    environment: Mapping[str, str]
    server: OwnServer | None
    rate: float
    notifier: Notifier = field(default_factory=Notifier)
    clock: SystemClock = field(default_factory=SystemClock)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _all_ready: bool = False
    _status: int = 0

    async def run(self) -> int:
        """Live until SIGTERM or SIGINT, or until a process cannot start; the exit status."""
        with handling_signals(self._stop.set, lambda: _hang_up(self.members[:1])), self._hearing():
            keeping = [asyncio.create_task(self._keep(member)) for member in self.members]
            watching = asyncio.create_task(self._watch())
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait([stopping, watching, *keeping], return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()
            watching.cancel()
            self.notifier.send("STOPPING=1")
            log.info("stopping", extra={"processes": len(self.members)})
            for member in self.members:
                if member.running:
                    member.running.terminate()
            _, late = await asyncio.wait(keeping, timeout=LIMITS.stop_seconds)
            for member in self.members:
                if late and member.running:
                    log.error("a process does not end and is killed", extra={"worker": member.name})
                    member.running.kill()
            ended = await asyncio.gather(*keeping, stopping, watching, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error
        log.info("stopped", extra={"processes": len(self.members)})
        return self._status

    # -- one process ------------------------------------------------------------------------------------------------

    async def _keep(self, member: Member) -> None:
        """Start a process again whenever it ends, until all are to stop."""
        rest = LIMITS.first_rest
        while not self._stop.is_set():
            status = await self._run(member)
            if self._stop.is_set():
                if status not in {0, -signal.SIGTERM}:  # the latter: it had only begun
                    log.error("a process ended badly", extra={"worker": member.name, "status": status})
                    self._status = self._status or 1
                return
            if self._is_final(member, status):
                self._status = status
                if member.failure:
                    self.notifier.send(f"STATUS=failed: {member.failure}")
                self._stop.set()
                return
            well = member.ready and self.clock.monotonic() > member.started_at + LIMITS.well_seconds
            rest = LIMITS.first_rest if well else rest
            told = {"worker": member.name, "status": status, "seconds": rest, "reason": member.failure or None}
            log.warning("a process ended; it is started again", extra=told)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), rest)
            rest = min(2 * rest, LIMITS.longest_rest)

    def _is_final(self, member: Member, status: int) -> bool:
        """Tells whether another start would fail as well, or is the service manager's business.

        1. It ran and found the database damaged. 2. It could not start, and neither could the others yet. One that
        cannot start later, when the settings are being edited, is tried again: the others go on.
        """
        if status == RAY_LIMITS.unusable:
            return member.ready or not self._all_ready
        return status == TRY_AGAIN and not self._all_ready

    async def _run(self, member: Member) -> int:
        member.ready, member.reloading, member.failure = False, False, ""
        member.started_at = self.clock.monotonic()
        member.process = await asyncio.create_subprocess_exec(
            *member.words,
            stdin=asyncio.subprocess.DEVNULL,
            env={**self.environment, "NOTIFY_SOCKET": str(member.place)},
            start_new_session=True,  # ctrl-C is ours: the database must not end before them
            preexec_fn=end_with_parent,
        )
        if self._stop.is_set():
            member.process.terminate()
        return await member.process.wait()

    # -- what they say ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            for member in self.members:
                door = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
                door.bind(str(member.place))
                loop.add_reader(door, self._hear, member, door)
                stack.callback(loop.remove_reader, door)
            yield

    def _hear(self, member: Member, door: socket.socket) -> None:
        lines = door.recv(LIMITS.max_message).decode("utf-8", "replace").splitlines()
        member.heard_at = self.clock.monotonic()
        for line in lines:
            name, _, value = line.partition("=")
            if name == "X_DASHBOARD":
                member.dashboard = value
            elif name == "RELOADING":
                member.reloading = True
            elif name == "STATUS" and value.startswith("failed: "):
                member.failure = value.removeprefix("failed: ")
            elif name == "READY":
                self._is_ready(member)
        self._tell(member, lines)

    def _is_ready(self, member: Member) -> None:
        if member.reloading and member.number == 1:  # it has put what was written in force: the others take it over
            _hang_up(self.members[1:])
        member.ready, member.reloading = True, False
        if not self._all_ready and all(one.ready for one in self.members):
            self._all_ready = True
            where = self.members[0].dashboard or None
            commands = "`crawld stats` shows how fresh the copy is" + (
                ", `crawld dashboard` opens this" if where else ""
            )
            told = {"processes": len(self.members), "bandwidth": format_rate(self.rate), "dashboard": where}
            self.notifier.send("READY=1")
            log.info("ready", extra=told | {"next": commands})

    def _tell(self, member: Member, lines: Sequence[str]) -> None:
        """Hand on to the service manager what the first process says of itself: it is asked by `crawld reload`."""
        if member.number == 1 and self._all_ready:
            handed = [line for line in lines if line.partition("=")[0] in {"RELOADING", "MONOTONIC_USEC", "READY"}]
            up = sum(one.ready and one.running is not None for one in self.members)
            handed += [
                f"STATUS={up} of {many(len(self.members), 'process', 'processes')}; the first: {line.partition('=')[2]}"
                for line in lines
                if line.startswith("STATUS=")
            ]
            if handed:
                self.notifier.send(*handed)

    async def _watch(self) -> None:
        """Kill what hangs, start the database again where it ended, and tell the service manager that we live."""
        limit = float(self.environment["WATCHDOG_USEC"]) / 1e6
        while True:
            now = self.clock.monotonic()
            for member in self.members:
                if member.ready and member.running and now > max(member.heard_at, member.started_at) + limit:
                    log.error("a process hangs and is killed", extra={"worker": member.name, "seconds": limit})
                    member.running.kill()
            if self.server is not None and self.server.ended:
                log.error("PostgreSQL ended; it is started again")
                self.server.start(len(self.members))
            if self._all_ready and self.notifier.watchdog_seconds() is not None:
                self.notifier.send("WATCHDOG=1")
            await asyncio.sleep(LIMITS.look_seconds)


def _hang_up(members: Sequence[Member]) -> None:
    for member in members:
        if member.ready and member.running:
            member.running.send_signal(signal.SIGHUP)


# From the words of a command to processes that run.


def run(
    settings: Settings, config_file: Path | None, given: Mapping[str, Any], *, insist_on_bandwidth: bool, retire: bool
) -> None:
    """Run the processes of these settings, which are as written, to their end; another status than 0 ends this one."""
    environment = dict(os.environ)  # before secrets are taken out of it
    check_pages(settings.in_use(), config_file)
    check_fleet_settings(settings)
    set_up_logging(settings)
    for number in (signal.SIGTERM, signal.SIGINT):  # until the processes run
        signal.signal(number, lambda *_: sys.exit(0))
    count = settings.processes or len(os.sched_getaffinity(0))
    folder = short_folder()
    place = settings.server_folder()
    server = None if place is None else OwnServer(place)
    try:
        words = [*_words(settings, config_file, given, folder), *(["--yes"] if retire else [])]
        if server is not None:
            server.lock()
            server.start(count)
        shards = max(LIMITS.shards, LIMITS.shards_each * count)
        asyncio.run(_prepare(settings, server, shards, insist=insist_on_bandwidth))
        environment["WATCHDOG_USEC"] = str(int(1e6 * min(Notifier.watchdog_seconds() or 1e9, LIMITS.watch_seconds)))
        environment.pop("WATCHDOG_PID", None)
        members = _members(words, folder, "p" if server else f"{socket.gethostname()[: LIMITS.max_name]}-", count)
        status = asyncio.run(ProcessGroup(members, environment, server, settings.bandwidth).run())
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder)
    if status:
        sys.exit(2 if status == TRY_AGAIN and "NOTIFY_SOCKET" not in os.environ else status)


def _words(settings: Settings, config_file: Path | None, given: Mapping[str, Any], folder: Path) -> Sequence[str]:
    """The command of a process; what can be read only once, as from a pipe, is kept in files of the folder."""
    config, named = config_file, dict(given)
    if config is not None and not config.is_file():
        config = folder / "config.yaml"
        config.write_text(settings.model_dump_json(exclude_unset=True), encoding="utf-8")
    if settings.urls is not None and read_once(settings.urls):
        named["urls"] = str(folder / "urls")
        Path(named["urls"]).write_bytes(list_body(settings.urls))
    words = [sys.executable, "-m", "crawld", "fleet", "run"]
    words += [] if config is None else ["--config", str(config.absolute())]
    for name in ("urls", "database", "bandwidth"):
        words += [] if named.get(name) is None else [f"--{name}", str(named[name])]
    return words + [word for network in named.get("allow_private") or () for word in ("--allow-private", network)]


def _members(words: Sequence[str], folder: Path, of: str, count: int) -> Sequence[Member]:
    return [
        Member(
            number, f"{of}{number}", (*words, "--name", f"{of}{number}", "--process", str(number)), folder / f"{number}"
        )
        for number in range(1, count + 1)
    ]


async def _prepare(written: Settings, server: OwnServer | None, shards: int, *, insist: bool) -> None:
    """Have a fleet in the database: the one that is there, or a new one with what the SQLite file holds."""
    source, database = written.database, written.database if server is None else server.url
    rate = written.bandwidth
    if await is_fleet(database):
        await change_first_bandwidth(database, rate, insist=insist)
    elif server is not None and _holds_something(source):
        log.info("taking over the SQLite database, which stays as it is", extra={"database": source})
        told = Told(lambda line: log.info("taking over", extra={"copied": line}))
        counts = named_counts(await take_over(source, database, shards, rate, told, insist=insist))
        back = "`crawld fleet export --to sqlite:///FILE` writes it all out again for a single process"
        log.info("took over", extra={"pages": counts["pages"], "crawls": counts["crawls"], "back": back})
    else:
        await make_fleet(database, shards, rate)
    if server is not None:
        server.adopt()


def _holds_something(database: str) -> bool:
    file = Path(database.removeprefix("sqlite:///"))
    return file.is_file() and file.stat().st_size > 0
