"""Several workers on one PostgreSQL that are one crawler (docs/fleet.md). Nothing outside imports it."""
