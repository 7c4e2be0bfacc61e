"""One worker of a fleet on a node of a Ray cluster: an actor whose child process is `crawld fleet run`.

The actor keeps its child running by itself, so that it needs nobody: the command that placed it may end. Where the
actor dies, the kernel ends the child, and Ray makes the actor again, on another node if need be. A child that is cut
off and lives on does no harm: its lease ends, and the fence keeps its records out.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # as in linux/prctl.h
LAST_LINES = 5
REST_SECONDS = 2.0
"""Between two starts of a worker: one that cannot run is not started in a busy loop."""
STOP_SECONDS = 30.0
"""For requests under way, the last records, and giving the shards back."""
UNUSABLE = 2
"""The exit status of a worker that cannot start until a person has mended its settings."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker's process ended, and the last lines that it logged."""

    status: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActorStanding:
    """How a worker on Ray stands: its process now, how often it was started, and how it ended last."""

    process: int | None
    starts: int
    ended: Ended | None


def _end_with_parent() -> None:
    """Ask the kernel to end this process, cleanly, when the thread that started it dies; between fork and exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class WorkerActor:
    """Keeps a worker's process running until it is told to stop, or until the worker cannot start at all."""

    def __init__(self, name: str, config: str | None, environment: Mapping[str, str]) -> None:
        """The settings are those at this path of the actor's own node."""
        self._name, self._config, self._environment = name, config, dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._starts = 0
        self._ended: Ended | None = None
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="worker", daemon=True)
        self._keeper.start()

    def standing(self) -> ActorStanding:
        """How the worker stands now."""
        process = self._process
        running = process is not None and process.poll() is None
        return ActorStanding(process.pid if process is not None and running else None, self._starts, self._ended)

    def stop(self) -> None:
        """End the worker as an operator would, and wait until it has given its shards back."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._ended = self._run()
            if self._ended.status == UNUSABLE:
                return
            self._stopping.wait(REST_SECONDS)

    def _run(self) -> Ended:
        """Run `crawld fleet run` until it ends; its log goes to our own, which Ray keeps in a file."""
        self._starts += 1
        if self._config is not None and not Path(self._config).is_file():
            return Ended(UNUSABLE, (f"{self._config}: there is no such file on the node {os.uname().nodename}",))
        given = () if self._config is None else ("--config", self._config)
        words = [sys.executable, "-m", "crawld", "fleet", "run", "--name", self._name, *given]
        lines: deque[str] = deque(maxlen=LAST_LINES)
        with subprocess.Popen(  # noqa: S603 - our own program
            words, env=os.environ | self._environment, stderr=subprocess.PIPE, text=True, errors="replace",
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - it makes one system call
        ) as process:  # fmt: skip
            self._process = process
            if self._stopping.is_set():
                process.terminate()
            for line in process.stderr or ():
                lines.append(line.rstrip())
                sys.stderr.write(line)
        return Ended(process.returncode, tuple(lines))
