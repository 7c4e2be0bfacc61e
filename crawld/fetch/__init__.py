"""One guarded HTTP request at a time."""
