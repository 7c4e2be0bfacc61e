"""Foreign bytes to facts, bounded in time and memory: pages, changes, sitemaps, feeds, robots.txt. Pure."""
