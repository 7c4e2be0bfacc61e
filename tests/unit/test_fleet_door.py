"""The door of a worker: requests leave by grants, and only while the lease lasts."""

import asyncio
import dataclasses
import math

import pytest

from crawld.fleet import pacing as grant_door
from crawld.fleet.pacing import NOTHING, GrantDoor, RateSchedule
from crawld.model.clock import SystemClock, boot
from crawld.model.errors import UnsentError


def _granted(rate: float) -> RateSchedule:
    now = boot()
    return RateSchedule((now - 1.0, now + 3600.0), (rate, 0.0))


async def test_requests_leave_first_come_first_served() -> None:
    """Those that wait for a grant leave in their order once there is one."""
    door, left = GrantDoor(SystemClock(monotonic=boot)), []

    async def leave(number: int) -> None:
        await door.leave()
        left.append(number)

    waiting = [asyncio.create_task(leave(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert not left
    door.follow(_granted(1000.0), math.inf)
    await asyncio.gather(*waiting)
    assert left == [0, 1, 2, 3, 4]


async def test_a_request_without_a_grant_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits a while, and is then not sent."""
    monkeypatch.setattr(grant_door, "LIMITS", dataclasses.replace(grant_door.LIMITS, max_wait=0.01))
    door = GrantDoor(SystemClock(monotonic=boot))
    door.follow(NOTHING, math.inf)
    with pytest.raises(UnsentError):
        await door.leave()


async def test_a_lease_that_has_ended_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the door nor on the wire does a grant count after the deadline."""
    monkeypatch.setattr(grant_door, "LIMITS", dataclasses.replace(grant_door.LIMITS, max_wait=0.01))
    door = GrantDoor(SystemClock(monotonic=boot))
    door.follow(_granted(1000.0), boot() + 3600.0)
    assert door.may_send()
    door.follow(_granted(1000.0), boot() - 0.001)
    assert not door.may_send()
    with pytest.raises(UnsentError):
        await door.leave()
    door.follow(NOTHING, boot() + 3600.0)
    assert not door.may_send()
