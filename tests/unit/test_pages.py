"""The pages the daemon holds in memory."""

from crawld.daemon.pages import FIRST_WAIT, Pages
from crawld.model.page import Page, PageState


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
    assert waits == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    pages.after(1, PageState.LIVE, 0.0)
    assert pages.after(1, PageState.FAILING, 0.0) == FIRST_WAIT
