"""Notifications by Apprise: mail, Slack, ntfy and many others; one message tells of several changes."""

import asyncio
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crawld.model.errors import InputError
from crawld.store.hooks_of_interfaces import HookDelivery, NotDelivered

MOST_IN_A_MESSAGE = 50
HINT = "pip install 'crawld[notify]'"
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
        raise InputError(f"notifications need Apprise: {HINT}") from None
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

    at_once = MOST_IN_A_MESSAGE

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
