"""Hints that pages changed: sitemaps, feeds, pings, WebSub; from where they are found to the raised value."""
