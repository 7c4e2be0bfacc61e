"""Attacks on a daemon: what hostile sites serve and push, and what is measured beside them."""
