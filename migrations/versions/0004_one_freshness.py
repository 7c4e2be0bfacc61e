"""One freshness: how copies age by their hosts' clocks, since when pages are gone, and what pages weigh.

The views compute what `crawld.choose.freshness` does. A page without an estimate is taken to change about once a
week, as the scheduler assumes.
"""

from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SOURCES = ("sitemap", "feed", "ping", "websub")
VIEWS = ("page_stats", "host_stats")
PAGE_COLUMNS = (
    "url", "importance", "state", "crawls", "changes", "failed", "last_success", "last_change_at", "gone_since",
    "weight",
)  # fmt: skip
STEPS, WIDTH = 64, 14  # of an age curve
SKEW = 60.0  # seconds that a copy may be ahead of our clock
ASSUMED_SHAPE, ASSUMED_RATE = 1.0, 604800.0
GONE = b"gone"  # the digest of a page that is gone

WORDS = {
    "sqlite": {
        "now": "((julianday('now') - 2440587.5) * 86400.0)",
        "least": "min",
        "greatest": "max",
        "infinity": "9e999",
        "whole": "",  # a cast cuts off what follows the point
    },
    "postgresql": {
        "now": "CAST(extract(epoch FROM now()) AS double precision)",
        "least": "least",
        "greatest": "greatest",
        "infinity": "CAST('Infinity' AS double precision)",
        "whole": "floor",
    },
}

LOW = f"CAST({{whole}}({{least}}(place, {STEPS - 1}.0)) AS integer)"
BELOW, ABOVE = (
    f"CAST(substr(extra, {LOW} * {WIDTH} + {start}, {WIDTH}) AS double precision)" for start in (1, WIDTH + 1)
)
AGE = f"elapsed + (1 - (place - {LOW})) * {BELOW} + (place - {LOW}) * {ABOVE}"


def page_stats(sources: Sequence[str]) -> str:
    """The view over these sources of signals."""
    # PostgreSQL calls it an error when exp() gets too small for a number: beyond 700 nobody sees the difference.
    true_signals = " + ".join(f"gamma_{s} * (1 - exp(-{{least}}(kappa_{s}, 700.0)))" for s in sources)
    all_signals = " + ".join(f"gamma_{s}" for s in sources)
    # By their names: a view over `p.*` would depend on columns that are added later.
    columns = ", ".join(f"p.{name}" for name in PAGE_COLUMNS)
    counted = " + ".join(f"p.counted_{s}" for s in sources)
    # An infinite κ times no signal is nothing, and without an estimate a signal says nothing yet.
    doubt = " + ".join(
        f"CASE WHEN p.pending_{s} = 0 OR kappa_{s} IS NULL THEN 0 ELSE kappa_{s} * p.pending_{s} END" for s in sources
    )
    return f"""
CREATE VIEW page_stats AS
WITH moment AS MATERIALIZED (
    SELECT {{now}} AS now
), belief AS (
    SELECT e.*, shape / rate AS alpha, {all_signals} AS gamma, {true_signals} AS announced
    FROM estimates e
), derived AS (
    SELECT belief.*, alpha + announced AS change_rate,
           CASE WHEN gamma > 0 THEN announced / gamma END AS signal_precision
    FROM belief
), worth AS (
    SELECT derived.*,
           CASE WHEN signal_precision >= 1 THEN {{infinity}}
                WHEN signal_precision IS NOT NULL THEN -ln(1 - signal_precision) END AS kappa
    FROM derived
), placed AS (
    SELECT {columns}, h.name AS host, {counted} AS signals, b.change_rate, b.alpha, b.kappa, b.gamma, b.announced,
           b.signal_precision, coalesce(b.shape, {ASSUMED_SHAPE}) AS shape, coalesce(b.rate, {ASSUMED_RATE}) AS rate,
           {doubt} AS doubt,
           CASE WHEN p.last_success <= m.now + {SKEW} THEN m.now - p.last_success END AS elapsed,
           c.extra, {{least}}({{greatest}}((p.last_success - c.first) / c.step, 0.0), {STEPS}.0) AS place
    FROM pages p JOIN hosts h ON h.id = p.host_id CROSS JOIN moment m
    LEFT JOIN worth b ON b.page_id = p.id LEFT JOIN age_curves c ON c.host_id = p.host_id
), aged AS (
    SELECT placed.*,
           CASE WHEN extra IS NULL OR place = {STEPS} THEN elapsed ELSE {AGE} END AS age
    FROM placed
), believed AS (
    SELECT aged.*,
           CASE WHEN elapsed IS NULL THEN NULL WHEN gone_since IS NOT NULL THEN doubt
                ELSE shape * ln(1 + {{greatest}}(0.0, age) / rate) + doubt END AS staleness
    FROM aged
)
SELECT url, host, importance, state, crawls, changes, failed AS failures, signals,
       last_success AS last_crawl_at, last_change_at, change_rate, alpha,
       CASE WHEN alpha > 0 THEN kappa / alpha END AS beta_seconds,
       kappa, gamma, signal_precision AS "precision",
       CASE WHEN change_rate > 0 THEN announced / change_rate END AS recall,
       staleness,
       CASE WHEN elapsed IS NULL THEN 0.0 ELSE exp(-{{least}}(staleness, 700.0)) END AS freshness,
       coalesce(weight, importance) AS weight, gone_since
FROM believed
"""


PAGE_STATS = page_stats(SOURCES)
HOST_STATS = """
CREATE VIEW host_stats AS
SELECT h.name AS host, s.pages, s.copies, s.crawls, s.changes, s.failures, s.signals, s.last_crawl_at,
       s.last_change_at, s.change_rate, s.freshness, h.blocked, h.blocked_until,
       h.failures AS successive_failures, h.delay AS delay_seconds, h.crawl_delay AS crawl_delay_seconds
FROM hosts h JOIN (
    SELECT host, count(*) AS pages, count(CASE WHEN gone_since IS NULL THEN last_crawl_at END) AS copies,
           CAST(sum(crawls) AS bigint) AS crawls,
           CAST(sum(changes) AS bigint) AS changes, CAST(sum(failures) AS bigint) AS failures,
           CAST(sum(signals) AS bigint) AS signals, max(last_crawl_at) AS last_crawl_at,
           max(last_change_at) AS last_change_at, avg(change_rate) AS change_rate,
           sum(weight * freshness) / nullif(sum(weight), 0) AS freshness
    FROM page_stats WHERE state <> 'retired' GROUP BY host
) s ON s.host = h.name
"""


def upgrade() -> None:
    _drop_views()
    op.add_column("pages", sa.Column("gone_since", sa.Double(), nullable=True))
    op.add_column("pages", sa.Column("weight", sa.Double(), nullable=True))
    op.create_table(
        "age_curves",
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("first", sa.Double(), nullable=False),
        sa.Column("step", sa.Double(), nullable=False),
        sa.Column("extra", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"]),
        sa.PrimaryKeyConstraint("host_id", name=op.f("pk_age_curves")),
    )
    gone = sa.text(
        "UPDATE pages SET gone_since = coalesce(last_change_at, last_success)"
        " WHERE id IN (SELECT page_id FROM versions WHERE raw = :gone)"
    )
    op.get_bind().execute(gone.bindparams(sa.bindparam("gone", GONE, type_=sa.LargeBinary())))
    words = WORDS[op.get_bind().dialect.name]
    for view in (PAGE_STATS, HOST_STATS):
        op.execute(view.format(**words))


def downgrade() -> None:
    _drop_views()
    op.drop_table("age_curves")
    op.drop_column("pages", "weight")
    op.drop_column("pages", "gone_since")
    before = run_path(str(Path(__file__).with_name("0002_views.py")))
    words = before["WORDS"][op.get_bind().dialect.name]
    for view in (before["PAGE_STATS"], before["HOST_STATS"]):
        op.execute(view.format(**words))


def _drop_views() -> None:
    for view in reversed(VIEWS):
        op.execute(f"DROP VIEW {view}")
