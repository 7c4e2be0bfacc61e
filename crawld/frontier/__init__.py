"""The exact best page for a slot. Front door: `frontier.py`, behind the contract of `chooser.py`.

Nouns: a *row*, the number of a page in the *page table*; the *gate*, which says when a host may be asked; *due* pages,
which come before all valued ones; the *level*, the crawl value of what is being picked; a *candidate*, a page whose
value may reach the level before the *horizon*; a *bound*, which keeps every other page below the level; the *scan*,
which evaluates every page and is what the frontier is tested against.

Invariants: `pick` holds a page until `settle` or `release` gives it back; every pick is the scan's; a bounded page is
below the level until the horizon. No verb awaits, and time is an argument.
"""
