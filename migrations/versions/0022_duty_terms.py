"""In a fleet, terms of duties: what a worker writes for all is fenced by them."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.add_column("fleet_duties", sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False))
    op.alter_column("fleet_duties", "worker", nullable=True)


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("DELETE FROM fleet_duties WHERE worker IS NULL")
    op.alter_column("fleet_duties", "worker", nullable=False)
    op.drop_column("fleet_duties", "epoch")
