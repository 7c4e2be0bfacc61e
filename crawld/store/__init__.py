"""The door to the database: the only package that knows SQL.

`SqlStore` is the daemon's: one process, one writer task. Queued things are folded into a `Batch`, written by a few
bulk statements in one transaction, and forgotten; everything else reads committed rows over connections of its own.
"""

from crawld.store.reports import Reader, StoredBody
from crawld.store.retention import Retention
from crawld.store.sql import SqlStore

__all__ = ["Reader", "Retention", "SqlStore", "StoredBody"]
