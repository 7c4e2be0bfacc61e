"""Which sources of signals are heard on each host, and why."""

from pathlib import Path
from runpy import run_path

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signal_trust",
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("heard", sa.Boolean(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("intervals", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"]),
        sa.PrimaryKeyConstraint("host_id", "source", name=op.f("pk_signal_trust")),
    )
    told = _older("0010_sitemap_sources.py")["TOLD"]
    trust = "FROM told t JOIN hosts h ON h.id = t.host_id LEFT JOIN signal_trust s USING (host_id, source)"
    _create(f"CREATE VIEW signal_stats AS {told}, s.heard, s.score, s.why {trust}")


def downgrade() -> None:
    _create(_older("0010_sitemap_sources.py")["SIGNAL_STATS"])
    op.drop_table("signal_trust")


def _older(name: str) -> dict[str, str]:
    return run_path(str(Path(__file__).with_name(name)))


def _create(view: str) -> None:
    words = run_path(str(Path(__file__).with_name("0004_one_freshness.py")))["WORDS"]
    op.execute("DROP VIEW signal_stats")
    op.execute(view.format(**words[op.get_bind().dialect.name]))
