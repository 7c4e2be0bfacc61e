"""Reading a database beside its daemon: reports, troubles and copies. Front door: `reader.py`."""
