"""The best page for a slot: scheduler, frontier and its scan, crawl values, host gate, pacer, forecast. Pure.

Nouns: a *row*, the number of a page in the *page table*; the *gate*, which says when a host may be asked; *due* pages,
which come before all valued ones; the *level*, the crawl value of what is being picked; a *candidate*, a page whose
value may reach the level before the *horizon*; a *bound*, which keeps every other page below the level; the *scan*,
which evaluates every page and is what the frontier is tested against; a *valuation*, one policy's way to value pages.

Invariants: `pick` holds a page until `settle` or `release` gives it back; every pick is the scan's; no value falls with
time or with signals; V is good to 1e-13, and arrays and their scalar twins agree to 1e-12. No verb awaits, and time is
an argument.
"""
