"""The HTTP API: the control socket, the listener, and version 1 as one table of endpoints."""
