"""One worker of a fleet on a node of a Ray cluster: an actor whose child process is `crawld fleet run`.

Where the actor dies, the kernel ends the child, and Ray starts the actor again, on another node if need be. A child
that is cut off and lives on does no harm: its lease ends, and the fence keeps its records out.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # as in linux/prctl.h
LONGEST_LINE = 1 << 20  # bytes of the log
LAST_LINES = 5
STOP_SECONDS = 30.0
"""For requests under way, the last records, and giving the shards back."""
UNUSABLE = 2
"""The exit status of a worker that cannot start until a person has mended its settings."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker's process ended, and the last lines that it logged."""

    status: int
    lines: tuple[str, ...]


def _end_with_parent() -> None:
    """Ask the kernel to end this process, cleanly, when the thread that started it dies; between fork and exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class WorkerActor:
    """Starts a worker's process, waits for its end, and ends it when told to."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, name: str, config: str | None, environment: Mapping[str, str]) -> Ended:
        """Run `crawld fleet run` until it ends."""
        if config is not None and not await asyncio.to_thread(Path(config).is_file):
            return Ended(UNUSABLE, (f"{config}: there is no such file on the node {os.uname().nodename}",))
        given = () if config is None else ("--config", config)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "crawld", "fleet", "run", "--name", name, *given),
            env=os.environ | dict(environment),
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            preexec_fn=_end_with_parent,
        )
        return Ended(lines=await self._pass_on_log(self._process), status=await self._process.wait())

    async def stop(self) -> None:
        """End the worker as an operator would, and wait until it has given its shards back."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()

    async def where(self) -> tuple[str, int | None]:
        """The node's name, and the process id of the worker."""
        return os.uname().nodename, self._process.pid if self._process is not None else None

    async def _pass_on_log(self, process: asyncio.subprocess.Process) -> tuple[str, ...]:
        """Write the worker's log to our own, which Ray keeps in a file; the last lines of it."""
        lines: deque[str] = deque(maxlen=LAST_LINES)
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while chunk := await process.stderr.readline():
            lines.append(chunk.decode(errors="replace").rstrip())
            sys.stderr.write(lines[-1] + "\n")
        return tuple(lines)
