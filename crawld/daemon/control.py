"""Steering while running: each change takes effect from the next slot and is kept over a restart."""

import math
from collections.abc import Awaitable, Callable, Sequence

from crawld.daemon.crawler import Crawler
from crawld.daemon.pages import Pages
from crawld.daemon.roster import Roster
from crawld.interfaces import Adoption, Clock, Store
from crawld.model.host import HostState
from crawld.model.page import BY_HAND, Wanted
from crawld.model.signal import SOURCES
from crawld.model.slot import format_rate, parse_rate
from crawld.scheduler.politeness import HostGate, NotReady
from crawld.scheduler.scheduler import Scheduler

BANDWIDTH, PAUSED = "bandwidth", "paused"
_HOST_REASONS = {
    NotReady.BLOCKED: "its host is blocked by the operator",
    NotReady.ASKED_TO_WAIT: "its host asked us to wait (Retry-After); free in {wait:.0f} s",
    NotReady.BACKING_OFF: "its host backs off because several of its pages failed; asked again in {wait:.0f} s",
    NotReady.BUSY: "as many requests to its host are under way as politeness.per_host allows",
    NotReady.SPACING: "its host was asked a moment ago and is given time between requests",
}


class Steering:
    """Implements `interfaces.Control` over the daemon's parts."""

    def __init__(
        self,
        crawler: Crawler,
        scheduler: Scheduler,
        gate: HostGate,
        pages: Pages,
        roster: Roster,
        store: Store,
        clock: Clock,
    ) -> None:
        self._crawler, self._scheduler, self._gate = crawler, scheduler, gate
        self._pages, self._roster, self._store, self._clock = pages, roster, store, clock
        self._rate = crawler.status.bandwidth
        self._paused = False
        self.on_reload: Callable[[], Awaitable[str]] | None = None

    async def restore(self, configured: float, *, insist: bool) -> None:
        """Take over what was steered before a restart; with `insist` the configured bandwidth wins and is kept."""
        kept = None if insist else await self._store.setting(BANDWIDTH)
        self._rate = configured if kept is None else parse_rate(float(kept))
        if insist:
            await self._store.change_setting(BANDWIDTH, None, now=self._clock.now())
        self._paused = await self._store.setting(PAUSED) == "yes"
        self._apply()

    def status(self) -> dict[str, object]:
        """What the daemon is doing now."""
        status, now = self._crawler.status, self._clock.now()
        measured = self._crawler.audits.measured()
        chooser = self._scheduler.chooser
        return {
            "pages": len(self._scheduler),
            "bandwidth": self._rate,
            "paused": self._paused,
            "requests": status.requests,
            "requests_by_purpose": dict(status.by_purpose),
            "verdicts": dict(status.verdicts),
            "troubles": dict(status.troubles),
            "in_flight": status.in_flight,
            "idle_slots": status.idle_slots,
            "skipped_slots": status.skipped_slots,
            "bytes": status.bytes,
            "uptime_seconds": now - status.started_at,
            "predicted_freshness": self._scheduler.predicted_freshness(now),
            "measured_freshness": None
            if measured is None
            else dict(zip(("mean", "low", "high"), measured, strict=True)),
            "level": chooser.level,
            "active_pages": chooser.active,
            "evaluations": chooser.evaluations,
            "picks": chooser.picks,
        }

    async def change_bandwidth(self, rate: float) -> None:
        """Let so many requests a second leave from the next slot on."""
        self._rate = rate
        self._apply()
        await self._store.change_setting(BANDWIDTH, repr(rate), now=self._clock.now())

    async def pause(self, *, paused: bool) -> None:
        """Stand still, or go on."""
        self._paused = paused
        self._apply()
        await self._store.change_setting(PAUSED, "yes" if paused else None, now=self._clock.now())

    def _apply(self) -> None:
        self._crawler.change_bandwidth(0.0 if self._paused else self._rate)

    async def steer_host(self, name: str, *, blocked: bool | None = None, delay: float | None = None) -> HostState:
        """Block or unblock a host, or give it a spacing of its own."""
        host = self._gate.host(name)
        if delay is not None:
            self._gate.set_delay(host, delay)
        if blocked is not None:
            (self._gate.block if blocked else self._gate.unblock)(host)
        state = self._gate.export(host)
        self._store.record_host(state)
        return state

    async def add_pages(self, wanted: Sequence[Wanted]) -> Adoption:
        """Take further pages in beside the list."""
        return await self._roster.adopt(wanted, origin=BY_HAND, now=self._clock.now(), complete=False)

    async def remove_pages(self, urls: Sequence[str]) -> Sequence[str]:
        """Retire pages, whoever listed them."""
        return await self._roster.retire(urls, now=self._clock.now())

    def explain(self, page_id: int) -> dict[str, object] | None:
        """What is held in memory of a page and why it is not crawled just now."""
        page, standing = self._pages.get(page_id), self._scheduler.standing(page_id)
        if page is None or standing is None:
            return None
        now, host = self._clock.now(), self._gate.host(page.host)
        seen = not math.isnan(standing.last)
        return {
            "url": page.url,
            "host": page.host,
            "importance": standing.importance,
            "last_crawl_at": standing.last if seen else None,
            "signals_since": dict(zip(SOURCES, standing.signals, strict=True)),
            "freshness": self._scheduler.freshness_of(page.id, now),
            "value": self._scheduler.value_of(page.id, now) if seen else None,
            "level": self._scheduler.chooser.level,
            "host_ready_in_seconds": _finite(max(0.0, float(self._gate.ready_at[host]) - now)),
            "expected_in_seconds": self._expected_in(page.id, host, now),
            "why_not_now": self._why_not(page.id, host, now),
        }

    def _expected_in(self, page_id: int, host: int, now: float) -> float | None:
        """How long until the page is crawled if the level stays and no signal comes; None while that is never."""
        if self._paused or self._rate == 0:
            return None
        if self._scheduler.held(page_id):
            return 0.0
        at = max(self._scheduler.expected_at(page_id, now), float(self._gate.earliest[host]))
        return at - now if math.isfinite(at) else None

    def _why_not(self, page_id: int, host: int, now: float) -> str:
        if self._paused:
            return "crawld is paused"
        if self._rate == 0:
            return "the bandwidth is 0"
        if self._scheduler.held(page_id):
            return "it is being crawled at this moment"
        if (reason := self._gate.not_ready(host, now)) is not None:
            return _HOST_REASONS[reason].format(wait=self._gate.earliest[host] - now)
        if (wait := self._scheduler.waits_until(page_id)) > now:
            return f"it was asked or failed lately and waits {wait - now:.0f} s more"
        value, level = self._scheduler.value_of(page_id, now), self._scheduler.chooser.level
        if value >= level:
            return "it is about to be: its turn comes with one of the next slots"
        return f"its crawl value {value:.3g} is below the level {level:.3g} picked at {format_rate(self._rate)}"

    async def reload(self) -> str:
        """Read the settings and the URL list again."""
        return "nothing to reload" if self.on_reload is None else await self.on_reload()


def _finite(seconds: float) -> float | None:
    """A time as JSON can say it: None for one that does not come by itself."""
    return seconds if math.isfinite(seconds) else None
