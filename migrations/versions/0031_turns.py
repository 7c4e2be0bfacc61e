"""When the next request of any worker may leave for a host that requests of several lead to; on PostgreSQL only."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "fleet_turns",
            sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("next", sa.Double(), nullable=False),
            sa.PrimaryKeyConstraint("place", name=op.f("pk_fleet_turns")),
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("fleet_turns")
