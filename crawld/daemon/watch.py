"""Watching the URL list: a changed file is read again, a vanished or broken one changes nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawld.errors import CrawldError

log = logging.getLogger("crawld")

Mark = tuple[int, int, int]


class ListWatch:
    """Looks at a file every few seconds and loads it when it is another one and has stopped growing."""

    def __init__(self, path: Path, load: Callable[[], Awaitable[None]], *, seconds: float = 2.0) -> None:
        self._path = path
        self._load = load
        self._seconds = seconds

    async def run(self) -> None:
        """Watch for ever."""
        loaded = seen = self._mark()
        while True:
            await asyncio.sleep(self._seconds)
            before, seen = seen, self._mark()
            if seen is None or seen == loaded or seen != before:
                continue
            loaded = seen
            try:
                await self._load()
            except CrawldError as error:
                log.error("URL list not taken over", extra={"reason": str(error)})  # noqa: TRY400 - a sentence says it

    def _mark(self) -> Mark | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
