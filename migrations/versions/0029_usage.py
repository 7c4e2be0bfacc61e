"""What pages may be used for: as robots.txt says, and as headers and heads said with each copy."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("said", sa.Text(), nullable=True))
    op.add_column("versions", sa.Column("denies", sa.Text(), nullable=True))
    op.add_column("robots", sa.Column("usage", sa.Text(), nullable=True))


def downgrade() -> None:
    """Numbers of changes have no gaps, so a `usage` stays, as a change of the page."""
    op.execute("UPDATE changes SET verdict = 'changed' WHERE verdict = 'usage'")
    op.drop_column("robots", "usage")
    op.drop_column("versions", "denies")
    op.drop_column("versions", "said")
