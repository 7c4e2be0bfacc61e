"""What signals are worth, in the currency of crawl values: expected when they come, settled by the next crawl.

A signal that brings a crawl forward keeps the copy of a page that has changed fresh for the time between; a page of
importance μ and change rate Δ whose crawl comes `lead` seconds sooner gains (μ/Δ)(1 − e^(−Δ·lead)) fresh seconds
(docs/method.md, "The value of a poll"). When signals come, what they are expected to gain says how often it pays to
poll their file. When the page is crawled, what they did gain is added to the account of their host and source: against
a crawler that ignores signals and would have come when the value of a page without them reached the level.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crawld.interfaces import Store
from crawld.model.crawl import Crawl, Verdict
from crawld.model.signal import SOURCES, Signal, SignalGain, Source
from crawld.scheduler import Scheduler
from crawld.value.revisit import revisit_interval

CHANGED = frozenset({Verdict.CHANGED, Verdict.GONE})


@dataclass(frozen=True, slots=True)
class Expectation:
    """What signals of one moment promise: the importance shown to be stale, and fresh seconds by importance."""

    staleness: float = 0.0
    gain: float = 0.0

    def __add__(self, other: "Expectation") -> "Expectation":
        return Expectation(self.staleness + other.staleness, self.gain + other.gain)


class SignalGains:
    """Accounts by host and source, kept in the store; only the pages with heard signals are remembered here."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler, self._store = scheduler, store
        self._heard: dict[int, Source] = {}  # pages whose signals have raised their staleness since the last crawl

    def notice(self, signals: Sequence[Signal], now: float) -> Expectation:
        """Count signals, and return what those that are believed are expected to gain."""
        pages = {signal.page_id: signal.source for signal in signals}
        ids, fresh, planned, _ = self._scheduler.standings([*pages], now)
        for signal in signals:
            self._scheduler.notice(signal.page_id, SOURCES.index(signal.source))
        if not len(ids):
            return Expectation()
        _, fresh_now, planned_now, _ = self._scheduler.standings(ids.tolist(), now)
        stale = fresh - fresh_now
        total = Expectation()
        for at in np.flatnonzero(stale > 0).tolist():
            page_id = int(ids[at])
            self._heard[page_id] = pages[page_id]
            if not self._scheduler.held(page_id):
                rate = self._scheduler.change_rate_of(page_id)
                sooner = fresh_seconds(rate, planned[at] - now) - fresh_seconds(rate, planned_now[at] - now)
                weight = stale[at] * self._scheduler.weight_of(page_id)
                total += Expectation(float(weight), float(weight * max(sooner, 0.0)))
        if len(self._heard) > 2 * len(self._scheduler):  # pages have been retired since their signals came
            self._heard = {page: source for page, source in self._heard.items() if page in self._scheduler}
        return total

    def settle(self, host: str, crawl: Crawl, last: float) -> None:
        """Add what the signals before a successful crawl gained to their account; call it before the page settles."""
        source = self._heard.pop(crawl.page_id, None)
        level = self._scheduler.chooser.level
        if source is None or math.isnan(last) or level <= 0:
            return
        weight = self._scheduler.weight_of(crawl.page_id)
        rate = self._scheduler.change_rate_of(crawl.page_id)
        unaided = revisit_interval(rate, weight, level)
        lead = max(last + unaided - crawl.at, 0.0)
        brought_forward = 1.0 if math.isinf(unaided) else lead / unaided
        gain = weight * fresh_seconds(rate, lead) if crawl.verdict in CHANGED else 0.0
        confirmed = int(crawl.verdict in CHANGED)
        self._store.record_signal_gain(
            SignalGain(host, source, confirmed, 1 - confirmed, gain, gain / level - brought_forward)
        )


def fresh_seconds(rate: float, seconds: float) -> float:
    """The expected time in which a copy made now stays fresh, of the next `seconds`."""
    return seconds if rate <= 0 else -math.expm1(-rate * seconds) / rate
