"""What believed signals gained on each host, against a crawler that ignores them."""

from pathlib import Path
from runpy import run_path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

GAINS = """,
       coalesce(g.confirmed, 0) AS confirmed, coalesce(g.in_vain, 0) AS in_vain,
       coalesce(g.saved, 0) - t.polls AS saved,
       CASE WHEN w.importance > 0 AND w.since < {now}
            THEN coalesce(g.gain, 0) / (w.importance * ({now} - w.since)) END AS freshness_gain
FROM told t"""
JOINED = """
LEFT JOIN signal_gains g USING (host_id, source)
LEFT JOIN (
    SELECT host_id, sum(importance) AS importance, min(first_success) AS since
    FROM pages WHERE state NOT IN ('retired', 'alias') GROUP BY host_id
) w USING (host_id)
"""


def upgrade() -> None:
    op.create_table(
        "signal_gains",
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("confirmed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("in_vain", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("gain", sa.Double(), server_default="0", nullable=False),
        sa.Column("saved", sa.Double(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"]),
        sa.PrimaryKeyConstraint("host_id", "source", name=op.f("pk_signal_gains")),
    )
    _create(signal_stats())


def downgrade() -> None:
    _create(_older("0017_mixture.py")["_signal_stats"]())
    op.drop_table("signal_gains")


def signal_stats() -> str:
    before: str = _older("0017_mixture.py")["_signal_stats"]()
    kept = before.replace("p.state <> 'retired'", "p.state NOT IN ('retired', 'alias')")
    return kept.replace("\nFROM told t", GAINS).rstrip() + JOINED


def _older(name: str) -> dict[str, Any]:
    return run_path(str(Path(__file__).with_name(name)))


def _create(view: str) -> None:
    words = _older("0004_one_freshness.py")["WORDS"]
    op.execute("DROP VIEW signal_stats")
    op.execute(view.format(**words[op.get_bind().dialect.name]))
