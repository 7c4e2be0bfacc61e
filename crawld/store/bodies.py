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

from crawld.model.errors import StoreError

LEVEL = 3


def compress(body: bytes) -> bytes:
    """A body as it is stored."""
    return zstd.compress(body, LEVEL)


def decompress(packed: bytes) -> bytes:
    """A body as it was fetched."""
    return zstd.decompress(packed)


def decompress_to(packed: bytes, size: int) -> bytes:
    """A body of which its row says the size; StoreError where it is not that, without unpacking more."""
    unpacking = zstd.ZstdDecompressor()
    try:
        body = unpacking.decompress(packed, max_length=size + 1)
    except zstd.ZstdError as error:
        raise StoreError(f"the stored copy is damaged ({error})") from None
    if len(body) != size or not unpacking.eof:
        raise StoreError(f"the stored copy is damaged (it is not of its {size} bytes)")
    return body


def body_rows(bodies: Sequence["Body"], *, only_latest: bool) -> list[dict[str, Any]]:
    """The rows of `bodies`, with `change` in place of the version; with `only_latest`, one for each page."""
    if only_latest:
        bodies = list({body.page_id: body for body in bodies}.values())
    return [
        {
            "page_id": body.page_id,
            "at": body.at,
            "content_type": body.content_type,
            "size": len(body.body),
            "zstd": compress(body.body),
            "change": body.change,
        }
        for body in bodies
    ]
