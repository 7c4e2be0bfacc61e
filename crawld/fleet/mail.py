"""Messages that workers of a fleet and its steering leave for the holders of shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PAGES, HOST, SIGNALS, WEBSUB, REFRESH, MARKS = "pages", "host", "signals", "websub", "refresh", "marks"
TURN = "turn"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message to the holder of a shard, by kind.

    PAGES: `{"ids": [..]}` came, went, or weigh otherwise: they are read again. HOST: `{"name": .., "blocked": ..,
    "delay": .., "drop_delay": ..}` was steered. SIGNALS: `{"signals": [[url, source, seen_at, claimed_at], ..]}` came
    for pages that are not the sender's. WEBSUB: a hub told the sender of `{"feed": url}`, or asked about
    `{"token": .., "query": {..}}`. REFRESH: `{"ids": [..]}` are asked for before all others. MARKS: the parts of
    pages that the operator has marked were changed, and are read again. TURN: a request of the sender leaves for
    `{"host": ..}` from `at` to `until`.
    """

    shard: int
    kind: str
    body: Mapping[str, Any]
