"""Weighed beliefs: beside each estimate one to which signals mean nothing, and how far each source counts.

Estimates made before are believed as they are: what was not heard then has κ = 0.
"""

from pathlib import Path
from runpy import run_path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

SOURCES = ("sitemap", "sitemap_few", "sitemap_bulk", "feed", "ping", "websub")
VIEWS = ("signal_stats", "host_stats", "page_stats")
DEAF = "(1 - heard) * deaf_alpha"


def _true(source: str) -> str:
    """The rate of true signals of a source, as far as it is believed."""
    return f"heard * gamma_{source} * (1 - exp(-{{least}}(kappa_{source}, 700.0)))"


def _page_stats(older: dict[str, Any]) -> str:
    """As before, but the mean of both beliefs."""
    true_signals = " + ".join(map(_true, SOURCES))
    all_signals = " + ".join(f"gamma_{s}" for s in SOURCES)
    columns = ", ".join(f"p.{name}" for name in older["PAGE_COLUMNS"])
    counted = " + ".join(f"p.counted_{s}" for s in SOURCES)
    doubt = " + ".join(
        f"CASE WHEN p.pending_{s} = 0 OR kappa_{s} IS NULL THEN 0 ELSE kappa_{s} * p.pending_{s} END" for s in SOURCES
    )
    steps, skew, age = older["STEPS"], older["SKEW"], older["AGE"]
    shape, rate = older["ASSUMED_SHAPE"], older["ASSUMED_RATE"]
    return f"""
CREATE VIEW page_stats AS
WITH moment AS MATERIALIZED (
    SELECT {{now}} AS now
), belief AS (
    SELECT e.*, heard * shape / rate + {DEAF} AS alpha, {all_signals} AS gamma, {true_signals} AS announced
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
           b.signal_precision, coalesce(b.shape, {shape}) AS shape, coalesce(b.rate, {rate}) AS rate,
           coalesce(b.heard, 1.0) AS heard, coalesce(b.deaf_shape, 1.0) AS deaf_shape, b.deaf_alpha,
           {doubt} AS doubt,
           CASE WHEN p.last_success <= m.now + {skew} THEN m.now - p.last_success END AS elapsed,
           c.extra, {{least}}({{greatest}}((p.last_success - c.first) / c.step, 0.0), {steps}.0) AS place
    FROM pages p JOIN hosts h ON h.id = p.host_id CROSS JOIN moment m
    LEFT JOIN worth b ON b.page_id = p.id LEFT JOIN age_curves c ON c.host_id = p.host_id
), aged AS (
    SELECT placed.*,
           CASE WHEN gone_since IS NOT NULL THEN 0.0
                WHEN extra IS NULL OR place = {steps} THEN {{greatest}}(0.0, elapsed)
                ELSE {{greatest}}(0.0, {age}) END AS age
    FROM placed
), believed AS (
    SELECT aged.*,
           CASE WHEN elapsed IS NOT NULL THEN shape * ln(1 + age / rate) + doubt END AS told,
           CASE WHEN elapsed IS NOT NULL THEN deaf_shape * ln(1 + age * deaf_alpha / deaf_shape) END AS deaf
    FROM aged
), mixed AS (
    SELECT believed.*,
           CASE WHEN elapsed IS NULL THEN 0.0 WHEN heard >= 1 THEN exp(-{{least}}(told, 700.0))
                ELSE heard * exp(-{{least}}(told, 700.0)) + (1 - heard) * exp(-{{least}}(deaf, 700.0)) END AS freshness
    FROM believed
)
SELECT url, host, importance, state, crawls, changes, failed AS failures, signals,
       last_success AS last_crawl_at, last_change_at, change_rate, alpha,
       CASE WHEN alpha > 0 THEN kappa / alpha END AS beta_seconds,
       kappa, gamma, signal_precision AS "precision",
       CASE WHEN change_rate > 0 THEN announced / change_rate END AS recall,
       CASE WHEN heard >= 1 OR elapsed IS NULL THEN told ELSE -ln(freshness) END AS staleness, freshness,
       coalesce(weight, importance) AS weight, gone_since
FROM mixed
"""


def _signal_stats() -> str:
    columns = [f"sum(gamma_{s}) AS gamma_{s}, sum({_true(s)}) AS announced_{s}" for s in SOURCES]
    cases = {name: " ".join(f"WHEN '{s}' THEN b.{name}_{s}" for s in SOURCES) for name in ("gamma", "announced")}
    return f"""
CREATE VIEW signal_stats AS
WITH belief AS (
    SELECT p.host_id, sum(heard * shape / rate + {DEAF} + {" + ".join(map(_true, SOURCES))}) AS change_rate,
           {", ".join(columns)}
    FROM estimates e JOIN pages p ON p.id = e.page_id WHERE p.state <> 'retired' GROUP BY p.host_id
), told AS (
    SELECT c.*, b.change_rate, CASE c.source {cases["gamma"]} END AS gamma,
           CASE c.source {cases["announced"]} END AS announced
    FROM signal_counts c LEFT JOIN belief b ON b.host_id = c.host_id
)
SELECT h.name AS host, t.source, t.polls, t.signals, t.stale, t.site_events,
       CASE WHEN t.gamma > 0 THEN t.announced / t.gamma END AS "precision",
       CASE WHEN t.change_rate > 0 THEN t.announced / t.change_rate END AS recall,
       s.heard, s.weight, s.score, s.why
FROM told t JOIN hosts h ON h.id = t.host_id LEFT JOIN signal_trust s USING (host_id, source)
"""


def upgrade() -> None:
    _drop_views()
    op.add_column("estimates", sa.Column("heard", sa.Double(), server_default="1", nullable=False))
    op.add_column("estimates", sa.Column("deaf_alpha", sa.Double(), server_default="0", nullable=False))
    op.add_column("estimates", sa.Column("deaf_shape", sa.Double(), server_default="1", nullable=False))
    op.add_column("signal_trust", sa.Column("weight", sa.Double(), server_default="0", nullable=False))
    op.execute("UPDATE signal_trust SET weight = 1 WHERE heard")
    older = _older("0004_one_freshness.py")
    _create(_page_stats(older), older["HOST_STATS"], _signal_stats())


def downgrade() -> None:
    _drop_views()
    op.drop_column("signal_trust", "weight")
    for name in ("deaf_shape", "deaf_alpha", "heard"):
        op.drop_column("estimates", name)
    older, told = _older("0004_one_freshness.py"), _older("0010_sitemap_sources.py")["TOLD"]
    trust = "FROM told t JOIN hosts h ON h.id = t.host_id LEFT JOIN signal_trust s USING (host_id, source)"
    stats = f"CREATE VIEW signal_stats AS {told}, s.heard, s.score, s.why {trust}"
    _create(older["page_stats"](SOURCES), older["HOST_STATS"], stats)


def _older(name: str) -> dict[str, Any]:
    return run_path(str(Path(__file__).with_name(name)))


def _create(*views: str) -> None:
    words = _older("0004_one_freshness.py")["WORDS"][op.get_bind().dialect.name]
    for view in views:
        op.execute(view.format(**words))


def _drop_views() -> None:
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
