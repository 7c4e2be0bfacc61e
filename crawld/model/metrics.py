"""What is told to a monitoring system: families of figures, each with its name, meaning and samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class FamilyKind(StrEnum):
    """How the figures of a family behave."""

    COUNTER = "counter"  # only grows, from 0 at the start
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name; a counter's name has no `_total` here. Labels have few values, all known beforehand."""

    name: str
    kind: FamilyKind
    meaning: str
    samples: Mapping[tuple[str, ...], float | None]  # by the values of the labels; None is left out
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often a length of time was at most so many seconds, by bound, in rising order and up to infinity."""

    name: str
    meaning: str
    at_most: Sequence[tuple[float, int]]
    total: float


@dataclass(frozen=True, slots=True)
class HookStanding:
    """How a hook stands."""

    name: str
    waiting: int
    waiting_since: float | None
    delivered: int
    dropped: int
    failed: int  # sendings, since the start
    trouble: str | None = None  # why the last sending failed, None where it did not
    trouble_since: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that is told at one moment."""

    families: Sequence[Family]
    distributions: Sequence[Distribution] = field(default=())


class Metrics(Protocol):
    """Source of the daemon's figures."""

    async def figures(self) -> Figures:
        """The figures as they are now; what is costly is computed beside the event loop."""
