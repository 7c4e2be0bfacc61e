"""The driver that simulates: the daemon's own scheduler in simulated time."""
