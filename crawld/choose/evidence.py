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
MOST_KNOWN_BAD_IN_ALL = 200_000
"""Bad URLs remembered of all hosts, some 20 MB; beyond it they are forgotten of the host where one was found least
recently."""


class Evidence(NamedTuple):
    """What one finished request says about its host. One is made for every request: a tuple is the cheapest form."""

    url: str
    began: float  # when the request was sent
    well: bool | None  # True: it answered; False: it failed as a host in trouble does; None: that says nothing
    seconds: float = 0.0  # how long the answer took
    retry_after: float | None = None
    enough: int = ENOUGH  # different failing URLs that make it the host's trouble: fewer where the host has fewer pages
    least_wait: float = 0.0  # seconds of the first back-off; doubles with each probe


class Suspicions:
    """The URLs that failed, by host."""

    def __init__(self) -> None:
        self._well_at: dict[int, float] = {}  # the last success
        # URLs by their hashes: they are foreign text of any length, and many.
        self._failed: dict[int, set[int]] = {}  # since the last success
        self._known_bad: dict[int, dict[int, None]] = {}  # the host where one was found least recently first
        self._count = 0  # of those known to be bad

    def convicts(self, host: int, evidence: Evidence, now: float) -> bool:
        """Count a failure; True if the host itself must be in trouble."""
        well_at = self._well_at.get(host)
        if well_at is not None:
            if evidence.began < well_at:
                return False  # the host has answered since this request left
            if now - well_at < STILL_WELL and hash(evidence.url) in self._known_bad.get(host, ()):
                return False
        failed = self._failed.setdefault(host, set())
        failed.add(hash(evidence.url))
        return len(failed) >= evidence.enough

    def acquit(self, host: int, url: str, now: float, *, outage: bool) -> None:
        """Count a success: what failed before it was bad on its own account, unless it failed in an outage."""
        self._well_at[host] = now
        failed, known_bad = self._failed.pop(host, None), self._take_known_bad(host)
        if outage or not (failed or known_bad):
            return
        known_bad.update(dict.fromkeys(failed or ()))
        known_bad.pop(hash(url), None)
        while len(known_bad) > MOST_KNOWN_BAD:
            del known_bad[next(iter(known_bad))]
        if known_bad:
            self._known_bad[host] = known_bad
            self._count += len(known_bad)
        while self._count > MOST_KNOWN_BAD_IN_ALL:
            self._take_known_bad(next(iter(self._known_bad)))

    def forget(self, host: int, *, wholly: bool = False) -> None:
        """Start from the beginning with a host; `wholly` if even that it answered is to be forgotten."""
        self._failed.pop(host, None)
        self._take_known_bad(host)
        if wholly:
            self._well_at.pop(host, None)

    def _take_known_bad(self, host: int) -> dict[int, None]:
        """What is known to be bad of a host, taken out."""
        known_bad = self._known_bad.pop(host, {})
        self._count -= len(known_bad)
        return known_bad
