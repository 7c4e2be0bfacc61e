"""Other addresses of pages, the address that answered, and where a page moved."""

from pathlib import Path
from runpy import run_path

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KNOWN = sa.text("alias_of IS NOT NULL")
ADDRESSES = ("answered", "canonical")
# A page that is no alias any longer stands where its last successful crawl found it.
AS_CRAWLED = """
UPDATE pages SET state = CASE
    WHEN last_success IS NULL THEN 'waiting' WHEN gone_since IS NULL THEN 'live' ELSE 'gone' END
WHERE state = 'alias'
"""


def upgrade() -> None:
    op.add_column("pages", sa.Column("alias_of", ID, nullable=True))
    op.add_column("pages", sa.Column("alias_why", sa.Text(), nullable=True))
    op.create_index("ix_pages_alias_of", "pages", ["alias_of"], sqlite_where=KNOWN, postgresql_where=KNOWN)
    for name in ADDRESSES:
        op.add_column("versions", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("changes", sa.Column("moved_to", sa.Text(), nullable=True))
    _replace_host_stats("state NOT IN ('retired', 'alias')")


def downgrade() -> None:
    """Numbers of changes have no gaps, so a `moved` stays, as the `gone` that it is to who does not know it."""
    op.execute("UPDATE changes SET verdict = 'gone' WHERE verdict = 'moved'")
    op.execute(AS_CRAWLED)
    _replace_host_stats("state <> 'retired'")
    op.drop_column("changes", "moved_to")
    for name in ADDRESSES:
        op.drop_column("versions", name)
    op.drop_index("ix_pages_alias_of", "pages")
    op.drop_column("pages", "alias_why")
    op.drop_column("pages", "alias_of")


def _replace_host_stats(kept: str) -> None:
    older = run_path(str(Path(__file__).with_name("0004_one_freshness.py")))
    op.execute("DROP VIEW host_stats")
    view = older["HOST_STATS"].replace("state <> 'retired'", kept)
    op.execute(view.format(**older["WORDS"][op.get_bind().dialect.name]))
