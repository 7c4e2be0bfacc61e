"""How long a host asked us to wait, apart from its back-off."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("hosts", sa.Column("asked_until", sa.Double(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("hosts", "asked_until")
