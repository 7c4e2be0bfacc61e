"""Shares of the slots: polls and audits may take so much and no more."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotShares:
    """Parts of the slots that work other than planned crawls may take, and of crawls that go without conditions."""

    polls: float = 0.25
    audits: float = 0.01
    reads: float = 0.5
    unconditional: float = 0.02


class Share:
    """Grants at most `share` of all slots, spread evenly; what is not used is not saved up beyond one slot."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._credit = 0.0

    @staticmethod
    def tick(shares: "Iterable[Share]") -> None:
        """A slot came."""
        for share in shares:
            share._credit = min(share._credit + share.share, 1.0)

    @property
    def ready(self) -> bool:
        """Whether the next slot may be spent."""
        return self._credit >= 1.0 - 1e-9

    def spend(self, slots: int = 1) -> None:
        """So many slots were spent; what goes beyond the share is made up for before the next one."""
        self._credit -= slots

    def spend_if_ready(self) -> None:
        """The slot was spent on what this share covers, within it or because no page wanted it."""
        if self.ready:
            self.spend()
