"""Alembic migrations of the database, applied by the daemon at start."""
