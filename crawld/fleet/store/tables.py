"""The fleet's own tables, on PostgreSQL only. Times are seconds by the database's clock."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy import false as no

from crawld.store.tables import metadata as of_pages

metadata = MetaData(naming_convention=of_pages.naming_convention)

fleet = Table(  # one row where this database is a fleet's
    "fleet",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("shards", Integer, nullable=False),
    Column("bandwidth", Double, nullable=False),  # where the operator has set no other
    Column("made_at", Double, nullable=False),
    CheckConstraint("id = 1", name="fleet_is_one"),
)

workers = Table(
    "fleet_workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),  # what the operator calls it; it stays when the id is a new one
    Column("joined_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),  # when it beat last
    Column("expires", Double, nullable=False),  # when its lease ends
    Column("steady_since", Double, nullable=False),  # since when it has renewed in time
    Column("ended_at", Double),  # it is no worker any more, for good
    Column("lost", Boolean, nullable=False, server_default=no()),  # it ended because its lease did
    Column("draining", Boolean, nullable=False, server_default=no()),
    Column("bid_round", BigInteger, nullable=False, server_default="0"),
    Column("bid", ARRAY(BigInteger)),  # first, top, counts: crawld.model.shards.Bid
    Column("report", Text, nullable=False, server_default="{}"),  # figures of `Report`, JSON
    Column("status", Text),  # what its own control said last, JSON
)

shards = Table(
    "fleet_shards",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("worker", Text),  # who holds it; it is free where that worker has ended
    Column("epoch", BigInteger, nullable=False, server_default="0"),
)

settings = Table(  # what all workers go by: the latest revision
    "fleet_settings",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("by", Text, nullable=False),  # the worker or machine that applied it
    Column("document", Text, nullable=False),  # JSON
)

rounds = Table(
    "fleet_rounds",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("cleared_at", Double, nullable=False),
    Column("worker", Text, nullable=False),  # who cleared it
    Column("bandwidth", Double, nullable=False),
    Column("level", Double, nullable=False),
)

grants = Table(
    "fleet_grants",
    metadata,
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("worker", Text, primary_key=True),
    Column("rate", Double, nullable=False),
)

mail = Table(
    "fleet_mail",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("shard", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Index(None, "shard", "id"),
)

duties = Table(  # what one worker does for all
    "fleet_duties",
    metadata,
    Column("name", Text, primary_key=True),
    Column("worker", Text),  # NULL: free
    Column("epoch", BigInteger, nullable=False, server_default="0"),  # terms so far
)

turns = Table(  # hosts that requests of several workers lead to, by a hash of their names
    "fleet_turns",
    metadata,
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("next", Double, nullable=False),  # when the next request may leave
)

taught = Table(  # what the hosts of each worker say of hosts in general: crawld.learn.host_priors
    "fleet_taught",
    metadata,
    Column("worker", Text, primary_key=True),
    Column("taught", ARRAY(Double), nullable=False),
)

ids = Table(  # the last number given out in each shard
    "fleet_ids",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("pages", BigInteger, nullable=False, server_default="0"),
    Column("hosts", BigInteger, nullable=False, server_default="0"),
)

counters = Table(  # the last number given out in the whole fleet
    "fleet_counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
