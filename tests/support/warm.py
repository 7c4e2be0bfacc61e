"""Starts `crawld …` as a fork of a process that has imported it, which saves a second of processor time each.

    python -m tests.support.warm FD

What is started is a process of its own, with its own files, directory, environment and signals, as `python -m crawld`
has them; only the import is shared. Over the socket FD come requests, each with the new process's standard input,
output and error and a socket on which it is told `PID` and, at the end, its status. When the tests are gone, what is
left is killed. The demo, the lab, the wheel and whatever a shell starts are started afresh, imports and all.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from crawld import cli

ROOT = Path(__file__).parents[2]
LATE = ("alembic.command", "sqlalchemy.dialects.postgresql.asyncpg", "sqlalchemy.dialects.sqlite.aiosqlite")
"""What crawld and its libraries import at first use."""
MAX_REQUEST = 1 << 20
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


class Template:
    """The process that forks, started at first use and ended with the tests."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def _open(self) -> socket.socket:
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
            socket.send_fds(self._open(), [request], [*files, its.fileno()])
        for file in files:
            os.close(file)
        pid = int(await asyncio.get_running_loop().sock_recv(ours, 64))
        return Started(pid, ours, *streams)


TEMPLATE = Template()


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
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    while True:
        for ready in select.select([door, woken], [], [])[0]:
            if ready is woken:
                woken.recv(4096)
                _tell(waiting)
                continue
            request, files, _, _ = socket.recv_fds(door, MAX_REQUEST, 4)
            if not request:
                for pid in waiting:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return None
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, file in enumerate(files[:3]):
                    os.dup2(file, number)
                os.closerange(3, 1024)
                for one in (door, woken, wake, *waiting.values()):
                    one.detach()
                return dict(json.loads(request))
            for file in files[:3]:
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
    """Be what `python -m crawld ARGUMENTS` is at its start, and run."""
    env = request["env"]
    assert isinstance(env, dict)
    assert isinstance(request["arguments"], list)
    os.environ.clear()
    os.environ.update(env)
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
    for module in (*LATE, *(name for name in verbs if not name.startswith("crawld.cli.trials"))):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        become(asked)
