"""Starts `crawld …` as a fork of a process that has imported it, which saves a second of processor time each.

    python -m tests.support.warm FD

What is started is a process of its own, with its own files, directory, environment and signals, as `python -m crawld`
has them; only the import is shared. Over the socket FD come requests, each with the new process's standard input,
output and error and a socket on which it is told `PID` and, at the end, its status. When the tests are gone, what is
left is killed. The demo, the lab, the wheel and whatever a shell starts are started afresh, imports and all.

The process that forks a daemon's workers is started so too: those commands ask for it over a socket of their own, and
the tests of `tests/integration` for the daemons that run within them. It answers to its pool as the real one does.
"""

import asyncio
import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from crawld import cli
from crawld.main.assembly import READERS
from crawld.read.workers import pool, template

ROOT = Path(__file__).parents[2]
LATE = ("alembic.command", "sqlalchemy.dialects.postgresql.asyncpg", "sqlalchemy.dialects.sqlite.aiosqlite")
"""What crawld and its libraries import at first use."""
MAX_REQUEST = 1 << 20
MAX_FILES = 5
DOOR = 3
"""Where a command that was started here finds the socket on which it may ask for more."""
DECIDE_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_")
"""Variables that count when Python starts; who sets one gets a new Python."""


class Started:
    """A process that the template forked; as much of asyncio's `Process` as tests use."""

    def __init__(
        self, pid: int, told: socket.socket, stdout: asyncio.StreamReader | None, stderr: asyncio.StreamReader | None
    ) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None
        self._ended = asyncio.create_task(self._end(told))

    async def _end(self, told: socket.socket) -> None:
        with told:
            self.returncode = int(await asyncio.get_running_loop().sock_recv(told, 64))

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """The exit status, negative where a signal ended it."""
        await asyncio.shield(self._ended)
        assert self.returncode is not None
        return self.returncode


class ReaderTemplate:
    """A process that forks workers; as much of `subprocess.Popen` as their pool uses."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid, self._told = pid, told
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; TimeoutExpired where it does not come in time."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._told.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("the template of workers", timeout or 0.0) from None
            self._told.close()
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class Template:
    """The process that forks, started at first use and ended with the tests."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> socket.socket:
        """Where it is asked."""
        if self._socket is None:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
            with its:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.warm", str(its.fileno())],
                    pass_fds=[its.fileno()],
                    stdin=subprocess.DEVNULL,
                    cwd=ROOT,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # a process with threads cannot be forked safely
                    start_new_session=True,
                )
            self._socket = ours
            atexit.register(self._close)
        return self._socket

    def _close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    async def start(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        given: bytes = b"",
        *,
        shown: bool = False,
        terminal: int | None = None,
    ) -> Started:
        """Start `crawld ARGUMENTS` with `given` to read.

        With `shown` it prints where the tests print, and on a terminal where one is given, errors too.
        """
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # the messages stay apart
        ours.setblocking(False)
        streams: list[asyncio.StreamReader | None] = [None, None]
        if terminal is not None:
            files = [os.dup(terminal) for _ in range(3)]
        else:
            files = [_holding(given), os.dup(1) if shown else await _pipe(streams, 0), await _pipe(streams, 1)]
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        with its:
            socket.send_fds(self.open(), [request], [*files, its.fileno()])
        for file in files:
            os.close(file)
        pid = int(await asyncio.get_running_loop().sock_recv(ours, 64))
        return Started(pid, ours, *streams)


TEMPLATE = Template()


def shared_readers(door: Callable[[], socket.socket]) -> Callable[..., ReaderTemplate]:
    """What starts the process that forks a pool's workers, by asking there: it stands for `pool.started_template`."""

    def started(control: socket.socket, *arguments: str) -> ReaderTemplate:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in pool.PASSED_ON if name in os.environ}
        request = json.dumps({"template": arguments, "env": environment}).encode()
        with its, Path(os.devnull).open("rb") as nothing:
            socket.send_fds(door(), [request], [nothing.fileno(), 1, 2, its.fileno(), control.fileno()])
        return ReaderTemplate(int(ours.recv(64)), ours)

    return started


def _holding(given: bytes) -> int:
    """A file with something to read, in memory."""
    descriptor = os.memfd_create("stdin")
    os.write(descriptor, given)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _pipe(streams: list[asyncio.StreamReader | None], at: int) -> int:
    """The end to write to; what is written there comes out of a new stream, kept at its place."""
    reading, writing = os.pipe()
    stream = streams[at] = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb"))
    return writing


def serve(door: socket.socket) -> dict[str, object] | None:
    """Fork at each request; returns the request in the new process, and None in the template at the end."""
    waiting: dict[int, socket.socket] = {}
    doors = [door]  # and those of the commands that were started
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    while True:
        for ready in select.select([*doors, woken], [], [])[0]:
            if ready is woken:
                woken.recv(4096)
                _tell(waiting)
                continue
            request, files, _, _ = socket.recv_fds(ready, MAX_REQUEST, MAX_FILES)
            if not request and ready is not door:
                doors.remove(ready)
                ready.close()
                continue
            if not request:
                for pid in waiting:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return None
            inner, outer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            doors.append(inner)
            last = files[4] if len(files) == MAX_FILES else outer.fileno()
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (*doors, outer, woken, wake, *waiting.values()):
                    one.detach()
                moved = os.dup(last) if last <= DOOR else last  # lest it be overwritten
                for number, file in enumerate(files[:3]):
                    os.dup2(file, number)
                os.dup2(moved, DOOR, inheritable=False)
                os.closerange(DOOR + 1, 1024)
                return dict(json.loads(request))
            outer.close()
            for file in (*files[:3], *files[4:]):
                os.close(file)
            waiting[pid] = socket.socket(fileno=files[3])
            with suppress(OSError):
                waiting[pid].send(str(pid).encode())


def _tell(waiting: dict[int, socket.socket]) -> None:
    """Tell how those that ended did."""
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with waiting.pop(pid) as told, suppress(OSError):
            told.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, object]) -> None:
    """Be what `python -m crawld ARGUMENTS` is at its start, or a template of workers, and run."""
    env = request["env"]
    assert isinstance(env, dict)
    os.environ.clear()
    os.environ.update(env)
    arguments = request.get("template")
    if isinstance(arguments, list):
        os.setsid()
        template.main([str(DOOR), *arguments])
        return
    assert isinstance(request["arguments"], list)
    door = socket.socket(fileno=DOOR)
    pool.started_template = shared_readers(lambda: door)  # type: ignore[assignment]  # as much of one as is used
    os.chdir(str(request["cwd"]))
    random.seed()
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", 0), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0), "utf-8", "backslashreplace", write_through=True)
    sys.argv = [str(ROOT / "crawld/__main__.py"), *request["arguments"]]
    cli.main()


if __name__ == "__main__":
    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    verbs = (one.name for one in pkgutil.walk_packages(cli.__path__, "crawld.cli."))
    known = (name for name in verbs if not name.startswith("crawld.cli.trials"))
    for module in (*LATE, *known, *READERS, *template.CODECS):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        become(asked)
