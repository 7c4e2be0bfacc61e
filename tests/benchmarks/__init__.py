"""Benchmarks in short forms: each is run as a command, and its arithmetic is tested."""
