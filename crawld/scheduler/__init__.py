"""Decisions, pure numpy: crawl values, allocations, estimates, the frontier and the host gate."""
