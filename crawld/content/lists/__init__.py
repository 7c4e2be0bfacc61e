"""Files that list URLs: sitemaps, feeds and the operator's own list, with the dates they claim."""
