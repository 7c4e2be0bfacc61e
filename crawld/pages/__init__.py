"""The pages that are kept: the list, discovery by links, demand, aliases, and the pages in memory."""
