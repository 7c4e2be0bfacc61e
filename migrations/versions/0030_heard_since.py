"""Since when each source of signals has been heard on a host."""

from pathlib import Path
from runpy import run_path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("signal_trust", sa.Column("heard_since", sa.Double(), nullable=True))
    older = _older("0019_signal_gains.py")
    older["_create"](older["signal_stats"]().replace("s.heard, ", "s.heard, s.heard_since, "))


def downgrade() -> None:
    older = _older("0019_signal_gains.py")
    older["_create"](older["signal_stats"]())
    op.drop_column("signal_trust", "heard_since")


def _older(name: str) -> dict[str, Any]:
    return run_path(str(Path(__file__).with_name(name)))
