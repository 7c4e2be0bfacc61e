"""Damaged files and files made to be slow, for every parser of foreign bytes."""
