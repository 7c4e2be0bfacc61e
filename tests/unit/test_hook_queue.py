"""The queue of one hook: order for each page, back-off, rate and bound."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.hooks.queue import HookPace, HookQueue
from crawld.store.hooks import Waiting

FAST = HookPace(rate=math.inf, concurrency=4)


def queue(pace: HookPace = FAST, at_once: int = 1) -> HookQueue:
    """A queue with a seed of its own."""
    return HookQueue(pace, at_once, random.Random(1))


def fill(into: HookQueue, pages: list[int], added_at: float = 0.0) -> None:
    """Changes 1, 2, 3 … of these pages."""
    for change, page in enumerate(pages, 1):
        into.add(Waiting(change, page, added_at))


def test_a_page_is_told_in_order_and_only_after_the_one_before_is_settled() -> None:
    """Other pages go on meanwhile."""
    line = queue()
    fill(line, [7, 7, 8])
    assert line.take(0.0) == [1]
    assert line.take(0.0) == [3]
    assert line.take(0.0) == []
    line.sent()
    assert line.take(0.0) == []  # delivered, but still in the store
    line.settle([1])
    assert line.take(0.0) == [2]
    assert len(line) == 2


def test_a_failed_change_comes_again_later_and_holds_its_page_alone() -> None:
    """Its waits double; the page's later changes wait with it, other pages do not."""
    line = queue()
    fill(line, [7, 7, 8])
    waits, now = [], 0.0
    for _ in range(2):
        assert line.take(now) == [1]
        line.failed([1], now)
        if line.take(now) == [3]:
            line.sent()
            line.settle([3])
        waits.append(line.next_at() - now)
        now = line.next_at()
    assert len(line) == 2
    assert waits == pytest.approx([1.0, 2.0], rel=0.3)


def test_a_receiver_that_is_down_is_tried_one_change_at_a_time_and_seldom() -> None:
    """With a thousand pages waiting it costs one request a pause."""
    line = queue()
    fill(line, list(range(1000)))
    now, tries = 0.0, 0
    while now < 3600.0:
        taken = line.take(now)
        if taken:
            tries += 1
            line.failed(taken, now)
        else:
            now = max(line.next_at(), now + 0.001)
    assert tries < 30
    taken = line.take(line.next_at())
    line.sent()
    line.settle(taken)
    assert len(line.take(now + 4000.0)) == 1
    assert len(line.take(now + 4000.0)) == 1, "several at once again after a success"


def test_retry_after_is_respected_by_the_whole_hook() -> None:
    """Up to the longest wait between two tries."""
    line = queue()
    fill(line, [1, 2])
    line.failed(line.take(0.0), 0.0, retry_after=60.0)
    assert line.take(59.0) == []
    assert line.next_at() == pytest.approx(60.0)
    assert line.take(60.0)


def test_the_rate_is_kept_and_several_changes_may_share_a_sending() -> None:
    """One sending a minute, each with up to fifty pages."""
    line = queue(HookPace(rate=1 / 60), at_once=50)
    fill(line, list(range(120)))
    assert len(line.take(0.0)) == 50
    line.sent()
    line.settle(range(1, 51))
    assert line.take(59.0) == []
    assert len(line.take(60.0)) == 50


def test_the_oldest_are_dropped_and_their_pages_go_on() -> None:
    """A page whose dropped change is being sent waits for the end of that."""
    line = queue()
    fill(line, [7, 8, 7, 8])
    assert line.take(0.0) == [1]
    assert line.drop(2) == [1, 2]
    assert line.take(0.0) == [4]
    assert line.take(0.0) == []
    line.sent()
    line.settle([1])
    assert line.take(0.0) == [3]


def test_what_waited_too_long_is_dropped() -> None:
    """By when it was added."""
    line = queue()
    line.add(Waiting(1, 1, 10.0))
    line.add(Waiting(2, 2, 20.0))
    assert line.expire(20.0) == [1]
    assert [one.change for one in [line.oldest] if one] == [2]


@given(st.lists(st.integers(0, 5), max_size=60), st.randoms(use_true_random=False), st.integers(1, 5))
def test_whatever_fails_every_change_comes_in_order_until_it_is_delivered(
    pages: list[int], luck: random.Random, at_once: int
) -> None:
    """Sendings end in any order and fail at random; drops happen at any time; nothing is stuck or comes too early."""
    line = HookQueue(HookPace(rate=100.0, concurrency=3, first_retry=0.1), at_once, luck)
    fill(line, pages)
    of = dict(enumerate(pages, 1))
    under_way: list[list[int]] = []
    told: list[int] = []
    gone: set[int] = set()
    now = 0.0
    while len(line) or under_way:
        while taken := line.take(now):
            under_way.append(taken)
            busy = Counter(of[change] for sending in under_way for change in sending)
            assert max(busy.values()) == 1
        if under_way and luck.random() < 0.9:
            sending = under_way.pop(luck.randrange(len(under_way)))
            if luck.random() < 0.5:
                line.failed(sending, now)
            else:
                line.sent()
                line.settle(sending)
                told += sending
        elif luck.random() < 0.05:
            gone |= set(line.drop(luck.randrange(3)))
        elif not under_way:
            assert line.next_at() < float("inf"), "stuck"
            now = max(now, line.next_at())
    assert set(told) | gone == set(of)
    for page in set(pages):
        mine = [change for change in told if of[change] == page]
        assert mine == sorted(mine)
