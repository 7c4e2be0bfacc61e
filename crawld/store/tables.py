"""The tables, as this version wants them; `migrations` brings a database there and a test keeps the two equal.

Times are UTC seconds. Counts and beliefs by signal source are columns named after the source, so that a page is
one row and a restart is one scan.
"""

from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from crawld.model.signal import SOURCES

metadata = MetaData(naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"})

# An index on a column that every crawl writes would have PostgreSQL write to all indexes of the table at every crawl;
# without one the new row stays in the heap page of the old one, where the fill factor leaves room for it. Nor does it
# look up the page of each crawl: the batch updates those pages, and is refused where one is missing.
ON_SQLITE, ON_POSTGRESQL = {"only": "sqlite"}, {"only": "postgresql"}

Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite gives its row ids to INTEGER alone


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _belief(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


@lru_cache
def by_source(prefix: str) -> tuple[str, ...]:
    """The columns that hold one value per source, in the order of `SOURCES`."""
    return tuple(f"{prefix}_{source.value}" for source in SOURCES)


hosts = Table(
    "hosts",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("blocked_until", Double, nullable=False, server_default="0"),
    _count("failures"),
    Column("crawl_delay", Double),
    Column("delay", Double),
    Column("blocked", Boolean, nullable=False, server_default=text("false")),
    Column("distrust_304_until", Double, nullable=False, server_default="0"),
    Column("asked_until", Double, nullable=False, server_default="0"),
)

pages = Table(
    "pages",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False, unique=True),  # what is sent
    Column("host_id", Id, ForeignKey("hosts.id"), nullable=False),
    Column("importance", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("added_at", Double, nullable=False),
    Column("retired_at", Double),
    Column("first_success", Double),
    Column("last_success", Double),
    Column("last_attempt", Double),
    Column("last_change_at", Double),
    Column("gone_since", Double),  # set where the last successful crawl found the page gone
    Column("weight", Double),  # what it weighs where that is not the list's importance
    Column("dirty_since", Double),  # of earlier versions: a crawl that the estimate does not know of
    _count("failures"),  # successive, of the page's own
    _count("crawls"),
    _count("changes"),
    _count("failed"),
    *(_count(name) for name in by_source("pending")),  # signals since the last successful crawl
    *(_count(name) for name in by_source("counted")),  # signals since the first successful crawl
    Column("identity", Text),  # what the spellings of the page have in common; NULL where that is the url itself
    Column("alias_of", Id),  # the page that it is another address of; no foreign key: pages are forgotten in any order
    Column("alias_why", Text),  # how that was proved
    Column("title", Text),  # of the latest copy; NULL where it has none
    Column("language", Text),  # that the latest copy says it is in
    Column("content_type", Text),  # of the latest copy
    Column("turned_away", Text),  # the trouble, where the site turned us away at the last crawl
    Index(None, "host_id", "state"),
    Index(None, "origin"),
    Index(None, "state"),
    Index(None, "importance", "id"),
    Index(None, "last_success", "id", info=ON_SQLITE),
    Index(None, "last_change_at", "id"),
    Index("ix_pages_identity", "identity", unique=True, sqlite_where=text("identity IS NOT NULL"),
          postgresql_where=text("identity IS NOT NULL")),
    Index("ix_pages_alias_of", "alias_of", sqlite_where=text("alias_of IS NOT NULL"),
          postgresql_where=text("alias_of IS NOT NULL")),
    Index("ix_pages_turned_away", "host_id", "turned_away", sqlite_where=text("turned_away IS NOT NULL"),
          postgresql_where=text("turned_away IS NOT NULL")),
    Index("ix_pages_dirty_since", "dirty_since", sqlite_where=text("dirty_since IS NOT NULL"), info=ON_SQLITE),
    postgresql_with={"fillfactor": 85},
)  # fmt: skip

crawls = Table(
    "crawls",
    metadata,
    Column("id", Id, primary_key=True),
    Column("page_id", Id, ForeignKey("pages.id", info=ON_SQLITE), nullable=False),  # updated in the same batch
    Column("at", Double, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("status", Integer),
    Column("trouble", Text),
    Column("detail", Text),
    Column("tau", Double),
    *(_count(name) for name in by_source("signals")),
    _count("bytes"),
    Column("duration", Double, nullable=False),
    Column("magnitude", Double),
    Column("predicted", Double),
    Column("conditional", Boolean, nullable=False),
    Column("audit", Boolean, nullable=False),
    Column("reverted", Boolean, nullable=False),
    Index(None, "page_id", "id"),
    Index("ix_crawls_audit", "at", sqlite_where=text("audit"), postgresql_where=text("audit")),
)

signals = Table(
    "signals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("page_id", Id, ForeignKey("pages.id"), nullable=False),
    Column("source", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("claimed_at", Double),
    Column("stale", Boolean, nullable=False),
    Index(None, "page_id", "id"),
)

estimates = Table(
    "estimates",
    metadata,
    Column("page_id", Id, ForeignKey("pages.id"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("shape", Double, nullable=False),
    Column("rate", Double, nullable=False),
    *(_belief(name) for name in by_source("kappa")),
    *(_belief(name) for name in by_source("gamma")),
    Column("alpha_se", Double),
    *(Column(name, Double) for name in by_source("kappa_se")),
    _count("crawls"),
    _count("changes"),
    *(_count(name) for name in by_source("signals")),
    Column("heard", Double, nullable=False, server_default="1"),
    Column("deaf_alpha", Double, nullable=False, server_default="0"),
    Column("deaf_shape", Double, nullable=False, server_default="1"),
    postgresql_with={"fillfactor": 85},
)

age_curves = Table(  # how much older a host's copies are than plain time says: crawld.model.estimate
    "age_curves",
    metadata,
    Column("host_id", Id, ForeignKey("hosts.id"), primary_key=True, autoincrement=False),
    Column("first", Double, nullable=False),
    Column("step", Double, nullable=False),
    Column("extra", Text, nullable=False),
)

versions = Table(  # what is remembered of each page's latest copy
    "versions",
    metadata,
    Column("page_id", Id, ForeignKey("pages.id"), primary_key=True, autoincrement=False),
    Column("fetched_at", Double, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("text", LargeBinary),
    Column("blocks", LargeBinary, nullable=False),
    Column("etag", LargeBinary),  # bytes: echoed to the server as it sent them, whatever they are
    Column("last_modified", LargeBinary),
    Column("content_type", Text),
    _count("streak"),
    Column("seen", LargeBinary, nullable=False),
    _count("scheme"),  # digests of two schemes cannot be compared
    Column("times", LargeBinary),  # the blocks that name times
    Column("places", LargeBinary),  # where the page differed lately
    Column("answered", Text),  # the address that answered, where it was not the page's own
    Column("canonical", Text),  # the address that the copy says is its own, where that is another
    Column("title", LargeBinary),  # whether the blocks lie in a main part, and the words of the title
    Column("varying", LargeBinary),  # blocks of which only times and counters differ
    Column("said", Text),  # what the site says of the page's use, JSON; NULL where it says nothing
    Column("denies", Text),  # the uses that it denies, each between spaces
)

exclusions = Table(  # pages removed by hand that no list and no sitemap brings back
    "exclusions",
    metadata,
    Column("identity", Text, primary_key=True),  # what the spellings of the page have in common
    Column("url", Text, nullable=False),
    Column("at", Double, nullable=False),
)

changes = Table(  # what followers of the changes are told, in the order of commits
    "changes",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),  # one after the other, without gaps: the cursor
    Column("page_id", Id, nullable=False),  # no foreign key: a change outlives its page until its own time is over
    Column("at", Double, nullable=False),
    Column("verdict", Text, nullable=False),  # new, changed, gone, back, moved, removed, usage
    Column("magnitude", Double),
    Column("moved_to", Text),  # the address of the page that is kept in its place
    Index(None, "page_id", "id"),
)

bodies = Table(
    "bodies",
    metadata,
    Column("id", Id, primary_key=True),
    Column("page_id", Id, ForeignKey("pages.id", info=ON_SQLITE), nullable=False),  # as those of crawls are
    Column("at", Double, nullable=False),
    Column("content_type", Text),
    _count("size"),
    Column("zstd", LargeBinary, nullable=False),
    Column("version", Id),  # the change that brought it; NULL where that is no longer known
    Index(None, "page_id", "id"),
)

documents = Table(  # the latest version of each page as a reader has it
    "documents",
    metadata,
    Column("page_id", Id, primary_key=True, autoincrement=False),
    Column("version", Id, nullable=False),  # the change that brought it
    Column("language", Text),
    Column("canonical", Text),
    _count("size"),  # characters of the text
    Column("indexed", Boolean, nullable=False),  # whether it is in `search_words`
    Column("zstd", LargeBinary, nullable=False),  # title, text and Markdown, with NUL between them
    Index(None, "version"),
)

freshness_history = Table(
    "freshness_history",
    metadata,
    Column("at", Double, primary_key=True),
    Column("bandwidth", Double, nullable=False),
    Column("request_rate", Double, nullable=False),
    Column("predicted", Double),
    Column("measured", Double),
    Column("measured_low", Double),
    Column("measured_high", Double),
    Column("level", Double),
    _count("pages"),
    Column("changed_share", Double),
    _count("skipped_slots"),
)

slot_history = Table(  # what became of slots, in the time up to `at` or, where rows were summed up, from `at` on
    "slot_history",
    metadata,
    Column("span", Integer, primary_key=True, autoincrement=False),  # seconds: a tick, or what was summed up
    Column("at", Double, primary_key=True),
    Column("use", Text, primary_key=True),  # crawld.model.fetched.Use, idle or skipped
    Column("outcome", Text, primary_key=True),  # of the request; of idle slots the reason; else empty
    _count("slots"),
)

calibration_days = Table(
    "calibration_days",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),  # days since the epoch
    Column("bin", Integer, primary_key=True, autoincrement=False),  # tenth of the predicted freshness, 0-9
    _count("crawls"),
    _count("fresh"),
    Column("predicted_sum", Double, nullable=False),
)

signal_counts = Table(
    "signal_counts",
    metadata,
    Column("host_id", Id, ForeignKey("hosts.id"), primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    _count("polls"),
    _count("signals"),
    _count("stale"),
    _count("site_events"),
)

signal_trust = Table(  # how far signals of a source are heard on a host: crawld.model.signal
    "signal_trust",
    metadata,
    Column("host_id", Id, ForeignKey("hosts.id"), primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    Column("heard", Boolean, nullable=False),
    Column("score", Double, nullable=False),
    _count("intervals"),
    Column("why", Text, nullable=False),
    Column("weight", Double, nullable=False, server_default="0"),
    Column("heard_since", Double),
)

signal_gains = Table(  # what believed signals gained: crawld.model.signal
    "signal_gains",
    metadata,
    Column("host_id", Id, ForeignKey("hosts.id"), primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    _count("confirmed"),
    _count("in_vain"),
    _belief("gain"),
    _belief("saved"),
)

sources = Table(  # the files that signals are read from
    "sources",
    metadata,
    Column("url", Text, primary_key=True),
    Column("source", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("next_poll", Double, nullable=False),
    Column("state", LargeBinary, nullable=False),  # the poller's own, zstd
    Index(None, "host"),
)

robots = Table(  # what is known of each site's robots.txt, of hosts that have pages
    "robots",
    metadata,
    Column("origin", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("agent", Text, nullable=False),  # the product token that the rules are for
    Column("fresh_until", Double, nullable=False),
    Column("good_until", Double, nullable=False),
    Column("rules", LargeBinary),  # packed: crawld.read.robots
    Column("crawl_delay", Double),
    _count("failures"),
    Column("reason", Text, nullable=False),
    Column("usage", Text),  # what pages may be used for, JSON: crawld.read.robots
    Index(None, "fresh_until"),
    Index(None, "host", info=ON_POSTGRESQL),  # a worker reads those of its own hosts
)

links = Table(  # which page of a followed site links to which: crawld.crawl.site_links
    "links",
    metadata,
    Column("source", Id, primary_key=True, autoincrement=False),  # no foreign keys: pages are forgotten in any order
    Column("target", Id, primary_key=True, autoincrement=False),
    Index(None, "target"),
)

site_pages = Table(  # what following links knows of pages of followed sites
    "site_pages",
    metadata,
    Column("page_id", Id, primary_key=True, autoincrement=False),
    Column("depth", Integer, nullable=False),  # links from a page that a list, a sitemap or the settings name
    Column("novel", Boolean),  # whether its text was new among addresses of its shape; NULL before its first visit
    Column("deferred", Boolean, nullable=False, server_default=text("false")),  # whether links of it wait for room
    Column("refused", Text),  # why it is not kept although it is linked
    Column("refused_at", Double),
)

frame_changes = Table(  # changes of a host's frame, each one event of the site
    "frame_changes",
    metadata,
    Column("host_id", Id, ForeignKey("hosts.id"), primary_key=True, autoincrement=False),
    Column("first_at", Double, primary_key=True),
    Column("last_at", Double, nullable=False),
    _count("pages"),  # that showed it
    _count("lost"),  # blocks
    _count("gained"),
    Column("kind", Text, nullable=False, server_default="frame"),  # or content
)

demand = Table(  # requests for copies and days of watching, both faded as of `at`
    "demand",
    metadata,
    Column("page_id", Id, ForeignKey("pages.id"), primary_key=True, autoincrement=False),
    Column("requests", Double, nullable=False),
    Column("days", Double, nullable=False),
    Column("at", Double, nullable=False),
)

hooks = Table(  # who is told of changes, and what became of those so far
    "hooks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cursor", Id, nullable=False),  # the last change that it was asked about
    _count("delivered"),
    _count("dropped"),
    Column("delivered_at", Double),
    Column("trouble", Text),  # why the last sending failed
    Column("trouble_since", Double),
)

deliveries = Table(  # changes that wait for hooks
    "deliveries",
    metadata,
    Column("hook", Text, primary_key=True),
    Column("change", Id, primary_key=True, autoincrement=False),
    Column("page_id", Id, nullable=False),  # no foreign key: a change is told although its page is forgotten
    Column("document", Text, nullable=False),  # what is sent, JSON
    Column("added_at", Double, nullable=False),
)

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("changed_at", Double, nullable=False),
)

actions = Table(  # what operators did, and what undoes it
    "actions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("undo", Text),  # the action that undoes it, JSON; NULL where none does
    Column("undone_at", Double),
)

settings_changes = Table(
    "settings_changes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("name", Text, nullable=False),
    Column("old", Text),
    Column("new", Text),
    CheckConstraint("old IS NOT NULL OR new IS NOT NULL", name="settings_change_has_a_side"),
)
