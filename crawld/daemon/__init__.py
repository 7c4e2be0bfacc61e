"""The driver that crawls: slots, fetches, learning, and a clean stop."""
