"""The predicted freshness of all pages: exact at once for a few, of the last look for many."""

import dataclasses

import numpy as np
import pytest

from crawld.choose.frontier import Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.pages import status
from crawld.pages.status import FreshnessNow
from tests.support.hand_clock import HandClock


def scheduler(pages: int) -> Scheduler:
    """Pages that change once in ten seconds, all crawled at 0."""
    found = Scheduler(Scan(GreedyNcis()))
    columns = np.ones(pages), np.zeros(pages)
    rates = {"alpha": np.full(pages, 0.1), "shape": np.full(pages, np.inf)}
    found.add(Arrivals(np.arange(pages), np.zeros(pages, dtype=np.int64), *columns, **rates))
    return found


def test_few_pages_are_looked_at_when_asked() -> None:
    """The answer is that of the moment."""
    clock = HandClock()
    fresh = FreshnessNow(scheduler(3), clock)
    assert fresh.predicted() == 1.0
    clock.time = 10.0
    assert fresh.predicted() == pytest.approx(np.exp(-1))
    assert FreshnessNow(scheduler(0), clock).predicted() is None


async def test_many_pages_are_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks the answer is that of the last one."""
    monkeypatch.setattr(status, "LIMITS", dataclasses.replace(status.LIMITS, at_once=2))
    clock = HandClock()
    fresh = FreshnessNow(scheduler(3), clock)
    assert fresh.predicted() is None
    await fresh.renew()
    clock.time = 10.0
    assert fresh.predicted() == 1.0
    await fresh.renew()
    assert fresh.predicted() == pytest.approx(np.exp(-1))
