"""Measurements: each prints ratios taken in one run beside what a user would use instead."""

import argparse
import json
from collections.abc import Mapping


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns the options that every benchmark has: --help with its module's text, and --json."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def show(figures: Mapping[str, object], *, as_json: bool) -> None:
    """Print figures as JSON, or one a line for people."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):44} {value}")
