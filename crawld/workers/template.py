"""The template process: imports the readers once, then forks a worker whenever the pool asks for one.

    python -m crawld.workers.template FD SECONDS MEMORY MODULE…

It is a process of its own because forking one that has threads and an event loop is not safe. Over the socket FD the
pool sends `fork` with the worker's end of a socket, or `kill PID`; the template answers `forked PID`, and says
`ended PID STATUS` when a worker has ended. When the pool is gone it kills all workers and ends. Signals meant for the
daemon (ctrl-C, a service manager that stops the whole group) are ignored: the daemon may want to finish what is being
read.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence

from crawld.workers.worker import Limits, work

LONGEST_MESSAGE = 64
NICENESS = 5
"""Workers yield to the event loop where processors are scarce."""


def main(arguments: Sequence[str]) -> None:
    """Import what workers need, then serve the pool."""
    descriptor, seconds, memory, *modules = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # workers share these pages for as long as nobody writes to them
    with socket.socket(fileno=int(descriptor)) as pool:
        serve(pool, Limits(float(seconds), int(memory)))


def serve(pool: socket.socket, limits: Limits) -> None:
    """Fork and kill as the pool asks, until it is gone."""
    ended, wake = socket.socketpair()
    ended.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noted)
    workers: set[int] = set()
    try:
        while True:
            ready, _, _ = select.select([pool, ended], [], [])
            if ended in ready:
                ended.recv(4096)
                _report_ended(pool, workers)
            if pool in ready and not _obey(pool, workers, limits, (ended, wake)):
                return
    except (BrokenPipeError, ConnectionResetError):
        return  # the pool is gone
    finally:
        signal.set_wakeup_fd(-1)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


def _noted(number: int, frame: object) -> None:
    """A child has ended; the wake-up descriptor tells the loop."""


def _obey(pool: socket.socket, workers: set[int], limits: Limits, ours: Sequence[socket.socket]) -> bool:
    """Do what the pool asks for; False where it is gone."""
    message, descriptors, _, _ = socket.recv_fds(pool, LONGEST_MESSAGE, 1)
    verb, _, argument = message.decode().partition(" ")
    if verb == "fork":
        worker = _fork(pool, descriptors[0], limits, ours)
        workers.add(worker)
        pool.send(f"forked {worker}".encode())
    elif verb == "kill" and int(argument) in workers:  # else it has ended, and its number may be another's by now
        os.kill(int(argument), signal.SIGKILL)
    return bool(message)


def _fork(pool: socket.socket, descriptor: int, limits: Limits, ours: Sequence[socket.socket]) -> int:
    worker = os.fork()
    if worker:
        os.close(descriptor)
        return worker
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (pool, *ours):
            one.close()
        os.nice(NICENESS)
        with socket.socket(fileno=descriptor) as sock:
            work(sock, limits)
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the pool is gone
    except BaseException:  # noqa: BLE001 - whatever it is, a worker must never return into the template's code
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _report_ended(pool: socket.socket, workers: set[int]) -> None:
    while workers:
        worker, status = os.waitpid(-1, os.WNOHANG)
        if not worker:
            return
        workers.discard(worker)
        pool.send(f"ended {worker} {os.waitstatus_to_exitcode(status)}".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
