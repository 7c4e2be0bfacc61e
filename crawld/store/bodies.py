"""Copies of pages, compressed."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawld.store.batch import Body

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


def body_rows(bodies: Sequence["Body"], *, only_latest: bool) -> list[dict[str, Any]]:
    """The rows of `bodies`; with `only_latest`, one for each page."""
    if only_latest:
        bodies = list({body.page_id: body for body in bodies}.values())
    return [
        {
            "page_id": body.page_id,
            "at": body.at,
            "content_type": body.content_type,
            "size": len(body.body),
            "zstd": compress(body.body),
        }
        for body in bodies
    ]
