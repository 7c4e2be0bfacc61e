"""Notices a daemon that uses no slot although there is a page to ask: an error of ours, which a restart may end."""

import logging
from collections.abc import Callable

from crawld.model.page import Page

log = logging.getLogger("crawld.crawl")

STALL_SECONDS = 300.0
"""Seconds without a used slot after which the daemon is stuck: longer than any request or wait of ours may take."""
STALL_LOOKS = 20
"""Looks within that time that must each have found a page to ask: one might be by chance."""
LOOK_SECONDS = 5.0


class StallWatch:
    """Looks now and then, while slots are idle, whether there is a page whose host may be asked."""

    def __init__(self, page_to_ask: Callable[[float], Page | None]) -> None:
        self._page_to_ask = page_to_ask
        self._since: float | None = None  # the first of the looks in a row that found a page
        self._looks = 0
        self._looked_at = -LOOK_SECONDS
        self.stuck = False

    def used(self, monotonic: float) -> None:
        """A slot was used, or pages were passed over as they must be."""
        self._looked_at = monotonic
        self._clear()

    def idle(self, monotonic: float, now: float, in_flight: int) -> None:
        """A slot was idle."""
        if monotonic - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = monotonic
        page = self._page_to_ask(now)
        if page is None:
            self._clear()
            return
        self._looks += 1
        self._since = monotonic if self._since is None else self._since
        seconds = monotonic - self._since
        if not self.stuck and seconds >= STALL_SECONDS and self._looks >= STALL_LOOKS:
            self.stuck = True
            log.error(
                "no slot is used although pages are due and their hosts may be asked; the watchdog is no longer fed",
                extra={"seconds": round(seconds), "in_flight": in_flight, "url": page.url},
            )

    def _clear(self) -> None:
        self._since, self._looks, self.stuck = None, 0, False
