"""Asking a running daemon over its control socket, or a fleet by its database."""

import asyncio
import http.client
import importlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawld.cli.options import settings_file
from crawld.main.settings import Settings, load, load_written
from crawld.model.access import access_refused, socket_path
from crawld.model.errors import AccessError, CrawldError, InputError, StoreError
from crawld.model.units import parse_duration

if TYPE_CHECKING:
    from crawld.store.read_model import SqlReadModel
    from crawld.store.report import Reader
    from crawld.store.store import SqlStore


@dataclass(frozen=True)
class RemoteLimits:
    """Numbers that bound and tune this module."""

    look_seconds: float = 0.5
    """Until `stats` does without the daemon, or as long as it reads the database: it answers within a second."""
    read_seconds: float = 3.0
    steer_seconds: float = 60.0
    """Until a change counts as not answered: a daemon that takes thousands of pages over may be busy for a while."""
    max_wait: float = 60.0
    margin_seconds: float = 10.0
    """Seconds for which the daemon lets a request wait, and beyond which it does not answer any more."""


LIMITS = RemoteLimits()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The daemon or fleet that a command is about, named by its settings, its database, or both."""

    config_file: Path | None = None
    database: str | None = None

    def load(self) -> Settings:
        """The settings, with the database of the command line."""
        return load(self.config_file, {"database": self.database})

    def settings_in_use(self) -> Settings:
        """The settings with a database that answers.

        Where `crawld run --processes` is stopped, so is its own PostgreSQL: it is started until the command ends.
        """
        written = load_written(self.config_file, {"database": self.database})
        if (folder := written.server_folder()) is not None and written.in_use() is not written:
            _lend(folder)
        return written.in_use()

    def read(self, question: "Callable[[Reader], Awaitable[T]]") -> T:
        """Ask the database, whether its daemon runs or not."""

        async def asked(database: str) -> T:
            from crawld.store.report import Reader  # takes as long to import as all else: the daemon is asked meanwhile

            async with Reader(database) as reader:
                return await question(reader)

        return asyncio.run(asked(self.settings_in_use().database))

    def query(self, question: "Callable[[SqlReadModel], Awaitable[T]]") -> T:
        """The same of the read model: lists by cursor, changes and versions."""

        async def asked(database: str) -> T:
            from crawld.model.clock import SystemClock
            from crawld.store.read_model import SqlReadModel

            async with SqlReadModel(database, SystemClock()) as model:
                return await question(model)

        return asyncio.run(asked(self.settings_in_use().database))

    def change(self, work: "Callable[[SqlStore], Awaitable[T]]") -> T:
        """Change the database of a daemon that does not run, whose lock is held meanwhile."""

        async def done(database: str) -> T:
            from crawld.store.store import SqlStore

            store = SqlStore(database)
            await store.start()
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(done(self.load().database))

    def ask(
        self, method: str, path: str, body: dict[str, object] | None = None, seconds: float = LIMITS.steer_seconds
    ) -> dict[str, Any]:
        """One question to the daemon of these settings, or to their fleet; a refusal is raised in its own words.

        NotRunningError where no daemon listens, NotAnsweringError where it says nothing for so many seconds.
        """
        return _ask(self.settings_in_use(), method, path, body, seconds)

    def look(self, path: str, seconds: float = LIMITS.read_seconds) -> "Answer":
        """Ask the daemon, if there is one that answers: reading commands go on without it.

        AccessError where this user may not ask it: whether it runs is not known then.
        """
        return _look(self.settings_in_use(), path, seconds)


@lru_cache
def _lend(folder: Path) -> None:
    lend = importlib.import_module("crawld.fleet.own_server").lend
    click.get_current_context().find_root().call_on_close(lend(folder))


SERVICE_SETTINGS = Path("/etc/crawld/config.yaml")
UNITS = Path("/etc/systemd/system")


def service_settings() -> Path | None:
    """The settings of the service that is installed here; None where there is none, or a database lies right here."""
    if os.path.exists("crawld.db"):  # the default's: a daemon was started by hand in this directory
        return None
    for name in ("crawld.service", "crawld-worker@.service"):
        unit = UNITS / name
        if unit.is_file() and f"--config {SERVICE_SETTINGS}" in unit.read_text(encoding="utf-8"):
            return SERVICE_SETTINGS
    return None


def _or_service(ctx: click.Context, _: click.Parameter, given: Path | None) -> Path | None:
    """Returns what was given; where nothing says which daemon is meant, it is the service."""
    if given is None and not ctx.params.get("database") and not os.environ.get("CRAWLD_DATABASE"):
        return service_settings()
    return given


CONFIG = settings_file(
    f"The daemon's settings (YAML); by default {SERVICE_SETTINGS} where a service runs by it.", callback=_or_service
)
DATABASE = click.option(
    "--database",
    metavar="URL",
    envvar="CRAWLD_DATABASE",
    help="Database URL; locates the control socket, or is a fleet's.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")


def targeted(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options --config and --database, and hands it what they name as `target`."""

    @CONFIG
    @DATABASE
    @wraps(command)
    def run(*args: Any, config_file: Path | None, database: str | None, **given: Any) -> None:
        command(*args, target=CommandTarget(config_file, database), **given)

    return run


class OutOfReachError(StoreError):
    """The database does not answer: whether it is a fleet's is not known."""


class NotRunningError(CrawldError):
    """No daemon listens."""


class NotAnsweringError(CrawldError):
    """A daemon listens, but says nothing; `pid` is its process, where the system tells."""

    def __init__(self, sentence: str, pid: int | None) -> None:
        super().__init__(sentence)
        self.pid = pid


class ForeignSocketError(CrawldError):
    """Another user's process listens where our daemon should."""


def trusted_users(place: Path) -> set[int]:
    """Returns who may serve a socket: we, root, and the owner of its folder, who could put anything there."""
    return {os.geteuid(), 0, place.parent.stat().st_uid}


class _ControlConnection(http.client.HTTPConnection):
    """HTTP over the daemon's Unix socket; every wait on it is bounded."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("crawld", timeout=seconds)
        self.place = path
        self.pid: int | None = None

    def connect(self) -> None:
        """Open the socket and note who listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with socket_path(self.place) as place:
            self.sock.connect(place)
        if hasattr(socket, "SO_PEERCRED"):  # Linux
            told = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.pid, user, _ = struct.unpack("iII", told)
            if user not in trusted_users(self.place):
                raise ForeignSocketError(f"{self.place} is served by user {user}, who is not you: set `api.socket`")


def wait_seconds(given: str, asker: str) -> float:
    """Returns the seconds of --wait; InputError where that is longer than the daemon lets a request wait."""
    seconds = parse_duration(given)
    if seconds > LIMITS.max_wait:
        raise InputError(f"--wait {given} is longer than the {LIMITS.max_wait:g} s that a {asker} may wait")
    return seconds


def socket_of(settings: Settings) -> Path:
    """Returns where the daemon of these settings is asked, also where this user could not make the socket there."""
    place, runtime = settings.control_socket(), Path("/run/crawld")
    ours = settings.api.socket is not None or settings.database.startswith("sqlite")
    return place if ours or os.path.lexists(place) or not runtime.is_dir() else runtime / "crawld.sock"


@lru_cache
def is_fleet(database: str) -> bool:
    """Tells whether the database is a fleet's, which any machine may ask; OutOfReachError where that is unknown."""
    if not database.startswith("postgres"):
        return False
    try:
        return bool(asyncio.run(_fleet().is_fleet(database)))
    except StoreError as error:
        raise OutOfReachError(str(error)) from error


def _fleet() -> ModuleType:
    """The part of the fleet that answers commands, imported by name: nothing here depends on the fleet."""
    return importlib.import_module("crawld.fleet.asking")


def ask_at(
    place: Path, method: str, path: str, body: dict[str, object] | None = None, *, seconds: float = LIMITS.steer_seconds
) -> dict[str, Any]:
    """The same of the daemon at that socket."""
    connection = _ControlConnection(place, seconds)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (TimeoutError, BlockingIOError):  # the latter: the queue of connections is full
        process = "" if connection.pid is None else f" (pid {connection.pid})"
        changed = "" if method == "GET" else "; whether it took the change over is not known"
        sentence = f"the daemon{process} does not answer: nothing came within {seconds:g} s{changed}"
        raise NotAnsweringError(sentence, connection.pid) from None
    except PermissionError:
        raise access_refused(place) from None
    except (OSError, http.client.HTTPException):
        what = "start it with `crawld run`, or go to where it runs"
        raise NotRunningError(f"no daemon answers at {place}: {what}") from None
    finally:
        connection.close()
    if response.status >= 400:
        raise CrawldError(str(answer.get("error", answer)))
    return answer  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the daemon, or that it is not running or does not answer."""

    said: dict[str, Any] | None = None
    state: str = "running"  # running, not_running, not_answering
    pid: int | None = None
    refusal: str | None = None  # what the daemon could not tell, in its words


def _ask(settings: Settings, method: str, path: str, body: dict[str, object] | None, seconds: float) -> dict[str, Any]:
    out_of_reach: StoreError | None = None
    try:
        if is_fleet(settings.database):
            answer: dict[str, Any] = _fleet().ask_fleet(settings, method, path, body)
            return answer
    except OutOfReachError as error:
        out_of_reach = error
    try:
        return ask_at(socket_of(settings), method, path, body, seconds=seconds)
    except NotRunningError:
        if out_of_reach is not None:
            raise out_of_reach from None
        raise


def _look(settings: Settings, path: str, seconds: float) -> Answer:
    try:
        said = _ask(settings, "GET", path, None, seconds)
    except NotRunningError:
        return Answer(state="not_running")
    except NotAnsweringError as error:
        return Answer(state="not_answering", pid=error.pid)
    except AccessError:
        raise
    except CrawldError as error:
        return Answer(refusal=str(error))
    return Answer(said, pid=said.get("pid"))


class Beside:
    """A question to the daemon that is asked while something else is done.

    The thread is given settings that are read already, and a fleet is asked by one that the interpreter waits for: an
    interpreter that ends beside a thread in compiled code, which checks settings and speaks to databases, aborts.
    """

    def __init__(self, target: CommandTarget, path: str) -> None:
        self._settings, self._path = target.settings_in_use(), path
        self._fleet = is_fleet(self._settings.database)
        self._answer: Answer | None = None
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._ask, daemon=not self._fleet)  # one that hangs must not keep us
        self._thread.start()

    def answer(self, seconds: float = LIMITS.look_seconds) -> Answer:
        """Returns what came until so many seconds after the question, or until now where that is later.

        A fleet has longer: its database answers, which the command reads anyway.
        """
        longest = LIMITS.steer_seconds if self._fleet else seconds
        self._thread.join(max(longest - (time.monotonic() - self._began), 0.0))
        return self._answer or Answer(state="not_answering", pid=self._listener())

    def _ask(self) -> None:
        try:
            self._answer = _look(self._settings, self._path, LIMITS.read_seconds)
        except AccessError as error:
            self._answer = Answer(refusal=str(error))

    def _listener(self) -> int | None:
        """Returns who listens, as the system tells without the daemon's help."""
        connection = _ControlConnection(socket_of(self._settings), 0.1)
        try:
            connection.connect()
        except (OSError, CrawldError):
            return None
        finally:
            connection.close()
        return connection.pid
