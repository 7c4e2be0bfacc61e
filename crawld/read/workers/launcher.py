"""The pool's side of the worker processes: has the template fork them, asks them, and hears when they end."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import crawld
from crawld.read.workers.confinement import Confinement
from crawld.read.workers.framing import Answer, AnswerReader
from crawld.read.workers.messages import Shape, ShapeError
from crawld.read.workers.worker import Limits

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 64
PASSED_ON = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables of the daemon that workers see: others may hold secrets, as the database's password."""
END_SECONDS = 5.0
"""Until the template has killed its workers and ended."""

Ended = int | None
"""How a worker ended: its status, the negative number of a signal, or None where nobody knows."""
Hear = Callable[[Answer | None, Ended], None]
"""Takes a worker's answer; None where it ended before it answered, and how."""


class WorkerProcess(asyncio.Protocol):
    """One worker: asked one thing at a time."""

    def __init__(self, launcher: "Launcher") -> None:
        self._launcher = launcher
        self._transport: asyncio.Transport | None = None
        self._answer: AnswerReader | None = None
        self._hear: Hear | None = None
        self.pid = 0
        self.alive = True

    def ask(self, message: Sequence[bytes], shape: Shape, hear: Hear) -> None:
        """Send a task whose answer has that shape; `hear` is called once."""
        self._hear, self._answer = hear, AnswerReader(shape)
        if self._transport is not None:
            for part in message:
                self._transport.write(part)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._launcher.kill(self.pid)

    def yield_processor(self, niceness: int) -> None:
        """Let it have what other processes leave."""
        try:
            os.setpriority(os.PRIO_PROCESS, self.pid, niceness)
        except ProcessLookupError:
            log.debug("worker %d has ended", self.pid)
        except PermissionError:
            log.warning("worker %d keeps its priority: this system does not allow lowering it", self.pid)

    def close(self) -> None:
        """Let it end: it has no more tasks."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Part of asyncio.Protocol: hand an answer over when it is complete.

        A worker that says anything else than the answer to its task is not one of ours any more.
        """
        if self._answer is None:
            self._refuse("bytes that nothing asked for")
            return
        try:
            answer = self._answer.feed(data)
        except ShapeError as error:
            self._refuse(str(error))
            return
        if answer is not None:
            self._answer = None
            self._tell(answer, None)

    def _refuse(self, why: str) -> None:
        log.warning("worker %d is killed for what it answered: %s", self.pid, why)
        self._answer = None
        if self._transport is not None:
            self._transport.abort()
        self.kill()

    def ended(self, status: Ended) -> None:
        """The process is no more."""
        self.alive = False
        self.close()
        self._tell(None, status)

    def _tell(self, answer: Answer | None, status: Ended) -> None:
        hear, self._hear = self._hear, None
        if hear is not None:
            hear(answer, status)


class Launcher:
    """Starts workers. The template is started with the first, and again where it has ended."""

    def __init__(self, limits: Limits, modules: Sequence[str]) -> None:
        self._limits, self._modules = limits, modules
        self._templates: list[subprocess.Popen[bytes]] = []  # the one in use last, and those that may have yet to end
        self._control: socket.socket | None = None
        self._forks: deque[asyncio.Future[int]] = deque()  # in the order asked for
        self._workers: dict[int, WorkerProcess] = {}
        self.confinement: Confinement | None = None  # None until the first template has tried

    async def fork(self) -> WorkerProcess:
        """A new worker; an OSError where the system has none to give."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                control = self._control or self._start()
                socket.send_fds(control, [b"fork"], [theirs.fileno()])
            asked: asyncio.Future[int] = loop.create_future()
            self._forks.append(asked)
            pid = await asked
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        worker = WorkerProcess(self)
        worker.pid = pid
        self._workers[pid] = worker
        await loop.create_connection(lambda: worker, sock=ours)
        return worker

    def kill(self, pid: int) -> None:
        """Have a worker killed."""
        if self._control is not None and pid in self._workers:
            self._control.send(f"kill {pid}".encode())

    async def close(self) -> None:
        """End the template and with it all workers."""
        self._lost("the pool was closed")
        for template in self._templates:
            await asyncio.to_thread(template.wait, END_SECONDS)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = (str(self._limits.seconds), str(self._limits.memory))
        command = [
            sys.executable,
            "-P",
            "-m",
            "crawld.read.workers.template",
            str(theirs.fileno()),
            *limits,
            *self._modules,
        ]
        paths = [str(Path(crawld.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        # A process that forks must have one thread only; with one thread, one arena of malloc is enough.
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
        with theirs:
            template = subprocess.Popen(  # noqa: S603 - our own module, with numbers of our own
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,  # ctrl-C is for the daemon
            )
        self._templates = [*(one for one in self._templates if one.poll() is None), template]
        ours.setblocking(False)
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._hear)
        return ours

    def _hear(self) -> None:
        """Take over what the template says."""
        while self._control is not None:
            try:
                message = self._control.recv(LONGEST_MESSAGE)
            except BlockingIOError:
                return
            except ConnectionResetError:
                message = b""
            if not message:
                if not self._forks:  # else whoever waits for one says so
                    log.error("the process that starts workers has ended; it is started again when one is needed")
                self._lost("the process that starts workers has ended")
                return
            verb, *numbers = message.decode().split()
            if verb == "confined":
                self._report(Confinement.of(numbers[0]))
            elif verb == "forked":
                asked = self._forks.popleft()
                if not asked.cancelled():  # else nobody holds the other end of its socket, and it ends
                    asked.set_result(int(numbers[0]))
            else:
                self._ended(int(numbers[0]), int(numbers[1]))

    def _report(self, confinement: Confinement) -> None:
        """Say once which layers of the kernel confine workers, and which are missing."""
        if self.confinement != confinement:
            self.confinement = confinement
            whole = confinement == Confinement(seccomp=True, landlock=True)
            say = log.info if whole else log.warning
            say("workers that read foreign bytes are confined", extra={"by": str(confinement)})

    def _ended(self, pid: int, status: Ended) -> None:
        if (worker := self._workers.pop(pid, None)) is not None:
            worker.ended(status)

    def _lost(self, why: str) -> None:
        """Forget the template: whoever waits for it or for a worker is told."""
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
        self._control = None
        while self._forks:
            asked = self._forks.popleft()
            if not asked.done():
                asked.set_exception(ConnectionError(why))
        for pid in list(self._workers):
            self._ended(pid, None)
