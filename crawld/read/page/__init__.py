"""A page's bytes to the text that is compared. Front door: `digest.py`."""
