"""How large the house is: `python -m benchmarks.house [--json]` counts lines, files and folders.

Lines are physical lines, docstrings and blank lines included. The exact argmax and the values are all of
`crawld/value`, and `crawld/frontier` without the host gate, audits and bids. The walk is the section of
`docs/architecture.md` that names, in order, the files to open to follow one crawl.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

from benchmarks import show

ROOT = Path(__file__).parents[1]
OTHERS = {"politeness.py", "evidence.py", "waits.py", "weighted_draw.py", "bidding.py"}
"""Files of the frontier that serve the host gate, audits and bids in a fleet."""
SMELL = 400  # lines of one file
MOST = {"argmax_and_value_lines": 2_500, "files_in_the_largest_folder": 20, "files_of_the_walk": 15}
"""What each figure must not exceed (`tests/unit/test_house.py`)."""


def lines(path: Path) -> int:
    """How many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


def sources(folder: str = "crawld") -> list[Path]:
    """Every Python file below a folder of the project."""
    return sorted((ROOT / folder).rglob("*.py"))


def walk() -> list[str]:
    """The Python files that the walk through one crawl names, in order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if "walk" in section.partition("\n")[0].lower():
            return re.findall(r"`([\w/]+\.py)`", section)
    return []


def packages() -> dict[str, int]:
    """Lines per package, subpackages included; a module directly under crawld counts by its own name."""
    totals: Counter[str] = Counter()
    for path in sources():
        totals[path.relative_to(ROOT / "crawld").parts[0].removesuffix(".py")] += lines(path)
    return dict(totals.most_common())


def measure() -> dict[str, int]:
    """The figures that have a limit."""
    heart = sources("crawld/value") + [path for path in sources("crawld/frontier") if path.name not in OTHERS]
    folders = Counter(path.parent for path in sources())
    return {
        "argmax_and_value_lines": sum(map(lines, heart)),
        "files_in_the_largest_folder": max(folders.values()),
        "files_of_the_walk": len(set(walk())),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    long = {str(path.relative_to(ROOT)): lines(path) for path in sources() if lines(path) > SMELL}
    show(
        {**measure(), "lines_per_package": packages(), f"files_over_{SMELL}_lines": long},
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
