"""A PostgreSQL of crawld's own, for several processes on one machine: a Unix socket, no port, its user alone.

It lies in a folder beside the SQLite file whose place it takes. As root, which PostgreSQL refuses to be run by, it is
run by the user `postgres`, in that user's home where the folder is closed to it; `data` is a link to there then.
"""

import logging
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crawld.fleet.ray import end_with_parent
from crawld.main.settings import SERVER_ADDRESS
from crawld.model.clock import SystemClock
from crawld.model.errors import InputError, StoreError
from crawld.store.lock import FileLock


@dataclass(frozen=True)
class OwnServerLimits:
    """Numbers that bound and tune this module."""

    oldest: int = 13
    """The first version of PostgreSQL that crawld works with."""
    max_socket_folder: int = 90
    """Bytes: the path of a Unix socket has 107, and the server adds its own name."""
    max_tmp: int = 70
    connections: int = 20
    connections_each: int = 16
    """For commands, and for each process that crawls."""
    look_seconds: float = 0.05
    leave_seconds: float = 20.0
    """For which processes of a `crawld run` that was killed may write their last records."""
    stop_seconds: float = 60.0
    last_lines: int = 5


LIMITS = OwnServerLimits()

log = logging.getLogger("crawld.fleet")

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
"""Folders in which distributions put the server, which is seldom in the PATH."""
NO_SERVER = (
    "several processes share a PostgreSQL, and {missing}: install it (`apt install postgresql`, "
    "`dnf install postgresql-server`), or set `database: postgresql://USER@HOST/NAME`"
)
NO_USER = (
    "PostgreSQL does not run as root, and there is no user postgres: run crawld as another user, or set "
    "`database: postgresql://USER@HOST/NAME`"
)


def find_binaries(version: int | None = None) -> Path:
    """The folder of the machine's newest PostgreSQL server, or of that version; InputError where there is none."""
    found: dict[int, Path] = {}
    in_path = shutil.which("postgres")
    folders = [] if in_path is None else [Path(in_path).resolve().parent]
    folders += [folder for place in PLACES for folder in Path("/").glob(place.removeprefix("/"))]
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb", "pg_ctl")):
            said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - the system's own program
            if number := re.search(r"\) (\d+)", said.stdout):
                found.setdefault(int(number[1]), folder)
    if version is not None and version in found:
        return found[version]
    if version is not None:
        raise InputError(NO_SERVER.format(missing=f"that of version {version}, which made it, is not on this machine"))
    if not found or max(found) < LIMITS.oldest:
        raise InputError(NO_SERVER.format(missing="this machine has none"))
    return found[max(found)]


def short_folder() -> Path:
    """A new folder of ours alone whose path leaves room for the names of sockets."""
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="crawld-", dir=usual if len(os.fsencode(usual)) < LIMITS.max_tmp else "/tmp"))  # noqa: S108 - its name cannot be guessed


class OwnServer:
    """The server of one folder: made at first use, started as a child of this process, stopped with it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._clock = folder, SystemClock()
        self._lock: FileLock | None = None
        self._process: subprocess.Popen[str] | None = None
        self._sockets: Path | None = None  # where they do not lie beside the files
        self._said: deque[str] = deque(maxlen=LIMITS.last_lines)
        self.url = ""

    @property
    def adopted(self) -> bool:
        """Tells whether everything is in there, and commands find it."""
        return bool((self._folder / SERVER_ADDRESS).read_text(encoding="utf-8"))

    def adopt(self) -> None:
        """Have commands use it from now on in place of the SQLite file; it says also where it was moved to."""
        (self._folder / SERVER_ADDRESS).write_text(self.url, encoding="utf-8")

    def lock(self) -> None:
        """Keep other crawlds off; StoreError where one runs, InputError where there is no PostgreSQL to run."""
        if not (self._folder / "data").is_dir():
            find_binaries()
            _ = self._user
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = FileLock(self._folder / SERVER_ADDRESS)
        self._lock.acquire()

    def start(self, processes: int) -> None:
        """Start it for so many processes, and return once it answers; where it is missing it is made."""
        data = self._folder / "data"
        if not data.is_dir():
            self._make(data)
        self._said.clear()
        version = int((data / "PG_VERSION").read_text(encoding="ascii").partition(".")[0])
        binaries, data = find_binaries(version), data.resolve()
        self._end_leftover(binaries, data)
        sockets = self._socket_folder(data)
        self.url = f"postgresql://crawld@/postgres?host={quote(str(sockets), safe='/')}"
        self._process = subprocess.Popen(  # noqa: S603 - the system's own program
            [binaries / "postgres", "-D", data, *_options(sockets, processes)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, preexec_fn=end_with_parent,  # noqa: PLW1509 - it makes one system call
            **self._as_user(data),
        )  # fmt: skip
        threading.Thread(target=self._hear, args=(self._process,), daemon=True).start()
        while not _answers(data, self._process.pid):
            if self._process.poll() is not None:
                raise StoreError(f"the PostgreSQL in {data} does not start: {'; '.join(self._said)}")
            self._wait()

    @property
    def ended(self) -> bool:
        """Tells whether it was started and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """Ends it: no client is connected any more."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(LIMITS.stop_seconds)
            except subprocess.TimeoutExpired:  # what is committed is in its log
                self._process.kill()
        if self._sockets is not None:
            shutil.rmtree(self._sockets)
        if self._lock is not None:
            self._lock.release()

    @cached_property
    def _user(self) -> pwd.struct_passwd | None:
        """The user that runs the server; None: our own."""
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam("postgres")
        except KeyError:
            raise InputError(NO_USER) from None

    def _wait(self) -> None:
        threading.Event().wait(LIMITS.look_seconds)

    def _make(self, data: Path) -> None:
        """Make the files of an empty server; what is interrupted is made anew."""
        if self.adopted:
            raise StoreError(f"{data} is gone: restore it from a backup, or delete {self._folder} to begin anew")
        binaries, home = find_binaries(), self._folder
        if self._user is not None:
            os.chown(home, self._user.pw_uid, self._user.pw_gid)
            if subprocess.run(["test", "-w", home], check=False, **self._as_user(Path("/"))).returncode:  # noqa: S603, S607 - a program of the system
                home = Path(tempfile.mkdtemp(prefix="crawld-", dir=self._user.pw_dir))
                os.chown(home, self._user.pw_uid, self._user.pw_gid)
        half = home / "data.half"
        shutil.rmtree(half, ignore_errors=True)
        words = ("--auth=trust", "--username=crawld", "--encoding=UTF8", "--locale=C", "-D", half)
        done = subprocess.run(  # noqa: S603 - the system's own program
            [binaries / "initdb", *words], capture_output=True, text=True, check=False, **self._as_user(home)
        )
        if done.returncode:
            raise StoreError(f"no PostgreSQL can be made in {home}: {' '.join(done.stderr.split())}")
        half.rename(home / "data")
        if home != self._folder:
            data.unlink(missing_ok=True)
            data.symlink_to(home / "data")

    def _socket_folder(self, data: Path) -> Path:
        """The folder of the socket: that of the files, or, where its path is too long, one named at random."""
        if len(bytes(data.parent)) <= LIMITS.max_socket_folder:
            return data.parent
        if self._sockets is None:
            self._sockets = short_folder()
            if self._user is not None:
                os.chown(self._sockets, self._user.pw_uid, self._user.pw_gid)
        return self._sockets

    def _end_leftover(self, binaries: Path, data: Path) -> None:
        """End a server whose `crawld run` was killed, once the processes that crawled have left it."""
        until = self._clock.monotonic() + LIMITS.leave_seconds
        while (data / "postmaster.pid").exists() and _is_alive(data) and self._clock.monotonic() < until:
            self._wait()
        if (data / "postmaster.pid").exists() and _is_alive(data):
            words = (binaries / "pg_ctl", "stop", "-s", "-m", "fast", "-D", data)
            subprocess.run(words, check=False, capture_output=True, **self._as_user(data))  # noqa: S603 - as above

    def _as_user(self, folder: Path) -> dict[str, Any]:
        """Arguments that run its programs as its user, in a folder that this user can enter."""
        given: dict[str, Any] = {"cwd": folder}
        if self._user is not None:
            given |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return given

    def _hear(self, process: subprocess.Popen[str]) -> None:
        for line in process.stderr or ():
            self._said.append(line.strip())
            log.warning("PostgreSQL", extra={"said": line.strip()})


def lend(folder: Path) -> Callable[[], None]:
    """Have the server of a folder answer a command; returns what is to be called after it."""
    server = OwnServer(folder)
    if not _is_alive((folder / "data").resolve()):
        server.start(0)
        server.adopt()
    return server.stop


def _options(sockets: Path, processes: int) -> Sequence[str]:
    given = {
        "listen_addresses": "",
        "unix_socket_directories": sockets,
        "unix_socket_permissions": "0700",
        "max_connections": LIMITS.connections + LIMITS.connections_each * processes,
        "dynamic_shared_memory_type": "mmap",  # systemd deletes the other kinds when a user logs out
        "max_parallel_workers_per_gather": 0,
        "jit": "off",  # services may not make code
        "log_min_messages": "fatal",
        "log_line_prefix": "",
        "logging_collector": "off",
    }
    return [word for name, value in given.items() for word in ("-c", f"{name}={value}")]


def _pid_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _answers(data: Path, pid: int) -> bool:
    """Tells whether the server of that process takes connections, as its eighth line says."""
    lines = _pid_lines(data)
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _is_alive(data: Path) -> bool:
    """Tells whether the process that the files name is their server: after a crash it may be any program."""
    lines = _pid_lines(data)
    if not lines or not lines[0].isdecimal():
        return False
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{lines[0]}/cwd").readlink() == data
        except OSError:
            return False
    try:
        os.kill(int(lines[0]), 0)
    except OSError:
        return False
    return True
