"""Nouns: frozen values that every other package speaks of."""
