"""The pages the daemon holds in memory."""

import ctypes
import math
import subprocess
import sys

import pytest

from crawld.model.errors import InputError
from crawld.model.page import Page, PageState, check_importance
from crawld.pages.page_set import LIMITS as PAGE_SET_LIMITS
from crawld.pages.pages import LIMITS as PAGES_PAGES_LIMITS
from crawld.pages.pages import Pages


def test_pages_that_are_gone_or_forbidden_are_not_asked() -> None:
    """They do not count among the pages of a host that are being asked, and count again when they are back."""
    pages = Pages()
    for number in range(3):
        pages.put(Page(number, f"https://h/{number}", "h", 1.0))
    pages.put(Page(3, "https://h/3", "h", 1.0), PageState.GONE, failures=1)
    assert (pages.on_host("h"), pages.asked_on_host("h")) == (4, 3)
    pages.change_state(0, PageState.DISALLOWED)
    pages.change_state(1, PageState.FAILING)
    assert pages.asked_on_host("h") == 2
    pages.change_state(0, PageState.LIVE)
    pages.change_state(3, PageState.LIVE)
    assert pages.asked_on_host("h") == 4
    pages.change_state(2, PageState.GONE)
    pages.drop([1, 2])
    assert (pages.on_host("h"), pages.asked_on_host("h")) == (2, 2)


def test_a_page_that_fails_waits_twice_as_long_each_time() -> None:
    """A success starts from the beginning."""
    pages = Pages()
    pages.put(Page(1, "https://h/1", "h", 1.0))
    waits = [pages.after(1, PageState.FAILING, 0.0) for _ in range(3)]
    assert waits == [
        PAGES_PAGES_LIMITS.first_wait,
        2 * PAGES_PAGES_LIMITS.first_wait,
        4 * PAGES_PAGES_LIMITS.first_wait,
    ]
    pages.after(1, PageState.LIVE, 0.0)
    assert pages.after(1, PageState.FAILING, 0.0) == PAGES_PAGES_LIMITS.first_wait


def test_an_audit_does_not_lengthen_a_wait() -> None:
    """An audit that finds a page gone begins its wait, and one that finds it still gone leaves it as long as it was."""
    pages = Pages()
    pages.put(Page(1, "https://h/1", "h", 1.0))
    first = pages.after(1, PageState.GONE, 0.0, audit=True)
    assert first > 0.0
    assert pages.after(1, PageState.GONE, 0.0, audit=True) == first
    assert pages.after(1, PageState.GONE, 0.0) == 2 * first


def test_of_a_page_retired_while_it_was_crawled_nothing_is_kept() -> None:
    """What its crawl brings is no news, and the page begins anew when it returns."""
    pages = Pages()
    pages.put(Page(1, "https://h/1", "h", 1.0))
    pages.drop([1])
    assert not pages.change_state(1, PageState.GONE)
    pages.after(1, PageState.GONE, 0.0)
    assert (pages.state(1), pages.failures(1)) == (PageState.RETIRED, 0)
    pages.put(Page(1, "https://h/1", "h", 1.0))
    assert (pages.state(1), pages.asked_on_host("h")) == (PageState.WAITING, 1)


@pytest.mark.parametrize("given", [0, -1.0, math.inf, math.nan, True, "1", None])
def test_an_importance_that_is_no_weight_is_refused(given: object) -> None:
    """Whoever names it, an importance is a positive and finite number."""
    with pytest.raises(InputError, match="positive number, at most"):
        check_importance(given)


HOLES = f"""
import mmap
from pathlib import Path
import numpy as np
from crawld.pages.page_set import bound_waste

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

bound_waste()
for _ in range(3):
    np.ones(30 << 20, np.uint8)
columns = [np.ones({2 * PAGE_SET_LIMITS.mapped_bytes}, np.uint8) for _ in range(40)]
before = resident()
del columns[::2]
print((before - resident()) // {PAGE_SET_LIMITS.mapped_bytes})
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc keeps freed memory so")
def test_freed_columns_leave_no_holes() -> None:
    """Columns that are freed between others go back to the system at once, whatever was freed before."""
    shrunk = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
    assert int(shrunk.stdout) >= 39
