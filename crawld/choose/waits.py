"""When hosts that were forgotten may be asked again, in a table of fixed size.

A host's wait is kept under the hash of its name. Where two hosts share a place the longer wait counts for both: no wait
is ever forgotten, and an innocent host that turns up anew may wait for another.
"""

from array import array

PLACES = 1 << 17
"""Hosts whose waits are kept apart, in 1 MB; at a million waiting at once every new host waits for one of them."""


class Waits:
    """Times by name, never too early."""

    def __init__(self) -> None:
        self._until: array[float] | None = None  # made when first needed

    def remember(self, name: str, until: float) -> None:
        """Let a host that comes back wait until then."""
        if self._until is None:
            self._until = array("d", [float("-inf")]) * PLACES
        place = hash(name) % PLACES
        self._until[place] = max(self._until[place], until)

    def until(self, name: str) -> float:
        """The time before which a host may not be asked, -inf if there is none."""
        return float("-inf") if self._until is None else self._until[hash(name) % PLACES]
