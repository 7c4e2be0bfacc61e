"""Worker processes: each task within its limits, and none at the expense of others."""

import asyncio
import dataclasses
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawld.model.errors import InputError, TooCostlyError
from crawld.read.workers import pool as pool_module
from crawld.read.workers.messages import signature_of
from crawld.read.workers.pool import LIMITS, FairQueue, Launcher, WorkerPool, WorkerProcess
from crawld.read.workers.worker import Limits
from tests.support.process import HANG_SECONDS, runs

MODULES = ("tests.unit.test_workers",)


def measure(body: bytes) -> tuple[int, int]:
    """How long the body is, and which process says so."""
    return len(body), os.getpid()


def spin(seconds: float) -> str:
    """Take so much processor time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


def doze(seconds: float) -> str:
    """Take time, but no processor."""
    time.sleep(seconds)
    return "done"


def grow(megabytes: int) -> int:
    """Need so much memory."""
    return len(bytearray(megabytes << 20))


def crash() -> None:
    """End as a broken library would."""
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse(word: str) -> None:
    """Fail on purpose."""
    raise InputError(f"{word} is not wanted")


def parent_of(worker: int) -> int:
    """The process that a worker was forked from: the template."""
    return int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])


async def until_ended(worker: int) -> None:
    """Wait until a process is no more."""
    async with asyncio.timeout(HANG_SECONDS):
        while runs(worker):
            await asyncio.sleep(0.05)


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    """A pool with small limits and one worker for short tasks."""
    made = WorkerPool(MODULES, Limits(seconds=0.5, memory=64 << 20), short=1)
    yield made
    await made.close()


async def test_work_is_done_in_another_process(pool: WorkerPool) -> None:
    """A task runs in a worker, which the next task uses again."""
    (length, first), (_, second) = [await pool.run("a", measure, b"x" * size) for size in (3, 4)]
    assert length == 3
    assert first == second != os.getpid()


async def test_what_work_raises_is_raised(pool: WorkerPool) -> None:
    """An exception comes back as itself, with a note that says where it was raised."""
    with pytest.raises(InputError, match="this is not wanted") as caught:
        await pool.run("a", refuse, "this")
    assert "refuse" in caught.value.__notes__[0]


async def test_too_much_processor_time_is_too_costly(pool: WorkerPool) -> None:
    """A task without end is killed after its processor time, and the next ones are served."""
    with pytest.raises(TooCostlyError, match=r"more than 0\.5 s of processor time"):
        await pool.run("a", spin, 60.0)
    assert await pool.run("a", spin, 0.0) == "done"


async def test_too_much_memory_is_too_costly(pool: WorkerPool) -> None:
    """A task that needs more memory than it may have fails; one that needs less succeeds."""
    with pytest.raises(TooCostlyError, match="more than 64 MB of memory"):
        await pool.run("a", grow, 200)
    assert await pool.run("a", grow, 20) == 20 << 20


async def test_a_worker_that_crashes_costs_its_own_task(pool: WorkerPool) -> None:
    """A crash fails the task that caused it, and the next ones are served."""
    with pytest.raises(TooCostlyError, match="ended the worker process with status -11"):
        await pool.run("a", crash)
    assert await pool.run("b", measure, b"x")


async def test_long_tasks_do_not_stop_short_ones(pool: WorkerPool) -> None:
    """While several hosts' tasks take all the time they may, those of another host are done first."""
    await pool.run("good", measure, b"x")
    bad = [asyncio.create_task(pool.run(f"bad{number}", spin, 60.0)) for number in range(4)]
    await asyncio.sleep(0)
    for _ in range(20):
        await pool.run("good", measure, b"x")
    assert not all(task.done() for task in bad)
    found = await asyncio.gather(*bad, return_exceptions=True)
    assert [type(one) for one in found] == [TooCostlyError] * 4


async def test_a_task_that_only_waits_is_let_finish(pool: WorkerPool) -> None:
    """Processor time counts, not the clock on the wall: on a busy machine work takes longer."""
    assert await pool.run("a", doze, 1.0) == "done"


async def test_two_long_tasks_take_turns(pool: WorkerPool) -> None:
    """A task that outgrows the short lane while the long one is taken begins again later, and is done."""
    assert await asyncio.gather(*(pool.run(name, spin, 0.3) for name in "ab")) == ["done", "done"]


async def test_what_waits_is_bounded(pool: WorkerPool) -> None:
    """Who has most waiting loses the latest of it; others lose nothing."""
    body = b"x" * LIMITS.large
    many = [
        asyncio.create_task(pool.run("greedy", measure, body)) for _ in range((LIMITS.max_waiting // LIMITS.large) + 5)
    ]
    modest = asyncio.create_task(pool.run("modest", measure, body))
    found = await asyncio.gather(*many, return_exceptions=True)
    assert (await modest)[0] == LIMITS.large
    assert 1 <= sum(isinstance(one, TooCostlyError) for one in found) <= 6


async def test_a_template_that_was_killed_is_replaced(pool: WorkerPool) -> None:
    """When the process that starts workers is killed, what ran fails and the next task finds new workers."""
    _, worker = await pool.run("a", measure, b"x")
    os.kill(parent_of(worker), signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert (await pool.run("a", measure, b"xy"))[0] == 2


async def test_a_template_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that imports for longer than a stop waits is killed: closing raises nothing and leaves no process."""
    monkeypatch.setattr(pool_module, "LIMITS", dataclasses.replace(LIMITS, end_seconds=0.1))
    pool = WorkerPool(MODULES, Limits(seconds=5.0), short=1)
    _, worker = await pool.run("a", measure, b"x")
    template = parent_of(worker)
    os.kill(template, signal.SIGSTOP)
    await pool.close()
    assert not runs(template)
    await until_ended(worker)


async def test_closing_ends_every_process() -> None:
    """After closing no worker is left, and what waited is told."""
    pool = WorkerPool(MODULES, Limits(seconds=5.0), short=1)
    _, worker = await pool.run("a", measure, b"x")
    waiting = [asyncio.create_task(pool.run("a", spin, 5.0)) for _ in range(2)]
    await asyncio.sleep(0.2)
    await pool.close()
    assert [type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)] == [TooCostlyError] * 2
    await until_ended(worker)


def test_the_queue_is_fair_by_cost() -> None:
    """Who has cost much waits for those who cost little, and a stranger waits for those who are known."""
    queue: FairQueue[str] = FairQueue()
    for payer, cost in (("dear", 1.0), ("cheap", 0.01)):
        queue.paid(payer, cost)
    for payer in ("dear", "stranger", "cheap"):
        queue.put(payer, payer, 1)
    assert [queue.pop() for _ in range(3)] == ["cheap", "stranger", "dear"]
    assert not queue
    assert queue.bytes == 0


def test_a_payer_gains_nothing_by_sending_much() -> None:
    """Tasks of two payers that cost the same are served in turn, however many one of them has."""
    queue: FairQueue[str] = FairQueue()
    for payer in ("many", "few"):
        queue.paid(payer, 0.01)
    for number in range(10):
        queue.put("many", f"many{number}", 1)
    queue.put("few", "few", 1)
    served = []
    while queue:
        served.append(queue.pop())
        queue.paid(served[-1].rstrip("0123456789"), 0.01)
    assert served.index("few") <= 2


async def test_a_worker_that_ended_leaves_no_socket_open() -> None:
    """What it has not read is dropped: nothing waits until somebody reads it."""
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        worker = WorkerProcess(Launcher(Limits(), ()))
        await asyncio.get_running_loop().create_connection(lambda: worker, sock=ours)
        worker.ask([bytes(4 << 20)], signature_of(measure).result, lambda answer, status: None)
        worker.ended(None)
        await asyncio.sleep(0)
        assert ours.fileno() == -1
