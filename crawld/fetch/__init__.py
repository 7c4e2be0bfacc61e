"""The door to the web: one guarded HTTP request at a time."""
