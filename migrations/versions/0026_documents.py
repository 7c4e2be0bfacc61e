"""Copies as readers have them: text and Markdown of each page's latest version."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("page_id", ID, autoincrement=False, nullable=False),
        sa.Column("version", ID, nullable=False),
        sa.Column("language", sa.Text()),
        sa.Column("canonical", sa.Text()),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("indexed", sa.Boolean(), nullable=False),
        sa.Column("zstd", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("page_id", name=op.f("pk_documents")),
    )
    op.create_index(op.f("ix_documents_version"), "documents", ["version"])


def downgrade() -> None:
    op.execute("DROP TABLE IF EXISTS search_words")
    op.drop_table("documents")
