"""Pushed pings to signals. Framework-free: what was read (`pings.py`, in a worker) in, status and JSON out.

`POST /signals` takes a JSON list whose items are URLs or `{"url": …, "at": …}`; `at` is when the page changed, in UTC
seconds or as a date. IndexNow is taken as its site plug-ins send it: `GET ?url=…&key=…` or a POST of
`{"host": …, "key": …, "urlList": […]}`. A key is believed once the host itself serves it. Anyone can send one, so only
hosts of which we hold a page are asked, for one key at a time, and not for an hour after a few denials, whatever the
key; and every submission that can be read gets the same answer, which says nothing about what we hold.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crawld.model.fetched import Fetched, Outcome
from crawld.model.signal import KeyCheck, PushAnswer, Signal, Source
from crawld.model.url import host_of_target
from crawld.signals.pings import LIMITS as PINGS_LIMITS
from crawld.signals.pings import Ping, read_indexnow, read_indexnow_query, read_signals
from crawld.signals.poll_signals import LIMITS as POLL_SIGNALS_LIMITS
from crawld.signals.poll_signals import Keys, Known, Slices, at_once


@dataclass(frozen=True)
class PushInboxLimits:
    """Numbers that bound and tune this module."""

    max_named: int = 20  # unknown URLs named in an answer
    max_pending: int = 100  # hosts of which a key is being checked
    max_keys: int = 10_000
    key_holds: float = 86_400.0
    denial_holds: float = 3_600.0
    max_denials: int = 3
    """Keys that a host denies in a row before no new one is checked for as long as a denial holds."""
    max_key_file: int = 1_000  # bytes: a key has 128 at most


LIMITS = PushInboxLimits()


@dataclass(slots=True)
class PushInbox:
    """Takes pings for pages we hold."""

    known: Known
    _keys: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)  # verdict, and until when it holds
    pending: dict[str, tuple[KeyCheck, Keys]] = field(default_factory=dict)  # by host
    _denials: dict[str, tuple[int, float]] = field(default_factory=dict)  # by host: how many in a row, the latest

    @property
    def read_signals(self) -> Callable[[bytes, float], Ping | PushAnswer]:
        """Reads the body of a `POST /signals`."""
        return read_signals

    @property
    def read_indexnow(self) -> Callable[[bytes], Ping | PushAnswer]:
        """Reads the body of an IndexNow POST."""
        return read_indexnow

    def get_indexnow(self, query: Mapping[str, str], now: float) -> PushAnswer:
        """IndexNow's GET: one URL and its key."""
        return at_once(self.take(read_indexnow_query(query), now))

    def take(self, ping: Ping | PushAnswer, now: float) -> Slices[PushAnswer]:
        """Take in a ping that was read; one that was refused keeps its answer."""
        if isinstance(ping, PushAnswer):
            return ping
        if ping.check is not None:
            return (yield from self._judged(ping, ping.check, now))
        return (yield from self._answer(ping, now))

    def _answer(self, ping: Ping, now: float) -> Slices[PushAnswer]:
        signals, known = yield from self._signals(ping, now)
        answer: dict[str, Any] = {"signals": sum(not s.stale for s in signals), "stale": sum(s.stale for s in signals)}
        unknown = np.flatnonzero(~known)
        answer["unknown"] = len(unknown)
        elsewhere: list[tuple[str, float | None]] = []
        if len(unknown):
            urls = ping.urls.split("\n")
            answer["unknown_urls"] = [urls[i] for i in unknown[: LIMITS.max_named].tolist()]
            claimed = ping.at[unknown].tolist()
            elsewhere = [
                (urls[i], None if math.isnan(at) else at) for i, at in zip(unknown.tolist(), claimed, strict=True)
            ]
        if ping.errors:
            answer["errors"] = list(ping.errors)
        return PushAnswer(400 if ping.errors and not len(ping.keys) else 200, answer, signals, unknown=elsewhere)

    def _signals(self, ping: Ping, now: float) -> Slices[tuple[list[Signal], np.ndarray[Any, np.dtype[np.bool_]]]]:
        """Returns a signal for each page that is kept, by the same rules as for polls, and which URLs are ours."""
        positions, ids = self.known.pages.find(ping.keys)
        signals: list[Signal] = []
        for number, (position, page_id) in enumerate(zip(positions.tolist(), ids.tolist(), strict=True)):
            if number % POLL_SIGNALS_LIMITS.judged_at_once == 0:
                yield
            last = self.known.last_success(page_id)
            if math.isnan(last) or now - last < self.known.delay:
                continue
            at, stale = float(ping.at[position]), bool(ping.until[position] <= last)  # nan is not
            signals.append(Signal(page_id, Source.PING, now, None if math.isnan(at) else at, stale))
        known = np.zeros(len(ping.keys), dtype=bool)
        known[positions] = True
        return signals, known

    def _judged(self, ping: Ping, check: KeyCheck, now: float) -> Slices[PushAnswer]:
        accepted = PushAnswer(202, {"accepted": len(ping.keys)})
        if not len(self.known.pages.find(ping.keys)[1]):
            return accepted
        proved, until = self._keys.get((check.location, check.key), (False, -math.inf))
        if now < until:
            if not proved:
                return accepted
            answer = yield from self._answer(ping, now)
            return replace(accepted, signals=answer.signals, unknown=answer.unknown)
        pending, waiting = self.pending.get(check.host, (check, None))
        if pending != check or (waiting is None and not self._may_check(check.host, now, proved=proved)):
            return accepted
        known = np.union1d(ping.keys, waiting) if waiting is not None else ping.keys
        self.pending[check.host] = (check, known[: PINGS_LIMITS.max_urls])
        return replace(accepted, check=check if waiting is None else None)

    def _may_check(self, host: str, now: float, *, proved: bool) -> bool:
        """Tells whether the host may be asked for a key: a new one unless it denied many, one it served always."""
        denials, at = self._denials.get(host, (0, -math.inf))
        paused = denials >= LIMITS.max_denials and now < at + LIMITS.denial_holds
        return len(self.pending) < LIMITS.max_pending and (proved or not paused)

    def key_checked(self, check: KeyCheck, outcome: Outcome, now: float) -> Sequence[Signal]:
        """Take over what asking the host for the key brought: the signals that waited for it, if it vouches.

        An answer of another host vouches for nothing, whatever redirect led there.
        """
        _, keys = self.pending.pop(check.host, (check, None))
        valid = (
            isinstance(outcome, Fetched)
            and outcome.status == 200
            and host_of_target(outcome.url) == check.host
            and outcome.body[: LIMITS.max_key_file].decode("utf-8-sig", "replace").strip() == check.key
        )
        for known in (self._keys, self._denials):
            if len(known) >= LIMITS.max_keys:
                known.clear()
        denials, at = self._denials.pop(check.host, (0, now))
        if not valid:
            self._denials[check.host] = ((0 if now >= at + LIMITS.denial_holds else denials) + 1, now)
        self._keys[check.location, check.key] = (valid, now + (LIMITS.key_holds if valid else LIMITS.denial_holds))
        return at_once(self._signals(Ping.of_keys(keys), now))[0] if valid and keys is not None else []
