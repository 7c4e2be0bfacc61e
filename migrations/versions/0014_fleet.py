"""What the workers of a fleet share; on PostgreSQL only."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = (
    "fleet",
    "fleet_workers",
    "fleet_shards",
    "fleet_rounds",
    "fleet_grants",
    "fleet_mail",
    "fleet_duties",
    "fleet_taught",
    "fleet_ids",
    "fleet_counters",
)


def _postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def upgrade() -> None:
    if not _postgresql():
        return
    _membership()
    _rounds()
    _numbers()


def _membership() -> None:
    op.create_table(
        "fleet",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("shards", sa.Integer(), nullable=False),
        sa.Column("bandwidth", sa.Double(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name="fleet_is_one"),
        _key("fleet", "id"),
    )
    op.create_table(
        "fleet_workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("joined_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("steady_since", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("lost", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("bid_round", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bid", sa.ARRAY(sa.BigInteger())),
        sa.Column("report", sa.Text(), server_default="{}", nullable=False),
        sa.Column("status", sa.Text()),
        _key("fleet_workers", "id"),
    )
    op.create_table(
        "fleet_shards",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("worker", sa.Text()),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        _key("fleet_shards", "id"),
    )
    op.create_table(
        "fleet_duties",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        _key("fleet_duties", "name"),
    )
    op.create_table(
        "fleet_taught",
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("taught", sa.ARRAY(sa.Double()), nullable=False),
        _key("fleet_taught", "worker"),
    )


def _rounds() -> None:
    op.create_table(
        "fleet_rounds",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cleared_at", sa.Double(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("bandwidth", sa.Double(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        _key("fleet_rounds", "number"),
    )
    op.create_table(
        "fleet_grants",
        sa.Column("round", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=False),
        _key("fleet_grants", "round", "worker"),
    )
    op.create_table(
        "fleet_mail",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        _key("fleet_mail", "id"),
    )
    op.create_index(op.f("ix_fleet_mail_shard_id"), "fleet_mail", ["shard", "id"])


def _numbers() -> None:
    op.create_table(
        "fleet_ids",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("hosts", sa.BigInteger(), server_default="0", nullable=False),
        _key("fleet_ids", "shard"),
    )
    op.create_table(
        "fleet_counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        _key("fleet_counters", "name"),
    )


def downgrade() -> None:
    if _postgresql():
        for table in reversed(TABLES):
            op.drop_table(table)
