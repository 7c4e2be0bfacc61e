"""A command that is run on a change: no shell, the change on its standard input, and a time limit."""

import asyncio
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from crawld.store.hooks_of_interfaces import HookDelivery, NotDelivered

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of the daemon that a command sees: others may hold secrets, as the database's password."""


class Command:
    """Runs a command once for each change; status 0 means that the change was taken.

    Its standard error is ours, so that it ends up in the log. It has a session of its own: what it started and left
    behind is killed when it ends, when its time is over, and when the daemon stops.
    """

    at_once = 1

    def __init__(self, arguments: Sequence[str], seconds: float, hook: str = "") -> None:
        self._arguments, self._seconds, self._hook = tuple(arguments), seconds, hook

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Run the command with the change on its standard input."""
        try:
            process = await self._start(deliveries[0].document.encode())
        except OSError as error:
            return NotDelivered(f"{self._arguments[0]} cannot be run: {error.strerror or error}")
        try:
            async with asyncio.timeout(self._seconds):
                status = await process.wait()
        except TimeoutError:
            return NotDelivered(f"the command took longer than {self._seconds:g} s and was killed")
        finally:
            await _kill(process)
        if status == 0:
            return None
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return NotDelivered(f"the command {how}; what it wrote to its standard error is in the log")

    async def close(self) -> None:
        """Nothing is open between two changes."""

    async def _start(self, document: bytes) -> Process:
        with tempfile.TemporaryFile() as given:
            given.write(document)
            given.seek(0)
            return await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=given,
                stdout=DEVNULL,
                env=self._environment(),
                start_new_session=True,  # so that what it started can be killed with it
            )

    def _environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return kept | {"CRAWLD_HOOK": self._hook}


async def _kill(process: Process) -> None:
    """Kill whatever is left of a command: itself where it still runs, and what it started."""
    with suppress(ProcessLookupError):  # nothing is
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
