"""Frozen values, errors and the clock: the nouns that every other package speaks of."""
