"""In a fleet, the settings of all workers, by revision; on PostgreSQL only."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.create_table(
        "fleet_settings",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_fleet_settings")),
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("fleet_settings")
