"""The changes in the order of commits, the version that each copy is, and indices to list pages by."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SORTED = ("importance", "last_success", "last_change_at")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# A page that had been gone is back; a first visit is not a change of a page but the first that is known of it.
FROM_CRAWLS = """
INSERT INTO changes (id, page_id, at, verdict, magnitude)
SELECT row_number() OVER (ORDER BY id), page_id, at,
       CASE WHEN verdict = 'changed' AND before = 'gone' THEN 'back' ELSE verdict END, magnitude
FROM (
    SELECT id, page_id, at, verdict, magnitude,
           lag(verdict) OVER (PARTITION BY page_id ORDER BY id) AS before
    FROM crawls WHERE verdict IN ('new', 'changed', 'gone')
) AS found
"""

VERSIONS = """
UPDATE bodies SET version = (
    SELECT max(c.id) FROM changes c
    WHERE c.page_id = bodies.page_id AND c.at <= bodies.at AND c.verdict <> 'gone'
)
"""


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("page_id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("magnitude", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_index(op.f("ix_changes_page_id_id"), "changes", ["page_id", "id"], unique=False)
    op.add_column("bodies", sa.Column("version", ID, nullable=True))
    op.execute(FROM_CRAWLS)
    op.execute(VERSIONS)
    op.drop_index(op.f("ix_pages_host_id"), "pages")
    op.create_index(op.f("ix_pages_host_id_state"), "pages", ["host_id", "state"], unique=False)
    op.create_index(op.f("ix_pages_state"), "pages", ["state"], unique=False)
    for column in SORTED:
        op.create_index(op.f(f"ix_pages_{column}_id"), "pages", [column, "id"], unique=False)


def downgrade() -> None:
    for index in (*(f"{column}_id" for column in SORTED), "state", "host_id_state"):
        op.drop_index(op.f(f"ix_pages_{index}"), "pages")
    op.create_index(op.f("ix_pages_host_id"), "pages", ["host_id"], unique=False)
    op.drop_column("bodies", "version")
    op.drop_table("changes")
