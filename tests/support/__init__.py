"""Fixtures, servers and values that several test modules share."""
