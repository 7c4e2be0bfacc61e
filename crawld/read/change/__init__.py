"""Two versions of a page to a verdict: what changed, what varies by itself, what is the site's frame.

Front door: `comparison.py`.
"""
