"""crawld keeps a local copy of a list of web pages fresh within a fixed request rate."""

__version__ = "0.2.0"
