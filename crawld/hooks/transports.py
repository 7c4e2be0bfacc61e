"""Notifications by Apprise: mail, Slack, ntfy and many others; one message tells of several changes."""

import asyncio
import json
import logging
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from crawld.model.errors import InputError
from crawld.store.hooks import HookDelivery, NotDelivered

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


VERBS = {
    "new": "is new",
    "changed": "has changed",
    "gone": "is gone",
    "back": "is back",
    "moved": "has moved",
    "usage": "may be used for other things than before",
    "removed": "is no longer kept",
}


def load_apprise() -> Any:
    """The library; InputError where it is not installed."""
    try:
        import apprise
    except ImportError:
        raise InputError("notifications need Apprise: pip install 'crawld[notify]'") from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs addresses with their passwords
    return apprise


def check_address(address: str) -> None:
    """InputError where Apprise does not know the address; what it says is not shown, it may hold a password."""
    apprise = load_apprise()
    scheme = address.partition("://")[0]
    if apprise.Apprise.instantiate(address) is None:
        raise InputError(f"Apprise cannot use this {scheme}:// address: see what its documentation says of the service")


class Notification:
    """Sends messages to one address; Apprise opens its own connections, in a thread."""

    at_once = 50

    def __init__(self, address: str, seconds: float) -> None:
        self._library = load_apprise()
        self._address, self._seconds = address, seconds
        self._thread = ThreadPoolExecutor(1, "notification")

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Send one message about the changes."""
        title, body = message([json.loads(one.document) for one in deliveries])
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds):
                taken = await loop.run_in_executor(self._thread, self._notify, title, body)
        except TimeoutError:
            return NotDelivered(f"the message was not sent within {self._seconds:g} s")
        return None if taken else NotDelivered(f"Apprise could not send to {self._address.partition('://')[0]}://…")

    async def close(self) -> None:
        """Begin no further message; one under way ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _notify(self, title: str, body: str) -> bool:
        service = self._library.Apprise()
        return bool(service.add(self._address) and service.notify(body=body, title=title))


def message(changes: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """A title and a line for each change."""
    lines = [f"{one['url']} {VERBS.get(one['verdict'], one['verdict'])}" for one in changes]
    title = lines[0] if len(lines) == 1 else f"{len(lines)} pages have changed"
    return f"crawld: {title}", "\n".join(lines)
