"""The life of a worker: take a task, run it within its limits, answer, until the pool closes its end.

The limits are the kernel's. Processor time: a timer that kills the process when it runs out, whatever the process is
doing. Memory: RLIMIT_DATA, beyond which an allocation fails; a task that meets it is told from one that is broken.
"""

import resource
import signal
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crawld.read.workers.confinement import Confinement, confine, give_up_rights
from crawld.read.workers.messages import Answer, Done, GoneError, OutOfMemory, Raised, receive_task, send_answer

SPARE_BYTES = 4 << 20
"""Memory set aside for answering that there was not enough memory."""
KILOBYTE = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the cost of one task."""

    seconds: float = 5.0  # of processor time
    memory: int = 128 << 20  # bytes above what a worker has before its first task


def work(sock: socket.socket, limits: Limits, confinement: Confinement) -> None:
    """Serve tasks until the other side closes."""
    _limit_memory(limits.memory)
    give_up_rights(sock.fileno())
    if confine(confinement) != confinement:
        raise PermissionError(f"this worker is not confined by {confinement} as another was")
    base = _largest()
    while True:
        try:
            shapes, call = receive_task(sock)
        except GoneError:
            return
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        answer = _answer(call, base)
        signal.setitimer(signal.ITIMER_PROF, 0)
        send_answer(sock, answer, shapes.result)
        if isinstance(answer, OutOfMemory):
            return
        del shapes, call, answer


def _answer(call: Callable[[], object], base: int) -> Answer:
    spare = bytearray(SPARE_BYTES)
    try:
        return Done(call(), _largest() - base)
    except MemoryError:
        del spare
        return OutOfMemory()
    except Exception as error:  # noqa: BLE001 - it is raised again where the task was asked for
        return Raised(error, traceback.format_exc(limit=-5), _largest() - base)


def _largest() -> int:
    """The most bytes that this process has ever had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def _limit_memory(most: int) -> None:
    """Let allocations fail that exceed what the process has now by more than `most` bytes."""
    status = Path("/proc/self/status").read_text()
    now = int(status.partition("VmData:")[2].split()[0]) * KILOBYTE
    resource.setrlimit(resource.RLIMIT_DATA, (now + most, now + most))
