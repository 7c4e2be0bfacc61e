"""The contract of whoever chooses the page for a slot."""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.valuation import Beliefs, Floats

if TYPE_CHECKING:
    from crawld.scheduler.columns import Columns

Ints = NDArray[np.int64]


class Chooser(Protocol):
    """Chooses one page per slot; `pick` holds a page, `settle` or `release` gives it back.

    Pages are rows: small integers handed out by `add`, reused after `retire`. Times are UTC seconds. Every order has
    its ties broken by the lower row. Among the pages that may be asked now (not held, host ready, `not_before` and the
    minimum interval passed), those never crawled come first, by importance; then those waiting longer than the
    maximum interval, the longest overdue first; then the page of the highest crawl value, if that is above zero.
    """

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages (`last` is nan where never crawled) and return their rows."""

    def retire(self, rows: Ints) -> None:
        """Forget pages; the row of a held one is reused only after it is given back."""

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now, None if there is none."""

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page, whatever its value (an audit, a second look); False if it is held already."""

    def settle(self, row: int, now: float) -> None:
        """Give back a held page that was crawled with success: its copy is as of now, its boost 0."""

    def release(self, row: int, not_before: float = -np.inf) -> None:
        """Give back a held page as it was; with `not_before`, after an attempt that failed."""

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added since the last successful crawl."""

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages; `last`, where given, is when the value takes the copy to be from."""

    def held(self, row: int) -> bool:
        """Whether the page is out being crawled."""

    def waits_until(self, row: int) -> float:
        """The time before which the page is not picked, whatever its value."""

    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""

    def expected_at(self, row: int, now: float) -> float:
        """When a page that is not held will be picked if nothing changes (its host aside): never before now."""

    @property
    def pages(self) -> "Columns":
        """The state of every page, to read."""

    @property
    def level(self) -> float:
        """The crawl value of what is being picked by its value now, 0 before the first such pick."""

    @property
    def active(self) -> int:
        """How many pages the choice is being made among."""

    @property
    def evaluations(self) -> int:
        """How many crawl values have been evaluated so far."""

    @property
    def picks(self) -> int:
        """How many pages have been picked so far."""
