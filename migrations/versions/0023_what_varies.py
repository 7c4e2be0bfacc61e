"""Titles and main parts of pages, blocks that vary in times and counters, and edits that many pages share."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("title", sa.LargeBinary()))
    op.add_column("versions", sa.Column("varying", sa.LargeBinary()))
    op.add_column("frame_changes", sa.Column("kind", sa.Text(), server_default="frame", nullable=False))


def downgrade() -> None:
    op.drop_column("frame_changes", "kind")
    op.drop_column("versions", "varying")
    op.drop_column("versions", "title")
