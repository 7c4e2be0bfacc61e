"""`crawld fleet ray`: the workers of a fleet on a Ray cluster."""

import ctypes
import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from crawld.cli.remote import CONFIG
from crawld.main.settings import load
from crawld.model.errors import CrawldError


@dataclass(frozen=True)
class RayLimits:
    """Numbers that bound and tune this module."""

    pr_set_pdeathsig: int = 1  # as in linux/prctl.h
    last_lines: int = 5
    rest_seconds: float = 2.0
    """Between two starts of a worker: one that cannot run is not started in a busy loop."""
    stop_seconds: float = 30.0
    """For requests under way, the last records, and giving the shards back."""
    unusable: int = 2
    """The exit status of a worker that cannot start until a person has mended its settings."""
    answer_seconds: float = 0.5
    knock_seconds: float = 5.0


LIMITS = RayLimits()


# One worker of a fleet on a node of a Ray cluster: an actor whose child process is `crawld fleet run`.

LIBC = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a worker's process: its status, and the last lines that it logged."""

    status: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActorStanding:
    """State of a worker on Ray: its process now, the number of its starts, and its last end."""

    process: int | None
    starts: int
    ended: Ended | None


def end_with_parent() -> None:
    """Ask the kernel to end this process, cleanly, when the thread that started it dies; between fork and exec."""
    if hasattr(LIBC, "prctl"):  # Linux's alone
        LIBC.prctl(LIMITS.pr_set_pdeathsig, signal.SIGTERM)


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
        """Returns the worker's state now."""
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
                process.wait(LIMITS.stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._ended = self._run()
            if self._ended.status == LIMITS.unusable:
                return
            self._stopping.wait(LIMITS.rest_seconds)

    def _run(self) -> Ended:
        """Run `crawld fleet run` until it ends; its log goes to our own, which Ray keeps in a file."""
        self._starts += 1
        if self._config is not None and not Path(self._config).is_file():
            return Ended(LIMITS.unusable, (f"{self._config}: there is no such file on the node {os.uname().nodename}",))
        given = () if self._config is None else ("--config", self._config)
        words = [sys.executable, "-m", "crawld", "fleet", "run", "--name", self._name, *given]
        lines: deque[str] = deque(maxlen=LIMITS.last_lines)
        with subprocess.Popen(  # noqa: S603 - our own program
            words, env=os.environ | self._environment, stderr=subprocess.PIPE, text=True, errors="replace",
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it makes one system call
        ) as process:  # fmt: skip
            self._process = process
            if self._stopping.is_set():
                process.terminate()
            for line in process.stderr or ():
                lines.append(line.rstrip())
                sys.stderr.write(line)
        return Ended(process.returncode, tuple(lines))


# The workers of a fleet on a Ray cluster: placed as actors, started again when they or their nodes die, stopped.

log = logging.getLogger(__name__)
NO_RAY = """Ray is not installed here. Install it with crawld on every node of the cluster:

  pip install 'crawld[ray,postgres]'

or start the workers without it: `crawld fleet run` on each machine."""
NO_CLUSTER = """no Ray cluster answers at {address}: {reason}
Start one with `ray start --head` on one machine and `ray start --address HOST:6379` on the others, and name it with
--address HOST:6379."""


def import_ray() -> Any:
    """The package, or a sentence that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise CrawldError(NO_RAY) from None


@dataclass(slots=True)
class _Placed:
    """A worker with the actor that runs it, and what was told of it last."""

    name: str
    actor: Any
    told: ActorStanding | None = None


class RayCluster:
    """Workers on a Ray cluster, from the first placement to the clean end.

    The actors are detached: they go on when this process is killed, and the next command with the same names finds
    them.
    """

    def __init__(self, address: str, *, cpus: float) -> None:
        self._ray = import_ray()
        try:
            _knock(address)
            self._ray.init(address=address, namespace="crawld", log_to_driver=False, logging_level=logging.WARNING)
            self._check_address(address)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise CrawldError(NO_CLUSTER.format(address=address, reason=reason)) from None
        # A worker that Ray cannot place waits until a node has room; SPREAD prefers nodes without one.
        placing = {"max_restarts": -1, "num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_concurrency": 4}
        self._placing = self._ray.remote(**placing)(WorkerActor)
        self._workers: list[_Placed] = []

    def _check_address(self, address: str) -> None:
        """ValueError where Ray took another cluster than the one that was named."""
        host, _, port = address.rpartition(":")
        found = str(self._ray.get_runtime_context().gcs_address)
        if host and port.isdecimal() and "/" not in host:
            given, taken = (
                {info[4][0] for info in socket.getaddrinfo(one, None)} for one in (host, found.rpartition(":")[0])
            )
            if found.rpartition(":")[2] != port or not given & taken:
                self._ray.shutdown()
                raise ValueError(f"Ray took the cluster at {found}")

    def start(self, names: Sequence[str], config: str | None, environment: Mapping[str, str]) -> None:
        """Place a worker of each name, or find the one that is there; each reads the settings of its own node."""
        for name in names:
            options = {"name": f"worker {name}", "lifetime": "detached", "get_if_exists": True}
            actor = self._placing.options(**options).remote(name, config, dict(environment))
            self._workers.append(_Placed(name, actor))
        log.info("placed", extra={"workers": len(names), "nodes": len(self._nodes())})

    def keep(self, stopping: Callable[[float], bool]) -> None:
        """Tell how the workers fare until told to stop; Ray and the actors keep them running.

        `stopping` waits at most so many seconds and says whether to stop.
        """
        while not stopping(LIMITS.answer_seconds):
            for worker in self._workers:
                self._look_at(worker)

    def stop(self) -> None:
        """End every worker cleanly: what is under way is finished, shards are given back."""
        ending = [worker.actor.stop.remote() for worker in self._workers]
        _, late = (
            self._ray.wait(ending, num_returns=len(ending), timeout=LIMITS.stop_seconds + 5.0) if ending else ([], [])
        )
        for worker, end in zip(self._workers, ending, strict=True):
            if end in late:
                log.warning("a worker did not end in time; its lease ends by itself", extra={"worker": worker.name})
            self._ray.kill(worker.actor)
        log.info("stopped", extra={"workers": len(self._workers) - len(late)})
        self._ray.shutdown()

    def _look_at(self, worker: _Placed) -> None:
        """Log a worker that was started again; CrawldError where it cannot start."""
        try:
            found: ActorStanding = self._ray.get(worker.actor.standing.remote(), timeout=LIMITS.answer_seconds)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            return  # it is being placed, or placed anew
        before, worker.told = worker.told, found
        if found.ended is None or found == before:
            return
        if found.ended.status == LIMITS.unusable and found.process is None:
            raise CrawldError(f"worker {worker.name} cannot start: " + "\n".join(found.ended.lines))
        if before is None or found.starts != before.starts:
            reason = f"status {found.ended.status}: {found.ended.lines[-1] if found.ended.lines else ''}"
            log.warning("started again", extra={"worker": worker.name, "start": found.starts, "reason": reason})

    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _knock(address: str) -> None:
    """OSError where nothing listens at HOST:PORT: Ray itself would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=LIMITS.knock_seconds).close()


PASSED_ON = ("CRAWLD_DATABASE", "CRAWLD_URLS", "CRAWLD_BANDWIDTH")


@click.command()
@CONFIG
@click.option("--workers", type=click.IntRange(1), required=True, metavar="N", help="How many workers to place.")
@click.option("--address", default="auto", show_default=True, help="The Ray cluster: HOST:6379, or auto: the one here.")
@click.option("--cpus", default=1.0, show_default=True, type=click.FloatRange(0, 64), help="CPUs to reserve a worker.")
@click.option("--name", default="ray", show_default=True, help="Workers are called NAME-1, NAME-2, …")
def command(config_file: Path | None, workers: int, address: str, cpus: float, name: str) -> None:
    """Place workers of a fleet on a Ray cluster, and start them again elsewhere when they or their nodes die.

    The settings are read by each worker at the same path of its own node; CRAWLD_DATABASE, CRAWLD_URLS and
    CRAWLD_BANDWIDTH of this command's environment are handed on. SIGTERM and ctrl-C end all workers cleanly; a command
    that is killed leaves them running, and the next one with the same --name finds them. Needs the
    extra: pip install 'crawld[ray,postgres]' on every node.
    """
    settings = load(config_file, {})
    from crawld.main.checks import set_up_logging

    set_up_logging(settings)
    environment = {key: value for key in PASSED_ON if (value := os.environ.get(key))}
    cluster = RayCluster(address, cpus=cpus)
    told = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what signal handlers take
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):  # after Ray, which has handlers of its own
        signal.signal(number, stop)
    try:
        names = [f"{name}-{i + 1}" for i in range(workers)]
        cluster.start(names, None if config_file is None else str(config_file.absolute()), environment)
        cluster.keep(lambda seconds: told.wait(seconds) if seconds else told.is_set())
    finally:
        cluster.stop()
