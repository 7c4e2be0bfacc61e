"""Copies for whoever reads them over HTTP."""

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from functools import partial

from crawld.errors import StoreError
from crawld.interfaces import Gone
from crawld.store.damage import Damage
from crawld.store.reports.reader import Reader

_TYPE = re.compile(
    r"[\w.+-]{1,100}/[\w.+-]{1,100}(\s*;\s*[\w.+-]{1,50}=(\"[\w .:/+-]{0,100}\"|[\w.:/+-]{1,100})){0,4}", re.ASCII
)
UNKNOWN_TYPE = "application/octet-stream"
UNPACKING_THREADS = 2
"""Threads that unpack copies: of their own, so that readers delay neither commits nor what else the daemon does."""


class StoredCopies:
    """Implements `interfaces.Copies` by reading the database, which is opened once and again after it broke."""

    def __init__(self, url: str, damage: Damage) -> None:
        self._url = url
        self._damage = damage
        self._reader: Reader | None = None
        self._opening = asyncio.Lock()
        self._unpacking = ThreadPoolExecutor(UNPACKING_THREADS, "copies")

    async def copy(self, url: str, *, even_gone: bool = False) -> tuple[bytes, Mapping[str, str]] | Gone | None:
        """The latest copy of a page with its type, when it was fetched and last seen, and its freshness.

        The last copy of a page that is gone says since when instead: nobody has seen it since.
        """
        try:
            reader = await self._open()
            gone = await reader.gone(url)
            packed = await reader.packed_body(url) if gone is None or even_gone else None
        except StoreError:
            await self.close()
            raise
        if packed is None:
            return gone
        found = await asyncio.get_running_loop().run_in_executor(self._unpacking, partial(packed.unpack))
        headers = {
            "Content-Type": plausible_type(found.content_type),
            "X-Fetched-At": formatdate(found.fetched_at, usegmt=True),
        }
        if gone is not None:
            return found.body, headers | {"X-Gone-Since": formatdate(gone.since, usegmt=True)}
        if found.checked_at is not None:
            headers["X-Checked-At"] = formatdate(found.checked_at, usegmt=True)
        if found.freshness is not None:
            headers["X-Freshness"] = f"{found.freshness:.4f}"
        return found.body, headers

    async def close(self) -> None:
        """Close the database; the next question opens it again."""
        async with self._opening:
            reader, self._reader = self._reader, None
        if reader is not None:
            await reader.__aexit__(None, None, None)

    async def run(self) -> None:
        """Keep the database open until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def _open(self) -> Reader:
        async with self._opening:
            if self._reader is None:
                self._reader = await Reader(self._url, damage=self._damage).__aenter__()
            return self._reader


def plausible_type(given: str | None) -> str:
    """The content type a server gave, where it is one; it stands in our own header."""
    return given if given is not None and _TYPE.fullmatch(given) else UNKNOWN_TYPE
