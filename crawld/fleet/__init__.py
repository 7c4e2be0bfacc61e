"""Several workers on one PostgreSQL that are one crawler (docs/fleet.md). Front door: `worker.py`."""
