"""The settings: every name, type and default in one place."""
