"""Copies for whoever reads them over HTTP."""

from collections.abc import Mapping
from email.utils import formatdate

from crawld.interfaces import Gone
from crawld.store.reports import Reader


class Shelf:
    """Implements `interfaces.Copies` by reading the database."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def copy(self, url: str, *, even_gone: bool = False) -> tuple[bytes, Mapping[str, str]] | Gone | None:
        """The latest copy of a page with its type, when it was fetched and last seen, and its freshness.

        The last copy of a page that is gone says since when instead: nobody has seen it since.
        """
        async with Reader(self._url) as reader:
            gone = await reader.gone(url)
            found = await reader.body(url) if gone is None or even_gone else None
        if found is None:
            return gone
        headers = {
            "Content-Type": found.content_type or "application/octet-stream",
            "X-Fetched-At": formatdate(found.fetched_at, usegmt=True),
        }
        if gone is not None:
            return found.body, headers | {"X-Gone-Since": formatdate(gone.since, usegmt=True)}
        if found.checked_at is not None:
            headers["X-Checked-At"] = formatdate(found.checked_at, usegmt=True)
        if found.freshness is not None:
            headers["X-Freshness"] = f"{found.freshness:.4f}"
        return found.body, headers
