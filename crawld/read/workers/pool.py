"""The pool: tasks in, results out, each within its limits; implements `interfaces.Workers`.

There are two lanes. Every task starts in the short lane; one that is large, or that runs for longer than a moment,
belongs in the long lane, of which there is one seat: so whatever takes long to read waits for others of its kind, and
everything else goes on. A task that outgrows the short lane keeps its worker where the seat is free, and else begins
again when it is.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from crawld.model.errors import TooCostlyError
from crawld.read.workers.confinement import Confinement
from crawld.read.workers.fair_queue import FairQueue
from crawld.read.workers.framing import Answer, Done, Raised, flattened, packed_task
from crawld.read.workers.launcher import Ended, Launcher, WorkerProcess
from crawld.read.workers.messages import signature_of
from crawld.read.workers.worker import Limits

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

MOMENT = 0.1
"""Seconds that a task may take in the short lane: pages that people read need hundredths."""
LARGE = 1 << 20
"""Bytes from which on a task begins in the long lane: so one task at a time may need much memory."""
MOST_WAITING = 24 << 20
"""Bytes that wait to be read in all. Beyond, whoever has most waiting loses the latest of it."""
WALL_FACTOR = 6.0
"""Where processors are scarce a task may take that many times its processor time until its worker is killed."""
GROWN = 48 << 20
"""Bytes by which a worker may have grown to be used again; a new one begins small."""
NICENESS = 15
"""Of the worker in the long lane: the event loop and the short lane go first."""
RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0


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
        function, all_given = flattened(work, given)
        size = sum(map(_size, all_given))
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Task(payer, function, all_given, named, size, answer, long=size >= LARGE))
        self._serve()
        return await answer

    def start(self) -> None:
        """Start the first worker before it is needed."""
        self._add_short()

    async def close(self) -> None:
        """End all workers; whoever waits for one is told that reading failed."""
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
        """How many tasks wait for a worker."""
        return len(self._short) + len(self._long)

    @property
    def confinement(self) -> Confinement | None:
        """Which layers of the kernel confine workers; None until the first was started."""
        return self._launcher.confinement

    # -- lanes ------------------------------------------------------------------------------------------------------

    def _enqueue(self, task: _Task) -> None:
        (self._long if task.long else self._short).put(task.payer, task, task.size)
        while self._short.bytes + self._long.bytes > MOST_WAITING:
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
            else:  # somebody killed it while it had nothing to do
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
        worker.yield_processor(NICENESS)
        if self._long:
            self._begin(worker, self._long.pop())
        else:  # what waited was dropped meanwhile
            self._seat_taken = False
            worker.close()

    async def _fork(self) -> WorkerProcess:
        """A new worker, however long that takes: without one nothing can be read."""
        wait = RETRY_SECONDS
        while True:
            try:
                return await self._launcher.fork()
            except (OSError, MemoryError) as error:
                why = error if str(error) else "out of memory"
                log.error("cannot start a worker process: %s; next try in %g s", why, wait)  # noqa: TRY400 - no fault of ours
                await asyncio.sleep(wait)
                wait = min(2 * wait, MAX_RETRY_SECONDS)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    # -- one task ---------------------------------------------------------------------------------------------------

    def _begin(self, worker: WorkerProcess, task: _Task) -> None:
        """Have a worker run a task."""
        loop = asyncio.get_running_loop()
        task.began = loop.time()
        if task.long:
            task.timer = loop.call_later(WALL_FACTOR * self._limits.seconds, self._overdue, worker, task)
        else:
            task.timer = loop.call_later(MOMENT, self._outgrown, worker, task)
        finish = partial(self._finish, worker, task)
        try:
            message, shape = packed_task(task.work, task.given, task.named), signature_of(task.work).result
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
        worker.yield_processor(NICENESS)
        loop = asyncio.get_running_loop()
        task.timer = loop.call_later(WALL_FACTOR * self._limits.seconds, self._overdue, worker, task)
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
        if answer is not None:
            self._answer(task, answer)
        self._give_back(worker, task, reusable=isinstance(answer, Done | Raised) and answer.grown < GROWN)
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
            _fail(task, f"reading it took more than {WALL_FACTOR * self._limits.seconds:g} s")
        elif self._closed:
            _fail(task, "the daemon stops")
        else:
            how = "unexpectedly" if status is None else f"with status {status}"
            log.warning("a worker ended %s while it read what %s sent", how, task.payer)
            _fail(task, f"reading it ended the worker process {how}")
        return False

    def _answer(self, task: _Task, answer: Answer) -> None:
        if task.answer.done():
            return  # whoever asked is gone
        if isinstance(answer, Done):
            task.answer.set_result(answer.result)
        elif isinstance(answer, Raised):
            answer.error.add_note(answer.trace)
            task.answer.set_exception(answer.error)
        else:
            _fail(task, f"reading it took more than {self._limits.memory >> 20} MB of memory")

    def _give_back(self, worker: WorkerProcess, task: _Task, *, reusable: bool) -> None:
        if reusable and not task.long:
            self._idle.append(worker)
            return
        if task.long:
            self._seat_taken = False
        else:
            self._short_workers -= 1
        worker.close()


def _fail(task: _Task, why: str) -> None:
    if not task.answer.done():
        task.answer.set_exception(TooCostlyError(why))


def _size(given: object) -> int:
    """The bytes of what is to be read, whether given as they are or as the body of an answer."""
    body = getattr(given, "body", given)
    return len(body) if isinstance(body, bytes | bytearray) else 0
