"""OpenSearch (and Elasticsearch).

Over the HTTP API that both share, without a further package. Create the index once with `url` as a keyword.
"""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from crawld.client import BlockingClient, DocumentChange

MAPPING = {"mappings": {"properties": {"url": {"type": "keyword"}, "version": {"type": "long"}}}}


class OpenSearch:
    def __init__(self, address: str, index: str = "pages") -> None:
        self.address, self.index = address, index

    def ask(self, method: str, path: str, lines: list[object]) -> Any:
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        kind = "application/x-ndjson" if "_bulk" in path else "application/json"
        request = urllib.request.Request(self.address + path, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def create(self) -> None:
        self.ask("PUT", f"/{self.index}", [MAPPING])

    def versions(self) -> Iterator[tuple[str, int]]:
        query: dict[str, Any] = {"size": 1000, "sort": [{"url": "asc"}], "_source": ["url", "version"]}
        while hits := self.ask("POST", f"/{self.index}/_search", [query])["hits"]["hits"]:
            yield from ((hit["_source"]["url"], hit["_source"]["version"]) for hit in hits)
            query["search_after"] = hits[-1]["sort"]

    def apply(self, changes: list[DocumentChange]) -> None:
        lines: list[object] = []
        for change in changes:
            action = {"_index": self.index, "_id": urllib.parse.quote(change.url, safe="")[:512]}
            if change.deletes:
                lines.append({"delete": action})
            else:
                body = {"url": change.url, "version": change.version, "title": change.title, "body": change.text}
                lines += [{"index": action}, body]
        if lines and self.ask("POST", "/_bulk?refresh=true", lines)["errors"]:
            raise RuntimeError("some changes were refused: the next run tries them again")


def sync(client: BlockingClient, index: OpenSearch) -> None:
    index.apply(list(client.reconcile(dict(index.versions()), include="text")))
