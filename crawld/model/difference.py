"""The difference between two versions of a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Edit(StrEnum):
    """What became of a word or a block."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"  # of a block: some of its words


@dataclass(frozen=True, slots=True)
class Words:
    """A stretch of words with one fate."""

    edit: Edit
    text: str


@dataclass(frozen=True, slots=True)
class BlockEdit:
    """A block of text and what became of it."""

    edit: Edit
    words: Sequence[Words]
