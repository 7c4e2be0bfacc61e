"""Bytes to facts, pure: digests of pages, headers, robots.txt, sitemaps, feeds."""
