"""The language and the content type of each page's latest copy, which changes are told with."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pages", sa.Column("language", sa.Text()))
    op.add_column("pages", sa.Column("content_type", sa.Text()))


def downgrade() -> None:
    op.drop_column("pages", "content_type")
    op.drop_column("pages", "language")
