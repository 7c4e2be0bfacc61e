"""Meilisearch.

Over its HTTP API, without a further package. Documents are keyed by a digest of their address; the versions that the
index holds come from the index itself, so nothing else needs to be kept.

Meilisearch takes changes in turn, in the order in which they came: deletions before additions of the same run are
safe.
"""

import hashlib
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

from crawld.client import BlockingClient, DocumentChange


class Meilisearch:
    def __init__(self, address: str, key: str, index: str = "pages") -> None:
        self.base, self.key = f"{address}/indexes/{index}", key

    def ask(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def versions(self) -> Iterator[tuple[str, int]]:
        offset, total = 0, 1
        while offset < total:
            found = self.ask("GET", f"/documents?fields=url,version&limit=1000&offset={offset}")
            yield from ((one["url"], one["version"]) for one in found["results"])
            offset, total = offset + 1000, found["total"]

    def apply(self, changes: list[DocumentChange]) -> None:
        gone = [key_of(change.url) for change in changes if change.deletes]
        kept = [
            {"id": key_of(one.url), "url": one.url, "version": one.version, "title": one.title, "body": one.markdown}
            for one in changes
            if not one.deletes
        ]
        if gone:
            self.ask("POST", "/documents/delete-batch", gone)
        if kept:
            self.ask("POST", "/documents?primaryKey=id", kept)


def key_of(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:32]


def sync(client: BlockingClient, index: Meilisearch) -> None:
    index.apply(list(client.reconcile(dict(index.versions()), include="markdown")))
