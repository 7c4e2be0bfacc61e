"""The life of a worker: take a task, run it within its limits, answer, until the pool closes its end.

The limits are the kernel's. Processor time: a timer that kills the process when it runs out, whatever the process is
doing. Memory: RLIMIT_DATA, beyond which an allocation fails; a task that meets it is told from one that is broken.
"""

import pickle
import resource
import signal
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path

from crawld.workers.framing import GoneError, receive, send

SPARE_BYTES = 4 << 20
"""Memory set aside for answering that there was not enough memory."""
KILOBYTE = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one task may cost."""

    seconds: float = 5.0  # of processor time
    memory: int = 128 << 20  # bytes above what a worker has before its first task


@dataclass(frozen=True, slots=True)
class Done:
    """A task's result, and by how many bytes its worker has ever grown."""

    result: object
    grown: int


@dataclass(frozen=True, slots=True)
class Raised:
    """A task ended with an exception; `trace` says where, for the log."""

    error: BaseException
    trace: str
    grown: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A task needed more memory than it may have; its worker ends."""


Answer = Done | Raised | OutOfMemory


def work(sock: socket.socket, limits: Limits) -> None:
    """Serve tasks until the other side closes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(limits.memory)
    base = _largest()
    while True:
        try:
            function, given, named = receive(sock)
        except GoneError:
            return
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        answer = _answer(function, given, named, base)
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(sock, answer)
        if isinstance(answer, OutOfMemory):
            return
        del function, given, named, answer


def _answer(function: object, given: tuple[object, ...], named: dict[str, object], base: int) -> Answer:
    spare = bytearray(SPARE_BYTES)
    try:
        return Done(function(*given, **named), _largest() - base)  # type: ignore[operator]
    except MemoryError:
        del spare
        return OutOfMemory()
    except Exception as error:  # noqa: BLE001 - it is raised again where the task was asked for
        return Raised(_portable(error), traceback.format_exc(limit=-5), _largest() - base)


def _portable(error: Exception) -> BaseException:
    """The error as it can be sent; some exceptions of libraries cannot."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever keeps it from being sent
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _largest() -> int:
    """The most bytes that this process has ever had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def _limit_memory(most: int) -> None:
    """Let allocations fail that exceed what the process has now by more than `most` bytes."""
    status = Path("/proc/self/status").read_text()
    now = int(status.partition("VmData:")[2].split()[0]) * KILOBYTE
    resource.setrlimit(resource.RLIMIT_DATA, (now + most, now + most))
