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
    was drawn ages by plain time. The database and the scheduler compute with the same rounded numbers.
    """

    first: float
    step: float
    extra: tuple[float, ...]

    @classmethod
    def of(cls, first: float, step: float, extra: Sequence[float]) -> Self:
        """A curve of these numbers as they can be packed."""
        return cls.unpack(first, step, _pack(extra))

    @classmethod
    def unpack(cls, first: float, step: float, packed: str) -> Self:
        """The inverse of `packed`."""
        return cls(first, step, tuple(float(packed[at : at + WIDTH]) for at in range(0, len(packed), WIDTH)))

    @property
    def packed(self) -> str:
        """The values of `extra`, each WIDTH characters wide, so that SQL finds the i-th with substr."""
        return _pack(self.extra)


def _pack(extra: Sequence[float]) -> str:
    return "".join(f"{seconds:{WIDTH}.6e}" for seconds in extra)
