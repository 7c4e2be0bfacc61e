"""The one writer: what is recorded waits in a queue and is committed in batches. Front door: `writer.py`."""
