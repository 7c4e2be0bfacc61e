"""The tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "calibration_days",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bin", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("crawls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fresh", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("predicted_sum", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("day", "bin", name=op.f("pk_calibration_days")),
    )
    op.create_table(
        "freshness_history",
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("bandwidth", sa.Double(), nullable=False),
        sa.Column("request_rate", sa.Double(), nullable=False),
        sa.Column("predicted", sa.Double(), nullable=True),
        sa.Column("measured", sa.Double(), nullable=True),
        sa.Column("measured_low", sa.Double(), nullable=True),
        sa.Column("measured_high", sa.Double(), nullable=True),
        sa.Column("level", sa.Double(), nullable=True),
        sa.Column("pages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("changed_share", sa.Double(), nullable=True),
        sa.Column("skipped_slots", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("at", name=op.f("pk_freshness_history")),
    )
    op.create_table(
        "hosts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blocked_until", sa.Double(), server_default="0", nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("crawl_delay", sa.Double(), nullable=True),
        sa.Column("delay", sa.Double(), nullable=True),
        sa.Column("blocked", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("distrust_304_until", sa.Double(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_settings")),
    )
    op.create_table(
        "settings_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("old", sa.Text(), nullable=True),
        sa.Column("new", sa.Text(), nullable=True),
        sa.CheckConstraint("old IS NOT NULL OR new IS NOT NULL", name="settings_change_has_a_side"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_settings_changes")),
    )
    op.create_table(
        "sources",
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("next_poll", sa.Double(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("url", name=op.f("pk_sources")),
    )
    op.create_index(op.f("ix_sources_host"), "sources", ["host"], unique=False)
    op.create_table(
        "pages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("importance", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.Column("retired_at", sa.Double(), nullable=True),
        sa.Column("first_success", sa.Double(), nullable=True),
        sa.Column("last_success", sa.Double(), nullable=True),
        sa.Column("last_attempt", sa.Double(), nullable=True),
        sa.Column("last_change_at", sa.Double(), nullable=True),
        sa.Column("dirty_since", sa.Double(), nullable=True),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("crawls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("changes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pending_sitemap", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pending_feed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pending_ping", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pending_websub", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counted_sitemap", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counted_feed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counted_ping", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counted_websub", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["host_id"],
            ["hosts.id"],
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pages")),
        sa.UniqueConstraint("url"),
    )
    op.create_index(
        "ix_pages_dirty_since",
        "pages",
        ["dirty_since"],
        unique=False,
        sqlite_where=sa.text("dirty_since IS NOT NULL"),
        postgresql_where=sa.text("dirty_since IS NOT NULL"),
    )
    op.create_index(op.f("ix_pages_host_id"), "pages", ["host_id"], unique=False)
    op.create_index(op.f("ix_pages_origin"), "pages", ["origin"], unique=False)
    op.create_table(
        "signal_counts",
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("polls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("stale", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("site_events", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["host_id"],
            ["hosts.id"],
        ),
        sa.PrimaryKeyConstraint("host_id", "source", name=op.f("pk_signal_counts")),
    )
    op.create_table(
        "bodies",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("page_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("zstd", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["page_id"],
            ["pages.id"],
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bodies")),
    )
    op.create_index(op.f("ix_bodies_page_id_id"), "bodies", ["page_id", "id"], unique=False)
    op.create_table(
        "crawls",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("page_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("tau", sa.Double(), nullable=True),
        sa.Column("signals_sitemap", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_feed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_ping", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_websub", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("magnitude", sa.Double(), nullable=True),
        sa.Column("predicted", sa.Double(), nullable=True),
        sa.Column("conditional", sa.Boolean(), nullable=False),
        sa.Column("audit", sa.Boolean(), nullable=False),
        sa.Column("reverted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["page_id"],
            ["pages.id"],
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawls")),
    )
    op.create_index(
        "ix_crawls_audit",
        "crawls",
        ["at"],
        unique=False,
        sqlite_where=sa.text("audit"),
        postgresql_where=sa.text("audit"),
    )
    op.create_index(op.f("ix_crawls_page_id_id"), "crawls", ["page_id", "id"], unique=False)
    op.create_table(
        "estimates",
        sa.Column("page_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("shape", sa.Double(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=False),
        sa.Column("kappa_sitemap", sa.Double(), nullable=False),
        sa.Column("kappa_feed", sa.Double(), nullable=False),
        sa.Column("kappa_ping", sa.Double(), nullable=False),
        sa.Column("kappa_websub", sa.Double(), nullable=False),
        sa.Column("gamma_sitemap", sa.Double(), nullable=False),
        sa.Column("gamma_feed", sa.Double(), nullable=False),
        sa.Column("gamma_ping", sa.Double(), nullable=False),
        sa.Column("gamma_websub", sa.Double(), nullable=False),
        sa.Column("alpha_se", sa.Double(), nullable=True),
        sa.Column("kappa_se_sitemap", sa.Double(), nullable=True),
        sa.Column("kappa_se_feed", sa.Double(), nullable=True),
        sa.Column("kappa_se_ping", sa.Double(), nullable=True),
        sa.Column("kappa_se_websub", sa.Double(), nullable=True),
        sa.Column("crawls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("changes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_sitemap", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_feed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_ping", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("signals_websub", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["page_id"],
            ["pages.id"],
        ),
        sa.PrimaryKeyConstraint("page_id", name=op.f("pk_estimates")),
    )
    op.create_table(
        "signals",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("page_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("claimed_at", sa.Double(), nullable=True),
        sa.Column("stale", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["page_id"],
            ["pages.id"],
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signals")),
    )
    op.create_index(op.f("ix_signals_page_id_id"), "signals", ["page_id", "id"], unique=False)
    op.create_table(
        "versions",
        sa.Column("page_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("fetched_at", sa.Double(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=True),
        sa.Column("blocks", sa.LargeBinary(), nullable=False),
        sa.Column("etag", sa.LargeBinary(), nullable=True),
        sa.Column("last_modified", sa.LargeBinary(), nullable=True),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("volatile", sa.LargeBinary(), nullable=False),
        sa.Column("streak", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("seen", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["page_id"],
            ["pages.id"],
        ),
        sa.PrimaryKeyConstraint("page_id", name=op.f("pk_versions")),
    )


def downgrade() -> None:
    for table in (
        "versions",
        "signals",
        "estimates",
        "crawls",
        "bodies",
        "signal_counts",
        "pages",
        "sources",
        "settings_changes",
        "settings",
        "hosts",
        "freshness_history",
        "calibration_days",
    ):
        op.drop_table(table)
