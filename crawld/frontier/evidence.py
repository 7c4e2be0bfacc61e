"""Tells the trouble of single pages from the trouble of their host.

One failing page says little about its host. A host is taken to be in trouble when several different URLs have failed
since it last answered well. A URL that failed before while the host went on answering is known to be bad on its own
account: it does not count again while the host answers.
"""

from typing import NamedTuple

ENOUGH = 3
"""Different URLs that must fail without a success between them before the host is blamed."""
STILL_WELL = 60.0
"""For so many seconds after a success, a URL known to be bad says nothing new about its host."""
MOST_KNOWN_BAD = 100
"""Bad URLs remembered per host; the oldest are forgotten first."""


class Evidence(NamedTuple):
    """What one finished request says about its host. One is made for every request: a tuple is the cheapest form."""

    url: str
    began: float  # when the request was sent
    well: bool | None  # True: it answered; False: it failed as a host in trouble does; None: that says nothing
    seconds: float = 0.0  # how long the answer took
    retry_after: float | None = None
    enough: int = ENOUGH  # different failing URLs that make it the host's trouble: fewer where the host has fewer pages


class Suspicions:
    """The URLs that failed, by host."""

    def __init__(self) -> None:
        self._well_at: dict[int, float] = {}  # the last success
        self._failed: dict[int, set[str]] = {}  # since the last success
        self._known_bad: dict[int, dict[str, None]] = {}

    def convicts(self, host: int, evidence: Evidence, now: float) -> bool:
        """Count a failure; True if the host itself must be in trouble."""
        well_at = self._well_at.get(host)
        if well_at is not None:
            if evidence.began < well_at:
                return False  # the host has answered since this request left
            if now - well_at < STILL_WELL and evidence.url in self._known_bad.get(host, ()):
                return False
        failed = self._failed.setdefault(host, set())
        failed.add(evidence.url)
        return len(failed) >= evidence.enough

    def acquit(self, host: int, url: str, now: float, *, outage: bool) -> None:
        """Count a success: what failed before it was bad on its own account, unless it failed in an outage."""
        self._well_at[host] = now
        failed, known_bad = self._failed.pop(host, None), self._known_bad.get(host)
        if outage:
            self._known_bad.pop(host, None)
            return
        if failed:
            if known_bad is None:
                known_bad = self._known_bad[host] = {}
            known_bad.update(dict.fromkeys(failed))
            while len(known_bad) > MOST_KNOWN_BAD:
                del known_bad[next(iter(known_bad))]
        if known_bad is not None:
            known_bad.pop(url, None)
            if not known_bad:
                del self._known_bad[host]

    def forget(self, host: int) -> None:
        """Start from the beginning with a host."""
        self._failed.pop(host, None)
        self._known_bad.pop(host, None)
