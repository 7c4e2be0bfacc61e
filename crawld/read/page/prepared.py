"""What comparing a page needs of its texts, taken from them where they are: in the process that read them."""

from collections.abc import Mapping
from dataclasses import dataclass

from crawld.model.crawl import Place
from crawld.read.change.hunks import Hunk


@dataclass(frozen=True, slots=True)
class Walked:
    """What was found when the places of the page were gone through, whatever the frame of its host says."""

    found: tuple[tuple[Place, range], ...]
    explained: tuple[tuple[range, range], ...]
    differences: tuple[Hunk, ...]
    places: tuple[Place, ...]
    """What to remember of places where none of the differences is the frame's."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Stands for the texts of a page, which can be large."""

    letters: tuple[int, ...]
    """How long the text of each block is."""
    count: int
    """About how many words the page has."""
    words: Mapping[int, tuple[int, ...]]
    """The words of those blocks that comparing takes apart, by index."""
    walked: Walked | None = None
    """None where there was nothing to compare with."""
