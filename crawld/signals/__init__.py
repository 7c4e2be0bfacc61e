"""Hints that pages changed: sitemaps, feeds, pings."""
