"""Recorded and drawn sites replayed in simulated time, and who crawls them."""
