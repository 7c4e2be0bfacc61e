"""Moments a fixed time apart: what happens at them does not drift, however long it takes."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """Every `spacing` seconds from `start` on."""

    start: float
    spacing: float

    def after(self, now: float) -> float:
        """The first moment after `now`."""
        return self.start + (math.floor((now - self.start) / self.spacing) + 1) * self.spacing
