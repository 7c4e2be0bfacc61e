"""Idle slots are counted with their reason, without looking for it at every slot."""

import asyncio

import pytest

from crawld.crawl.loop import LIMITS as CRAWL_LIMITS
from crawld.crawl.slot_log import LIMITS as SLOT_LOG_LIMITS
from crawld.crawl.slot_log import SlotLog
from crawld.model.why import Why
from tests.support.virtual_web import Crawling, Web, in_virtual_time


def test_a_look_speaks_for_the_slots_of_a_second() -> None:
    """However many slots are idle, the reason is looked for once a second; a known one is taken as it is."""
    looks: list[float] = []

    def look(now: float) -> Why:
        looks.append(now)
        return Why.HOST_BUSY

    slots = SlotLog(look)
    for at in range(2000):
        slots.idle(at / 1000, 0.0)
        slots.count(at / 1000, 1, 0)
    slots.idle(2.0, 0.0, Why.STORE_UNWELL)
    slots.count(2.0, 1, 7)
    assert len(looks) == 2
    found = slots.report(2.0)
    assert (found.slots, found.idle) == (2001, 2001)
    assert found.idle_because == {"host_busy": 2000, "store_unwell": 1}


def test_old_slots_are_forgotten() -> None:
    """The report covers the last minutes only, also after a long pause."""
    slots = SlotLog(lambda _: Why.NO_PAGES)
    for at in range(1000):
        slots.idle(float(at), 0.0)
        slots.count(float(at), 1, 0)
    assert slots.report(999.0).slots == SLOT_LOG_LIMITS.span_seconds * SLOT_LOG_LIMITS.spans
    assert slots.report(99_999.0).slots == 0


def test_slots_skipped_at_a_start_or_after_a_change_of_rate_do_not_show_a_busy_machine() -> None:
    """They are left out of the report until the loop has settled; later ones count, with the spans they came in."""
    slots = SlotLog(lambda _: Why.NO_PAGES)
    slots.count(0.0, 1, 5)
    assert slots.report(0.0).skipped == 0
    for at in range(1, 60):
        slots.count(float(at), 1, 5 + (at > 30) + (at > 45))
    found = slots.report(60.0)
    assert (found.skipped, found.skipped_spans) == (2, 2)
    slots.restart()
    slots.count(61.0, 1, 20)
    found = slots.report(61.0)
    assert (found.slots, found.skipped) == (1, 0)


def test_slots_behind_an_idle_one_are_idle_without_a_look_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate far above what pages need, pages are looked at once a pause; each slot counts, and none as skipped."""
    looks: list[float] = []

    async def course() -> None:
        async with Crawling(Web(), 3, rate=5000.0, shortest=3600.0) as crawling:
            await asyncio.sleep(2.0)  # every page is visited
            pick, status = crawling.scheduler.pick, crawling.crawler.status

            def looked(now: float) -> int | None:
                looks.append(now)
                return pick(now)

            monkeypatch.setattr(crawling.scheduler, "pick", looked)
            slots, idle, skipped = status.slots, status.idle_slots, status.skipped_slots
            await asyncio.sleep(1.0)
            assert status.slots - slots == status.idle_slots - idle == pytest.approx(5000, rel=0.02)
            assert status.skipped_slots == skipped
            assert len(looks) <= 1.1 / CRAWL_LIMITS.idle_pause

    in_virtual_time(course())
