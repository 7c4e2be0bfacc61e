"""Measurements: each prints ratios taken in one run beside what a user would use instead."""
