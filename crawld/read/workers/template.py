"""The template process: imports the readers once, then forks a worker whenever the pool asks for one.

    python -m crawld.read.workers.template FD SECONDS MEMORY MODULE…

It is a process of its own because forking one that has threads and an event loop is not safe. Over the socket FD the
pool sends `fork` with the worker's end of a socket, or `kill PID`; the template says `confined LAYERS` when it has
tried what confines a worker on this kernel, answers `forked PID`, and says `ended PID STATUS` when a worker has ended.
Each worker has a process group of its own, which is killed as a whole. When the pool is gone the template kills all
workers and ends. Signals meant for the daemon (ctrl-C, a service manager that stops the whole group) are ignored: the
daemon may want to finish what is being read.

A worker cannot open files, so everything that reading needs is loaded here, codecs and all.
"""

import encodings
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from crawld.read.workers.confinement import Confinement, confine, give_up_rights
from crawld.read.workers.worker import Limits, work


@dataclass(frozen=True)
class TemplateLimits:
    """Numbers that bound and tune this module."""

    max_message: int = 64
    niceness: int = 5
    """Workers yield to the event loop where processors are scarce."""


LIMITS = TemplateLimits()


CODECS = [
    f"encodings.{module.name}"
    for module in pkgutil.iter_modules(encodings.__path__)
    if module.name not in {"mbcs", "oem"}
]
"""Python loads a codec at its first use; these two are of another system."""
LAYERS = (Confinement(landlock=True), Confinement(seccomp=True))
"""In the order in which they can be applied one by one."""


def main(arguments: Sequence[str]) -> None:
    """Import what workers need, then serve the pool."""
    descriptor, seconds, memory, *modules = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for module in (*modules, *CODECS):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # workers share these pages for as long as none writes to them
    with socket.socket(fileno=int(descriptor)) as pool:
        confinement = _tried()
        try:
            pool.send(f"confined {confinement}".encode())
        except (BrokenPipeError, ConnectionResetError):
            return  # the pool is gone
        serve(pool, Limits(float(seconds), int(memory)), confinement)


def _tried() -> Confinement:
    """The layers that confine a process here, tried on one that ends at once."""
    tried = os.fork()
    if not tried:
        taken = 0
        try:
            give_up_rights(keep=0)
            taken = sum(1 << at for at, layer in enumerate(LAYERS) if confine(layer) == layer)
        finally:
            os._exit(taken)
    taken = os.waitstatus_to_exitcode(os.waitpid(tried, 0)[1])
    landlock, seccomp = (taken > 0 and bool(taken & 1 << at) for at in range(len(LAYERS)))
    return Confinement(seccomp, landlock)


def serve(pool: socket.socket, limits: Limits, confinement: Confinement) -> None:
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
            if pool in ready and not _obey(pool, workers, limits, confinement):
                return
    except (BrokenPipeError, ConnectionResetError):
        return  # the pool is gone
    finally:
        signal.set_wakeup_fd(-1)
        for worker in workers:
            _kill_group(worker)


def _noted(number: int, frame: object) -> None:
    """A child has ended; the wake-up descriptor tells the loop."""


def _kill_group(worker: int) -> None:
    """Kill a worker, or what it left behind."""
    with suppress(ProcessLookupError):
        os.killpg(worker, signal.SIGKILL)


def _obey(pool: socket.socket, workers: set[int], limits: Limits, confinement: Confinement) -> bool:
    """Do what the pool asks for; False where it is gone."""
    message, descriptors, _, _ = socket.recv_fds(pool, LIMITS.max_message, 1)
    verb, _, argument = message.decode().partition(" ")
    if verb == "fork":
        worker = _fork(descriptors[0], limits, confinement)
        workers.add(worker)
        pool.send(f"forked {worker}".encode())
    elif verb == "kill" and int(argument) in workers:  # else it has ended, and its number may be another's by now
        _kill_group(int(argument))
    return bool(message)


def _fork(descriptor: int, limits: Limits, confinement: Confinement) -> int:
    worker = os.fork()
    if worker:
        with suppress(ProcessLookupError, PermissionError):  # it has just ended
            os.setpgid(worker, worker)
        os.close(descriptor)
        return worker
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.nice(LIMITS.niceness)
        with socket.socket(fileno=descriptor) as sock:
            work(sock, limits, confinement)
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the pool is gone
    except BaseException:  # noqa: BLE001 - whatever it is, a worker must never return into the template's code
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _report_ended(pool: socket.socket, workers: set[int]) -> None:
    while workers:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        _kill_group(ended.si_pid)  # while its number cannot be another's
        worker, status = os.waitpid(ended.si_pid, 0)
        workers.discard(worker)
        pool.send(f"ended {worker} {os.waitstatus_to_exitcode(status)}".encode())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (MemoryError, ImportError, OSError) as error:  # the pool says that it has ended, and tries again
        sys.exit(f"crawld: the process that starts workers cannot run: {type(error).__name__}: {error}")
