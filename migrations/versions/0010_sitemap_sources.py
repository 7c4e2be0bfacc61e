"""Signals of sitemaps by how many came at once: alone (`sitemap`), with a few, with a large part of the site.

What was counted before stays under `sitemap`, whatever its size was: counts do not tell.
"""

from pathlib import Path
from runpy import run_path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

OLD_SOURCES = ("sitemap", "feed", "ping", "websub")
NEW = ("sitemap_few", "sitemap_bulk")
SOURCES = (*OLD_SOURCES, *NEW)
COUNTS = {"pages": ("pending", "counted"), "crawls": ("signals",), "estimates": ("signals",)}
BELIEFS = ("kappa", "gamma")


def _sums(sources: tuple[str, ...]) -> str:
    true = {s: f"gamma_{s} * (1 - exp(-{{least}}(kappa_{s}, 700.0)))" for s in sources}
    columns = [f"sum(gamma_{s}) AS gamma_{s}, sum({true[s]}) AS announced_{s}" for s in sources]
    return f"""
    SELECT p.host_id, sum(shape / rate + {" + ".join(true.values())}) AS change_rate, {", ".join(columns)}
    FROM estimates e JOIN pages p ON p.id = e.page_id WHERE p.state <> 'retired' GROUP BY p.host_id"""


def _of_source(name: str) -> str:
    cases = " ".join(f"WHEN '{s}' THEN b.{name}_{s}" for s in SOURCES)
    return f"CASE c.source {cases} END AS {name}"


TOLD = f"""
WITH belief AS ({_sums(SOURCES)}
), told AS (
    SELECT c.*, b.change_rate, {_of_source("gamma")}, {_of_source("announced")}
    FROM signal_counts c LEFT JOIN belief b ON b.host_id = c.host_id
)
SELECT h.name AS host, t.source, t.polls, t.signals, t.stale, t.site_events,
       CASE WHEN t.gamma > 0 THEN t.announced / t.gamma END AS "precision",
       CASE WHEN t.change_rate > 0 THEN t.announced / t.change_rate END AS recall"""
SIGNAL_STATS = f"CREATE VIEW signal_stats AS {TOLD} FROM told t JOIN hosts h ON h.id = t.host_id"


def upgrade() -> None:
    _drop_views()
    for table, names in COUNTS.items():
        for name in names:
            for source in NEW:
                column = sa.Column(f"{name}_{source}", sa.BigInteger(), server_default="0", nullable=False)
                op.add_column(table, column)
    for source in NEW:
        for name in BELIEFS:
            op.add_column("estimates", sa.Column(f"{name}_{source}", sa.Double(), server_default="0", nullable=False))
        op.add_column("estimates", sa.Column(f"kappa_se_{source}", sa.Double(), nullable=True))
    older = _older("0004_one_freshness.py")
    _create(older["page_stats"](SOURCES), older["HOST_STATS"], SIGNAL_STATS)


def downgrade() -> None:
    _drop_views()
    for table, names in COUNTS.items():
        for name in names:
            more = " + ".join(f"{name}_{source}" for source in NEW)
            op.execute(f"UPDATE {table} SET {name}_sitemap = {name}_sitemap + {more} WHERE {more} > 0")
            for source in NEW:
                op.drop_column(table, f"{name}_{source}")
    for source in NEW:
        for name in (*BELIEFS, "kappa_se"):
            op.drop_column("estimates", f"{name}_{source}")
    of_new = " IN ('sitemap_few', 'sitemap_bulk')"
    op.execute(f"UPDATE signals SET source = 'sitemap' WHERE source{of_new}")
    op.execute(
        "INSERT INTO signal_counts (host_id, source) SELECT DISTINCT host_id, 'sitemap' FROM signal_counts n"
        f" WHERE source{of_new} AND NOT EXISTS"
        " (SELECT 1 FROM signal_counts o WHERE o.host_id = n.host_id AND o.source = 'sitemap')"
    )
    for name in ("signals", "stale"):
        more = (
            f"SELECT coalesce(sum(n.{name}), 0) FROM signal_counts n WHERE n.host_id = c.host_id AND n.source{of_new}"
        )
        op.execute(f"UPDATE signal_counts AS c SET {name} = {name} + ({more}) WHERE source = 'sitemap'")
    op.execute(f"DELETE FROM signal_counts WHERE source{of_new}")
    newer, older = _older("0004_one_freshness.py"), _older("0002_views.py")
    _create(newer["PAGE_STATS"], newer["HOST_STATS"], older["SIGNAL_STATS"])


def _older(name: str) -> dict[str, Any]:
    return run_path(str(Path(__file__).with_name(name)))


def _create(*views: str) -> None:
    words = _older("0004_one_freshness.py")["WORDS"][op.get_bind().dialect.name]
    for view in views:
        op.execute(view.format(**words))


def _drop_views() -> None:
    for view in ("signal_stats", "host_stats", "page_stats"):
        op.execute(f"DROP VIEW {view}")
