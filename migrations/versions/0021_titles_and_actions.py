"""Titles of pages, and what operators did."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("pages", sa.Column("title", sa.Text()))
    op.create_table(
        "actions",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("undo", sa.Text()),
        sa.Column("undone_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
    )


def downgrade() -> None:
    op.drop_table("actions")
    op.drop_column("pages", "title")
