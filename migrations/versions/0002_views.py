"""The views that people read, in SQL that both databases' shells understand."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SOURCES = ("sitemap", "feed", "ping", "websub")
VIEWS = ("page_stats", "host_stats", "signal_stats", "calibration")

WORDS = {
    "sqlite": {
        "now": "((julianday('now') - 2440587.5) * 86400.0)",
        "least": "min",
        "greatest": "max",
        "infinity": "9e999",
    },
    "postgresql": {
        "now": "CAST(extract(epoch FROM now()) AS double precision)",
        "least": "least",
        "greatest": "greatest",
        "infinity": "CAST('Infinity' AS double precision)",
    },
}

# PostgreSQL calls it an error when exp() gets too small for a number: beyond 700 nobody sees the difference.
TRUE_SIGNALS = " + ".join(f"gamma_{s} * (1 - exp(-{{least}}(kappa_{s}, 700.0)))" for s in SOURCES)
ALL_SIGNALS = " + ".join(f"gamma_{s}" for s in SOURCES)
COUNTED = " + ".join(f"p.counted_{s}" for s in SOURCES)
# An infinite κ times no signal is nothing.
SIGNAL_STALENESS = " + ".join(f"CASE WHEN p.pending_{s} = 0 THEN 0 ELSE kappa_{s} * p.pending_{s} END" for s in SOURCES)

PAGE_STATS = f"""
CREATE VIEW page_stats AS
WITH belief AS (
    SELECT e.*, shape / rate AS alpha, {ALL_SIGNALS} AS gamma, {TRUE_SIGNALS} AS announced
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
), aged AS (
    SELECT p.*, h.name AS host, {COUNTED} AS signals, b.change_rate, b.alpha, b.kappa, b.gamma, b.announced,
           b.signal_precision,
           b.shape * ln(1 + {{greatest}}(0.0, {{now}} - p.last_success) / b.rate) + {SIGNAL_STALENESS} AS staleness
    FROM pages p JOIN hosts h ON h.id = p.host_id LEFT JOIN worth b ON b.page_id = p.id
)
SELECT url, host, importance, state, crawls, changes, failed AS failures, signals,
       last_success AS last_crawl_at, last_change_at, change_rate, alpha,
       CASE WHEN alpha > 0 THEN kappa / alpha END AS beta_seconds,
       kappa, gamma, signal_precision AS "precision",
       CASE WHEN change_rate > 0 THEN announced / change_rate END AS recall,
       staleness,
       CASE WHEN last_success IS NULL THEN 0.0
            WHEN staleness IS NOT NULL THEN exp(-{{least}}(staleness, 700.0)) END AS freshness
FROM aged
"""

HOST_STATS = """
CREATE VIEW host_stats AS
SELECT h.name AS host, s.pages, s.copies, s.crawls, s.changes, s.failures, s.signals, s.last_crawl_at,
       s.last_change_at, s.change_rate, s.freshness, h.blocked, h.blocked_until,
       h.failures AS successive_failures, h.delay AS delay_seconds, h.crawl_delay AS crawl_delay_seconds
FROM hosts h JOIN (
    SELECT host, count(*) AS pages, count(last_crawl_at) AS copies, CAST(sum(crawls) AS bigint) AS crawls,
           CAST(sum(changes) AS bigint) AS changes, CAST(sum(failures) AS bigint) AS failures,
           CAST(sum(signals) AS bigint) AS signals, max(last_crawl_at) AS last_crawl_at,
           max(last_change_at) AS last_change_at, avg(change_rate) AS change_rate,
           sum(importance * freshness)
               / nullif(sum(CASE WHEN freshness IS NOT NULL THEN importance END), 0) AS freshness
    FROM page_stats WHERE state <> 'retired' GROUP BY host
) s ON s.host = h.name
"""

BY_SOURCE = " UNION ALL ".join(
    f"""
    SELECT p.host_id, '{s}' AS source, sum(gamma_{s}) AS gamma,
           sum(gamma_{s} * (1 - exp(-{{least}}(kappa_{s}, 700.0)))) AS announced,
           sum(shape / rate + {TRUE_SIGNALS}) AS change_rate
    FROM estimates e JOIN pages p ON p.id = e.page_id WHERE p.state <> 'retired' GROUP BY p.host_id"""
    for s in SOURCES
)

SIGNAL_STATS = f"""
CREATE VIEW signal_stats AS
SELECT h.name AS host, c.source, c.polls, c.signals, c.stale, c.site_events,
       CASE WHEN b.gamma > 0 THEN b.announced / b.gamma END AS "precision",
       CASE WHEN b.change_rate > 0 THEN b.announced / b.change_rate END AS recall
FROM signal_counts c
JOIN hosts h ON h.id = c.host_id
LEFT JOIN ({BY_SOURCE}) b ON b.host_id = c.host_id AND b.source = c.source
"""

CALIBRATION = """
CREATE VIEW calibration AS
SELECT bin, predicted_low, predicted_high, crawls, predicted, seen, seen - predicted AS gap
FROM (
    SELECT bin, CAST(bin AS double precision) / 10 AS predicted_low,
           CAST(bin + 1 AS double precision) / 10 AS predicted_high,
           CAST(sum(crawls) AS bigint) AS crawls,
           CAST(sum(predicted_sum) AS double precision) / sum(crawls) AS predicted,
           CAST(sum(fresh) AS double precision) / sum(crawls) AS seen
    FROM calibration_days GROUP BY bin
) AS tenths
"""


def upgrade() -> None:
    words = WORDS[op.get_bind().dialect.name]
    for view in (PAGE_STATS, HOST_STATS, SIGNAL_STATS, CALIBRATION):
        op.execute(view.format(**words))


def downgrade() -> None:
    for view in reversed(VIEWS):
        op.execute(f"DROP VIEW {view}")
