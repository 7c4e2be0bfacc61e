"""The pool: tasks in, results out, each within its limits.

There are two lanes. Every task starts in the short lane; one that is large, or that runs for longer than a moment,
belongs in the long lane, of which there is one seat: so whatever takes long to read waits for others of its kind, and
everything else goes on. A task that outgrows the short lane keeps its worker where the seat is free, and else begins
again when it is.
"""

import asyncio
import heapq
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

import crawld
from crawld.model.errors import TooCostlyError
from crawld.read.workers.confinement import Confinement
from crawld.read.workers.messages import Answer, AnswerReader, Done, OutOfMemory, Raised, Shape, ShapeError, packed_task
from crawld.read.workers.worker import Limits


@dataclass(frozen=True)
class PoolLimits:
    """Numbers that bound and tune this module."""

    stranger: float = 0.05
    """Seconds of cost that a payer is assumed to have caused before its first task."""
    max_known: int = 10_000
    """Payers whose clocks are remembered."""
    max_message: int = 64
    end_seconds: float = 5.0
    """Until the template has killed its workers and ended; then it is killed."""
    moment: float = 0.1
    """Seconds that a task may take in the short lane: pages that people read need hundredths."""
    wall_factor: float = 6.0
    """Where processors are scarce a task may take that many times its processor time until its worker is killed."""
    niceness: int = 15
    """Of the worker in the long lane: the event loop and the short lane go first."""
    retry_seconds: float = 1.0
    max_retry_seconds: float = 60.0
    large: int = 1 << 20
    """Bytes from which on a task begins in the long lane: so one task at a time may need much memory."""
    max_waiting: int = 24 << 20
    """Bytes that wait to be read in all. Beyond it the payer with most waiting loses its latest."""
    grown: int = 48 << 20
    """Bytes by which a worker may have grown to be used again; a new one begins small."""


LIMITS = PoolLimits()


T = TypeVar("T")


class FairQueue(Generic[T]):
    """Tasks by payer: start-time fair queueing, with costs that are known only afterwards."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[T, int]]] = {}
        self._heap: list[tuple[float, int, str]] = []  # the payers that wait, by their clocks
        self._clocks: OrderedDict[str, float] = OrderedDict()
        self._clock = 0.0
        self._turn = 0
        self._count = 0
        self._bytes: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return self._count

    def put(self, payer: str, task: T, size: int) -> None:
        """Let a task of `size` bytes wait."""
        if payer not in self._waiting:
            self._waiting[payer] = deque()
            self._push(payer)
        self._waiting[payer].append((task, size))
        self._bytes[payer] = self._bytes.get(payer, 0) + size
        self.bytes += size
        self._count += 1

    def pop(self) -> T:
        """The next task."""
        clock, _, payer = heapq.heappop(self._heap)
        self._clock = max(self._clock, clock)
        task, size = self._waiting[payer].popleft()
        self._left(payer, size)
        if payer in self._waiting:
            self._push(payer)
        return task

    def paid(self, payer: str, seconds: float) -> None:
        """A task of the payer took that long: its next ones wait accordingly."""
        self._clocks[payer] = max(self._clocks.get(payer, 0.0), self._clock) + seconds
        self._clocks.move_to_end(payer)
        if len(self._clocks) > LIMITS.max_known:
            self._clocks.popitem(last=False)

    def drop_heaviest(self) -> T:
        """Take the newest task of the payer that has most bytes waiting out of the queue."""
        payer = max(self._bytes, key=self._bytes.__getitem__)
        task, size = self._waiting[payer].pop()
        self._left(payer, size)
        if payer not in self._waiting:
            self._heap = [entry for entry in self._heap if entry[2] != payer]
            heapq.heapify(self._heap)
        return task

    def _push(self, payer: str) -> None:
        clock = self._clocks.get(payer)
        begins = self._clock + LIMITS.stranger if clock is None else max(clock, self._clock)
        self._turn += 1
        heapq.heappush(self._heap, (begins, self._turn, payer))

    def _left(self, payer: str, size: int) -> None:
        self._count -= 1
        self.bytes -= size
        self._bytes[payer] -= size
        if not self._waiting[payer]:
            del self._waiting[payer], self._bytes[payer]


log = logging.getLogger(__name__)

PASSED_ON = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables of the daemon that workers see: others may hold secrets, as the database's password."""

Ended = int | None
"""End of a worker: its status, the negative number of a signal, or None where it is unknown."""
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

        A worker that says anything else than the answer to its task is no longer trusted, and ends.
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
        """The process is no more, and nothing reads what has yet to be sent to it."""
        self.alive = False
        if self._transport is not None:
            self._transport.abort()
        self._tell(None, status)

    def _tell(self, answer: Answer | None, status: Ended) -> None:
        hear, self._hear = self._hear, None
        if hear is not None:
            hear(answer, status)


def started_template(control: socket.socket, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts the process that forks workers; it is told to over that socket."""
    paths = [str(Path(crawld.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # A process that forks must have one thread only; with one thread, one arena of malloc is enough.
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    return subprocess.Popen(  # noqa: S603 - our own module, with numbers of our own
        [sys.executable, "-P", "-m", "crawld.read.workers.template", str(control.fileno()), *arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=[control.fileno()],
        env=environment,
        start_new_session=True,  # ctrl-C is for the daemon
    )


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
            try:
                await asyncio.to_thread(template.wait, LIMITS.end_seconds)
            except subprocess.TimeoutExpired:  # it is still importing, on a busy machine; its workers end with it
                template.kill()
                await asyncio.to_thread(template.wait)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = (str(self._limits.seconds), str(self._limits.memory))
        with theirs:
            template = started_template(theirs, *limits, *self._modules)
        self._templates = [*(one for one in self._templates if one.poll() is None), template]
        ours.setblocking(False)
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._hear)
        return ours

    def _hear(self) -> None:
        """Take over what the template says."""
        while self._control is not None:
            try:
                message = self._control.recv(LIMITS.max_message)
            except BlockingIOError:
                return
            except ConnectionResetError:
                message = b""
            if not message:
                if not self._forks:  # else a caller waits and reports it
                    log.error("the process that starts workers has ended; it is started again when one is needed")
                self._lost("the process that starts workers has ended")
                return
            verb, *numbers = message.decode().split()
            if verb == "confined":
                self._report(Confinement.of(numbers[0]))
            elif verb == "forked":
                asked = self._forks.popleft()
                if not asked.cancelled():  # else its socket has no other end, and it ends
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
        """Forget the template and tell everything that waits for it or for a worker."""
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


P = ParamSpec("P")


@dataclass(slots=True, eq=False)
class _Task:
    payer: str
    work: Callable[..., Any]
    given: Sequence[Any]
    named: Mapping[str, Any]
    size: int
    answer: asyncio.Future[Any]
    long: bool = False
    evicted: bool = False  # its worker was killed so that others go on; it begins again in the long lane
    overdue: bool = False  # its worker was killed because it took too long by the clock on the wall
    began: float = 0.0
    timer: asyncio.TimerHandle | None = None


class WorkerPool:
    """Runs work on foreign bytes in processes; `modules` are what they need to import."""

    def __init__(self, modules: Sequence[str] = (), limits: Limits | None = None, short: int | None = None) -> None:
        self._limits = limits or Limits()
        self._launcher = Launcher(self._limits, modules)
        self._most_short = short or min(max(len(os.sched_getaffinity(0)) - 1, 1), 4)
        self._short: FairQueue[_Task] = FairQueue()
        self._long: FairQueue[_Task] = FairQueue()
        self._idle: list[WorkerProcess] = []
        self._short_workers = 0  # those of the short lane, busy, idle or about to be
        self._seat_taken = False  # the one of the long lane
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self, payer: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Return what `work` returns; TooCostlyError where it exceeded a limit."""
        function: Callable[..., Any] = work
        everything: Sequence[Any] = given
        if isinstance(work, partial):
            if work.keywords:
                raise TypeError("a task is given by position what was given beforehand")
            function, everything = work.func, (*work.args, *given)
        size = 0  # of what is to be read, whether given as it is or as the body of an answer
        for one in everything:
            body = getattr(one, "body", one)
            size += len(body) if isinstance(body, bytes | bytearray) else 0
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Task(payer, function, everything, named, size, answer, long=size >= LIMITS.large))
        self._serve()
        return await answer

    def start(self) -> None:
        """Start the first worker before it is needed."""
        self._add_short()

    async def close(self) -> None:
        """End all workers; tasks that wait for one fail."""
        self._closed = True
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for queue in (self._short, self._long):
            while queue:
                _fail(queue.pop(), "the daemon stops")
        await self._launcher.close()

    @property
    def waiting(self) -> int:
        """Returns how many tasks wait for a worker."""
        return len(self._short) + len(self._long)

    @property
    def confinement(self) -> Confinement | None:
        """Returns which layers of the kernel confine workers; None until the first was started."""
        return self._launcher.confinement

    def _enqueue(self, task: _Task) -> None:
        (self._long if task.long else self._short).put(task.payer, task, task.size)
        while self._short.bytes + self._long.bytes > LIMITS.max_waiting:
            queue = max((self._short, self._long), key=lambda one: one.bytes)
            lost = queue.drop_heaviest()
            _fail(lost, f"too much that {lost.payer} sent waits to be read")

    def _serve(self) -> None:
        """Give tasks to workers, as far as there are any."""
        if self._closed:
            return
        while self._short and self._idle:
            worker = self._idle.pop()
            if worker.alive:
                self._begin(worker, self._short.pop())
            else:  # it was killed from outside while it was idle
                self._short_workers -= 1
        if self._short and self._short_workers < self._most_short:
            self._add_short()
        if self._long and not self._seat_taken:
            self._seat_taken = True
            self._start(self._take_seat())

    def _add_short(self) -> None:
        self._short_workers += 1
        self._start(self._fork_short())

    async def _fork_short(self) -> None:
        self._idle.append(await self._fork())
        self._serve()

    async def _take_seat(self) -> None:
        worker = await self._fork()
        worker.yield_processor(LIMITS.niceness)
        if self._long:
            self._begin(worker, self._long.pop())
        else:  # what waited was dropped meanwhile
            self._seat_taken = False
            worker.close()

    async def _fork(self) -> WorkerProcess:
        """A new worker, however long that takes: without one nothing can be read."""
        wait = LIMITS.retry_seconds
        while True:
            try:
                return await self._launcher.fork()
            except (OSError, MemoryError) as error:
                why = error if str(error) else "out of memory"
                log.error("cannot start a worker process: %s; next try in %g s", why, wait)  # noqa: TRY400 - a trouble of the machine
                await asyncio.sleep(wait)
                wait = min(2 * wait, LIMITS.max_retry_seconds)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _begin(self, worker: WorkerProcess, task: _Task) -> None:
        """Have a worker run a task."""
        loop = asyncio.get_running_loop()
        task.began = loop.time()
        if task.long:
            task.timer = loop.call_later(LIMITS.wall_factor * self._limits.seconds, self._overdue, worker, task)
        else:
            task.timer = loop.call_later(LIMITS.moment, self._outgrown, worker, task)
        finish = partial(self._finish, worker, task)
        try:
            message, shape = packed_task(task.work, task.given, task.named)
        except Exception as error:  # noqa: BLE001 - it is raised where the task was asked for
            finish(Raised(error, f"while {task.work.__qualname__} was handed to a worker", 0), None)
            return
        worker.ask(message, shape, finish)

    def _outgrown(self, worker: WorkerProcess, task: _Task) -> None:
        """A task of the short lane takes long: it keeps its worker as the long lane's, or begins again there."""
        if self._seat_taken:
            task.evicted = True
            worker.kill()
            return
        task.long = self._seat_taken = True
        worker.yield_processor(LIMITS.niceness)
        loop = asyncio.get_running_loop()
        task.timer = loop.call_later(LIMITS.wall_factor * self._limits.seconds, self._overdue, worker, task)
        self._short_workers -= 1
        self._serve()

    def _overdue(self, worker: WorkerProcess, task: _Task) -> None:
        task.overdue = True
        worker.kill()

    def _finish(self, worker: WorkerProcess, task: _Task, answer: Answer | None, status: Ended) -> None:
        """Take a worker's answer, or that it ended before it gave one."""
        if task.timer is not None:
            task.timer.cancel()
        spent = asyncio.get_running_loop().time() - task.began
        (self._long if task.long else self._short).paid(task.payer, spent)
        again = answer is None and self._broken(task, status)
        if isinstance(answer, OutOfMemory):
            _fail(task, f"reading it took more than {self._limits.memory >> 20} MB of memory")
        elif answer is not None and not task.answer.done():  # else the caller is gone
            if isinstance(answer, Done):
                task.answer.set_result(answer.result)
            else:
                answer.error.add_note(answer.trace)
                task.answer.set_exception(answer.error)
        if isinstance(answer, Done | Raised) and answer.grown < LIMITS.grown and not task.long:
            self._idle.append(worker)
        else:
            if task.long:
                self._seat_taken = False
            else:
                self._short_workers -= 1
            worker.close()
        if again:
            task.evicted, task.long = False, True
            self._enqueue(task)
        else:
            task.given, task.named = (), {}  # a body may be large
        self._serve()

    def _broken(self, task: _Task, status: Ended) -> bool:
        """The worker ended before it answered; whether the task begins again."""
        if task.evicted and status == -signal.SIGKILL:
            return not task.answer.done()
        if status == -signal.SIGPROF:
            _fail(task, f"reading it took more than {self._limits.seconds:g} s of processor time")
        elif task.overdue:
            _fail(task, f"reading it took more than {LIMITS.wall_factor * self._limits.seconds:g} s")
        elif self._closed:
            _fail(task, "the daemon stops")
        else:
            how = "unexpectedly" if status is None else f"with status {status}"
            log.warning("a worker ended %s while it read what %s sent", how, task.payer)
            _fail(task, f"reading it ended the worker process {how}")
        return False


def _fail(task: _Task, why: str) -> None:
    if not task.answer.done():
        task.answer.set_exception(TooCostlyError(why))
