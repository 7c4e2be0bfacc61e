"""Watching the URL list: a changed file is read again, a vanished or broken one changes nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawld.model.errors import CrawldError

log = logging.getLogger("crawld")

Mark = tuple[str, int, int, int]


class ListWatch:
    """Looks at a file every few seconds and has it loaded when it is another one and has stopped growing.

    Whoever loads it for a reason of their own says so first (`loading`), so that it is not loaded a second time.
    """

    def __init__(
        self, path: Callable[[], Path | None], load: Callable[[], Awaitable[None]], *, seconds: float = 2.0
    ) -> None:
        self._path = path
        self._load = load
        self._seconds = seconds
        self._loaded: Mark | None = None

    def loading(self) -> None:
        """The file is about to be read as it is now."""
        self._loaded = self._mark()

    async def run(self) -> None:
        """Watch for ever."""
        seen = self._mark()
        while True:
            await asyncio.sleep(self._seconds)
            before, seen = seen, self._mark()
            if seen is None or seen == self._loaded or seen != before:
                continue
            self._loaded = seen
            try:
                await self._load()
            except CrawldError as error:
                log.error("URL list not loaded", extra={"reason": str(error)})  # noqa: TRY400 - a sentence says it

    def _mark(self) -> Mark | None:
        path = self._path()
        try:
            stat = None if path is None else path.stat()
        except OSError:
            return None
        return None if stat is None else (str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino)
