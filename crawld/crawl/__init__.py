"""A slot becomes a crawl: pick, admit, send, read, judge, record, settle. Front door: `loop.py`."""
