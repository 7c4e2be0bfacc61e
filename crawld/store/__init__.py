"""The only package that knows SQL: one file per noun, with its writes and reads. Front door: `store.py`.

Queued things are folded into a `Batch`, written by a few bulk statements in one transaction, and forgotten; everything
else reads committed rows over connections of its own.
"""
