"""Version 1 of the HTTP API: one table of endpoints serves the listener, the control socket and the description."""
