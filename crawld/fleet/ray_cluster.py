"""The workers of a fleet on a Ray cluster: placed as actors, started again when they or their nodes die, stopped."""

import importlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.fleet.ray_actor import STOP_SECONDS, UNUSABLE, ActorStanding, WorkerActor
from crawld.model.errors import CrawldError

log = logging.getLogger(__name__)
NO_RAY = """Ray is not installed here. Install it with crawld on every node of the cluster:

  pip install 'crawld[ray,postgres]'

or start the workers without it: `crawld fleet run` on each machine."""
NO_CLUSTER = """no Ray cluster answers at {address}: {reason}
Start one with `ray start --head` on one machine and `ray start --address HOST:6379` on the others, and name it with
--address HOST:6379."""
ANSWER_SECONDS = 0.5
KNOCK_SECONDS = 5.0


def import_ray() -> Any:
    """The package, or a sentence that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # crawld tells nobody that it is used
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
        while not stopping(ANSWER_SECONDS):
            for worker in self._workers:
                self._look_at(worker)

    def stop(self) -> None:
        """End every worker cleanly: what is under way is finished, shards are given back."""
        ending = [worker.actor.stop.remote() for worker in self._workers]
        _, late = self._ray.wait(ending, num_returns=len(ending), timeout=STOP_SECONDS + 5.0) if ending else ([], [])
        for worker, end in zip(self._workers, ending, strict=True):
            if end in late:
                log.warning("a worker did not end in time; its lease ends by itself", extra={"worker": worker.name})
            self._ray.kill(worker.actor)
        log.info("stopped", extra={"workers": len(self._workers) - len(late)})
        self._ray.shutdown()

    def _look_at(self, worker: _Placed) -> None:
        """Log a worker that was started again; CrawldError where it cannot start."""
        try:
            found: ActorStanding = self._ray.get(worker.actor.standing.remote(), timeout=ANSWER_SECONDS)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            return  # it is being placed, or placed anew
        before, worker.told = worker.told, found
        if found.ended is None or found == before:
            return
        if found.ended.status == UNUSABLE and found.process is None:
            raise CrawldError(f"worker {worker.name} cannot start: " + "\n".join(found.ended.lines))
        if before is None or found.starts != before.starts:
            reason = f"status {found.ended.status}: {found.ended.lines[-1] if found.ended.lines else ''}"
            log.warning("started again", extra={"worker": worker.name, "start": found.starts, "reason": reason})

    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _knock(address: str) -> None:
    """OSError where nobody listens at HOST:PORT: Ray itself would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
