"""Copies of pages, compressed."""

import sys
from collections.abc import Sequence
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 3


def compress(body: bytes) -> bytes:
    """A body as it is stored."""
    return zstd.compress(body, LEVEL)


def decompress(packed: bytes) -> bytes:
    """A body as it was fetched."""
    return zstd.decompress(packed)


def body_rows(bodies: Sequence[tuple[int, float, str | None, bytes]], *, only_latest: bool) -> list[dict[str, Any]]:
    """The rows of `bodies`; with `only_latest`, one for each page."""
    if only_latest:
        bodies = list({page_id: (page_id, at, kind, body) for page_id, at, kind, body in bodies}.values())
    return [
        {"page_id": page_id, "at": at, "content_type": kind, "size": len(body), "zstd": compress(body)}
        for page_id, at, kind, body in bodies
    ]
