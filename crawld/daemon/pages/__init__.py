"""Which pages are kept fresh: the URL list, discovery, demand, and the pages in memory."""
