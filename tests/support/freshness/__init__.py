"""Worlds, runs and summaries of the comparison with other crawlers."""
