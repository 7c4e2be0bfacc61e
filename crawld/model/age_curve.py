"""An age curve: how much older the copies of a host's pages are than plain time says, by the host's clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

STEPS = 64
WIDTH = 14  # characters of each number of a packed curve


@dataclass(frozen=True, slots=True)
class AgeCurve:
    """A copy made at `first` + i · `step` is `extra[i]` seconds older than plain time says (younger, where negative).

    There are STEPS + 1 values; in between they are linear, outside constant. The last is 0: a copy made since the curve
    was drawn ages by plain time. They are packed in WIDTH characters each, so that SQL finds the i-th with substr: the
    database and the scheduler compute with the same rounded numbers.
    """

    first: float
    step: float
    packed: str

    @classmethod
    def of(cls, first: float, step: float, extra: Sequence[float]) -> Self:
        """A curve of these numbers, rounded to seven digits."""
        return cls(first, step, "".join([f"{seconds:{WIDTH}.6e}" for seconds in extra]))

    @property
    def extra(self) -> tuple[float, ...]:
        """The numbers."""
        return tuple(float(self.packed[at : at + WIDTH]) for at in range(0, len(self.packed), WIDTH))
