"""What people and programs do to a crawl."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody did: who, the verb, the sentence that tells it, and the action that undoes it, if one does."""

    id: int
    at: float
    who: str
    verb: str
    sentence: str
    undo: Mapping[str, Any] | None = None  # {"verb": …, "what": {…}}
    undone_at: float | None = None
    result: Any = field(default=None, compare=False)  # what came of it, told to whoever did it and not kept

    @property
    def undoable(self) -> bool:
        """Whether it can still be undone."""
        return self.undo is not None and self.undone_at is None


class ActionLog(Protocol):
    """Everything that people and programs do to a crawl: done, logged, kept, and undone."""

    async def act(self, who: str, verb: str, what: Mapping[str, Any]) -> Action:
        """Do something in somebody's name; InputError where it cannot be done.

        | verb | what | result |
        |---|---|---|
        | add | wanted: [[url, importance], …], origin (by hand unless given) | Adoption |
        | remove | urls | the URLs of pages that were here |
        | refresh | urls, wait (seconds) | a Refreshed for each |
        | host | host, and any of blocked, delay, drop_delay | Steered |
        | bandwidth | rate | None |
        | pause, resume | | None |
        | ignore | url, selectors, host (whether on all pages of the host) | the Marks made |
        | compare | marks (numbers) | None: these parts are compared again |
        | read | until (a change) | None: changes up to it were seen |
        """

    async def undo(self, who: str, number: int) -> Action:
        """Undo an action; InputError where it is unknown, cannot be undone or was undone already."""

    async def latest(self, limit: int = 100) -> Sequence[Action]:
        """The latest actions, newest first."""

    async def get(self, number: int) -> Action | None:
        """One action."""

    async def read_until(self) -> int:
        """The newest change that the operator has marked as read, 0 before the first mark."""
