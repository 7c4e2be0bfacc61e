"""A fleet in simulated time: its world, and its workers with the daemon's own parts."""
