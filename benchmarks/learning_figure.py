"""One row of what learning reaches, and how it is told."""

import sys
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One row of the report."""

    name: str
    target: str
    measured: float
    reached: bool | None  # None where no target is set
    detail: str = ""


def progress(line: str) -> None:
    """Say on stderr what has been done."""
    print(f"  {line}", file=sys.stderr, flush=True)


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean of independent values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
