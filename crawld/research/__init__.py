"""Worlds, the papers' policies, peers' rules, experiments and the lab. Nothing outside imports it."""
