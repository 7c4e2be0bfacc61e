"""The site that a browser shows: what is kept, how fresh it is, why, and what more bandwidth would buy.

Front door: `site.py`, the only module here that knows HTTP. Each view is a module with a `show` function that asks the
read model and the daemon and returns a `View`: a template with what it needs. `rendering.py` makes HTML of it, in a
thread, so that a large page does not hold up a slot.
"""
