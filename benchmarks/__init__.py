"""Measurements: each prints ratios taken in one run beside what a user would use instead."""

import json
from collections.abc import Mapping


def show(figures: Mapping[str, object], *, as_json: bool) -> None:
    """Print figures as JSON, or one a line for people."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):44} {value}")
