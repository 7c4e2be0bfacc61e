"""What came of something pushed to us: what to answer, and what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.model.fetched import Purpose, Request
from crawld.model.signal import Signal
from crawld.model.url import host_of


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """A key that has to be fetched before the pings signed with it count."""

    host: str
    key: str
    location: str

    @property
    def request(self) -> Request:
        """The request that settles it."""
        return Request(self.location, host_of(self.location), Purpose.PING, max_bytes=1024)


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """What to answer, which signals came of it, which key to check first, and what others may know more of."""

    status: int
    body: Mapping[str, Any]
    signals: Sequence[Signal] = ()
    check: KeyCheck | None = None
    unknown: Sequence[tuple[str, float | None]] = ()  # URLs of pages that are not held here, and the times they claim
