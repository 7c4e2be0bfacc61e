"""The workers of a fleet on a Ray cluster: placed as actors, started again when they or their nodes die, stopped."""

import importlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.errors import CrawldError
from crawld.fleet.ray_actor import STOP_SECONDS, UNUSABLE, Ended, WorkerActor

log = logging.getLogger(__name__)
NO_RAY = """Ray is not installed here. Install it with crawld on every node of the cluster:

  pip install 'crawld[ray,postgres]'

or start the workers without it: `crawld fleet run` on each machine."""
NO_CLUSTER = """no Ray cluster answers at {address}: {reason}
Start one with `ray start --head` on one machine and `ray start --address HOST:6379` on the others, and name it with
--address HOST:6379."""
ANSWER_SECONDS = 0.5
KNOCK_SECONDS = 5.0
REST_SECONDS = 2.0
"""Between two tries to start a worker: one that cannot run is not started in a busy loop."""


def import_ray() -> Any:
    """The package, or a sentence that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # crawld tells nobody that it is used
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise CrawldError(NO_RAY) from None


@dataclass(slots=True)
class _Placed:
    """A worker with the actor that runs it."""

    name: str
    actor: Any
    running: Any  # Ray's promise of how it ends
    starts: int = 1


class RayCluster:
    """Workers on a Ray cluster, from the first placement to the clean end."""

    def __init__(self, address: str, *, cpus: float) -> None:
        self._ray = import_ray()
        try:
            _knock(address)
            self._ray.init(address=address, namespace="crawld", log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise CrawldError(NO_CLUSTER.format(address=address, reason=reason)) from None
        # A worker that Ray cannot place waits until a node has room; SPREAD prefers nodes without one.
        placing = {"max_restarts": -1, "num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_concurrency": 4}
        self._placing = self._ray.remote(**placing)(WorkerActor)
        self._workers: list[_Placed] = []
        self._given: tuple[str | None, Mapping[str, str]] = (None, {})

    def start(self, names: Sequence[str], config: str | None, environment: Mapping[str, str]) -> None:
        """Place a worker of each name; each reads the settings at this path of its own node."""
        self._given = (config, environment)
        for name in names:
            actor = self._placing.remote()
            self._workers.append(_Placed(name, actor, self._run(name, actor)))
        log.info("placed", extra={"workers": len(names), "nodes": len(self._nodes())})

    def keep(self, stopping: Callable[[float], bool]) -> None:
        """Start workers again that ended, wherever there is room, until told to stop.

        `stopping` waits at most so many seconds and says whether to stop.
        """
        while not stopping(0.0):
            over, _ = self._ray.wait([worker.running for worker in self._workers], timeout=ANSWER_SECONDS)
            for worker in self._workers:
                if worker.running in over and not stopping(REST_SECONDS):
                    self._start_again(worker)

    def stop(self) -> None:
        """End every worker cleanly: what is under way is finished, shards are given back."""
        ending = [worker.actor.stop.remote() for worker in self._workers]
        _, late = self._ray.wait(ending, num_returns=len(ending), timeout=STOP_SECONDS + 5.0)
        for worker, end in zip(self._workers, ending, strict=True):
            if end in late:
                log.warning("a worker did not end in time; its lease ends by itself", extra={"worker": worker.name})
            self._ray.kill(worker.actor)
        log.info("stopped", extra={"workers": len(self._workers) - len(late)})
        self._ray.shutdown()

    def _run(self, name: str, actor: Any) -> Any:
        config, environment = self._given
        return actor.run.remote(name, config, environment)

    def _start_again(self, worker: _Placed) -> None:
        try:
            ended: Ended = self._ray.get(worker.running)
        except self._ray.exceptions.RayActorError as error:
            reason = str(error).partition("\n")[0]
        else:
            if ended.status == UNUSABLE:
                raise CrawldError(f"worker {worker.name} cannot start: " + "\n".join(ended.lines))
            reason = f"status {ended.status}: {ended.lines[-1] if ended.lines else ''}"
        worker.starts += 1
        log.warning("start again", extra={"worker": worker.name, "start": worker.starts, "reason": reason})
        worker.running = self._run(worker.name, worker.actor)

    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _knock(address: str) -> None:
    """OSError where nobody listens at HOST:PORT: Ray itself would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
