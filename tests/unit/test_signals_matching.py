"""Which page a listed URL means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.model.page import Page
from crawld.model.url import normalise
from crawld.signals.poll_signals import LIMITS, PageIndex, key_of, keys_of, match_key


@pytest.mark.parametrize(
    ("listed", "ours"),
    [
        ("http://example.org/a", "https://example.org/a"),
        ("https://EXAMPLE.org/a", "https://example.org/a"),
        ("https://example.org/a/", "https://example.org/a"),
        ("https://example.org", "http://example.org/"),
        ("https://example.org/a/?x=1", "https://example.org/a?x=1"),
        ("https://example.org:443/a", "http://example.org:80/a"),
        ("http://example.org:443/a", "https://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/%7euser", "https://example.org/~user"),
        ("https://exämple.org/ä", "https://xn--exmple-cua.org/%C3%A4"),
        ("https://example.org/a?", "https://example.org/a"),
        ("https://example.org/%e2%2c?x|y", "https://example.org/%E2%2C?x%7Cy"),
    ],
)
def test_spellings_of_one_page_match(listed: str, ours: str) -> None:
    """Spelling, scheme, default port, one trailing slash, an empty query and the fragment make no difference."""
    assert match_key(normalise(listed)) == match_key(normalise(ours))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a", "https://www.example.org/a"),
        ("https://example.org/a?x=1&y=2", "https://example.org/a?y=2&x=1"),
        ("https://example.org/a//", "https://example.org/a"),
        ("https://example.org/a", "https://example.org:8443/a"),
        ("https://example.org/a?", "https://example.org/a?x"),
        ("https://example.org/a/b", "https://example.org/a?b"),
        ("https://example.org/a%2Cb", "https://example.org/a,b"),
    ],
)
def test_different_pages_do_not(one: str, other: str) -> None:
    """Path, its case, query, port and host name must be equal."""
    assert key_of(normalise(one)) != key_of(normalise(other))


def found(index: PageIndex, *urls: str) -> list[tuple[int, int]]:
    """Positions and page ids found for these URLs."""
    positions, ids = index.find(keys_of(urls))
    return sorted(zip(positions.tolist(), ids.tolist(), strict=True))


def test_every_page_of_a_key_is_found() -> None:
    """Where we hold a page under two schemes, a listed URL means both."""
    index = PageIndex()
    held = ["http://a.org/x", "https://a.org/x/", "http://b.org/"]
    index.put([Page(i, url, url.split("/")[2]) for i, url in enumerate(held, 1)])
    assert found(index, "https://a.org/x", "https://c.org/", "http://b.org/") == [(0, 1), (0, 2), (2, 3)]


def test_pages_come_and_go() -> None:
    """A dropped page is not found, and found again once it is back."""
    index = PageIndex()
    page = Page(1, "http://a.org/x", "a.org")
    index.put([page])
    index.drop([1])
    assert (found(index, page.url), len(index)) == ([], 0)
    index.put([page])
    assert (found(index, page.url), len(index)) == ([(0, 1)], 1)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 300), max_size=40), st.sets(st.integers(0, 300), max_size=10))
def test_the_index_finds_what_a_dictionary_would(wanted: list[int], dropped: set[int]) -> None:
    """Early and late pages are found alike, whatever was dropped."""
    index = PageIndex()
    index.put([Page(i, f"http://a.org/{i}", "a.org") for i in range(LIMITS.max_latecomers + 1)])
    index.put([Page(20_000 + i, f"https://a.org/{i}/", "a.org") for i in range(100)])
    index.drop(dropped)
    expected = [(at, i) for at, i in enumerate(wanted) if i not in dropped]
    expected += [(at, 20_000 + i) for at, i in enumerate(wanted) if i < 100]
    assert found(index, *(f"http://a.org/{i}" for i in wanted)) == sorted(expected)


def test_an_empty_index_finds_nothing() -> None:
    """Nothing is found where nothing is."""
    positions, ids = PageIndex().find(np.empty(0, dtype=np.uint64))
    assert (len(positions), len(ids)) == (0, 0)
