"""Qdrant.

Every page is cut at its headings, each part embedded once per version. `embed` is yours: a model's function from
texts to vectors. Without a server, `QdrantClient(":memory:")` or `QdrantClient(path="folder")` keeps the vectors in
the process.

A part is cited as `url#anchor`. Pages that did not change are not embedded again.
"""

import re
import uuid
from collections.abc import Callable, Sequence

from qdrant_client import QdrantClient, models

from crawld.client import BlockingClient

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
PAGES = "pages"


def parts_of(markdown: str) -> list[tuple[str, str]]:
    """The parts of a page, each with the anchor of its heading."""
    body = markdown.split("---\n", 2)[2]
    parts = [part.strip() for part in re.split(r"(?m)^(?=#{1,6} )", body) if part.strip()]
    anchors = (re.match(r"#+ .*\{#([^}]+)\}", part) for part in parts)
    return [(found[1] if found else "", part) for found, part in zip(anchors, parts)]


def known(store: QdrantClient) -> dict[str, int]:
    found, offset = {}, None
    while True:
        points, offset = store.scroll(PAGES, limit=1000, offset=offset, with_payload=["url", "version"])
        found |= {point.payload["url"]: point.payload["version"] for point in points if point.payload}
        if offset is None:
            return found


def sync(client: BlockingClient, store: QdrantClient, embed: Embed, size: int) -> None:
    if not store.collection_exists(PAGES):
        store.create_collection(PAGES, models.VectorParams(size=size, distance=models.Distance.COSINE))
    for change in client.reconcile(known(store), include="markdown"):
        same = models.FieldCondition(key="url", match=models.MatchValue(value=change.url))
        store.delete(PAGES, models.FilterSelector(filter=models.Filter(must=[same])))
        if change.deletes or not change.markdown:
            continue
        parts = parts_of(change.markdown)
        points = [
            models.PointStruct(
                id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{change.url} {change.version} {number}")),
                vector=list(vector),
                payload={"url": change.url, "version": change.version, "anchor": anchor, "text": text},
            )
            for number, ((anchor, text), vector) in enumerate(zip(parts, embed([text for _, text in parts])))
        ]
        store.upsert(PAGES, points)
