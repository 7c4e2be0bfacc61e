"""The door to the database: the only package that knows SQL.

`SqlStore` is the daemon's: one process, one writer task. Queued things are folded into a `Batch`, written by a few
bulk statements in one transaction, and forgotten; everything else reads committed rows over connections of its own.
`SqlShardStore` is a worker's: the same, but several share the database and each writes to the shards that it holds.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawld.store.fleet.shard_store import SqlShardStore
    from crawld.store.reports.reader import Reader, StoredBody
    from crawld.store.retention import Retention
    from crawld.store.sql import SqlStore

__all__ = ["Reader", "Retention", "SqlShardStore", "SqlStore", "StoredBody"]

_PLACES = {
    "SqlShardStore": "fleet.shard_store",
    "Reader": "reports.reader",
    "Retention": "retention",
    "SqlStore": "sql",
    "StoredBody": "reports.reader",
}


def __getattr__(name: str) -> object:
    """Import when asked for: commands that only read need not wait for the daemon's store."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
