"""Several workers, one crawler: shards of hosts, leases on them and grants of requests."""

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True)
class ShardsLimits:
    """Numbers that bound and tune this module."""

    id_bits: int = 40
    """Ids of pages and hosts begin with the shard: id = shard << ID_BITS | number. On one machine all are in shard
    0."""
    lease_seconds: float = 5.0
    """A worker that has not renewed its lease for so long is none any more."""
    beat_seconds: float = 1.0
    round_seconds: float = 2.0
    """Requests are shared out for so long. Rounds are numbered from the epoch on, by the database's clock."""


LIMITS = ShardsLimits()


MAX_SHARDS = 1 << (53 - LIMITS.id_bits)
"""Ids stay exact for readers of JSON that take every number for a float; it is enough for hundreds of workers."""
LIST_DUTY = "list"
"""The duty of the one worker that reads the URL list."""
HISTORY_DUTY = "history"
"""The duty of the one worker that keeps the fleet's history of freshness."""
HOOKS_DUTY = "hooks"
"""The duty of the one worker that tells hooks of changes."""
PRUNE_DUTY = "prune"
"""The duty of the one worker that deletes what retention no longer keeps."""


def shard_of_host(host: str, shards: int) -> int:
    """The shard of a host: a hash of its name, the same on every machine and in every version.

    A leading `www.` does not count: the sitemap of either name often lists the pages of the other.
    """
    name = host.removeprefix("www.").encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest()) % shards


def shard_of_id(number: int) -> int:
    """The shard of a page or host by its id."""
    return number >> LIMITS.id_bits


def first_id(shard: int) -> int:
    """The least id of a shard; those of the shard are at least this and less than the next shard's."""
    return shard << LIMITS.id_bits


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to crawl and write a shard. The epoch rises with every owner, so that a former one is known by it."""

    shard: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Grant:
    """So many requests a second may be sent from `starts` until `ends`, in the database's time."""

    round: int
    starts: float
    ends: float
    rate: float
