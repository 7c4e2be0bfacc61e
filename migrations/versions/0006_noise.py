"""What was learnt of noise word by word, what digests can be compared, and changes of the frames of hosts."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("versions", sa.Column("scheme", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("versions", sa.Column("times", sa.LargeBinary(), nullable=True))
    op.add_column("versions", sa.Column("places", sa.LargeBinary(), nullable=True))
    op.drop_column("versions", "volatile")  # learnt block by block: of no use now, and soon learnt again
    op.create_table(
        "frame_changes",
        sa.Column("host_id", Id, autoincrement=False, nullable=False),
        sa.Column("first_at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("pages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lost", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("gained", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"]),
        sa.PrimaryKeyConstraint("host_id", "first_at", name=op.f("pk_frame_changes")),
    )


def downgrade() -> None:
    op.drop_table("frame_changes")
    op.add_column("versions", sa.Column("volatile", sa.LargeBinary(), nullable=False, server_default=""))
    for column in ("places", "times", "scheme"):
        op.drop_column("versions", column)
