"""Expressions of time, and whether they moved as time did."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.read.change.moments import consistent, timed_block

NOW = datetime(2026, 3, 4, 15, 30, 20, tzinfo=UTC).timestamp()
HOUR, DAY = 3_600.0, 86_400.0
ODD_WORDS = [
    "5",
    "3,",
    "12:",
    ".",
    "ago",
    "in",
    "auguſt",
    "aprİl",
    "oKtober",
    "ſecondſ",
    "mınuteſ",
    "٣",
    "０３",
    "2026",
    "/",
]


def moved(before: str, after: str, elapsed: float) -> bool:
    """Whether two spellings, seen so long apart, tell the same."""
    one, other = timed_block(before, NOW), timed_block(after, NOW + elapsed)
    assert one is not None
    assert other is not None
    return one[0] == other[0] and consistent(one[1], other[1], elapsed)


@pytest.mark.parametrize(
    ("before", "after", "elapsed"),
    [
        ("Posted 3 hours ago", "Posted 5 hours ago", 2 * HOUR),
        ("59 minutes ago", "1 hour ago", 90.0),
        ("just now", "2 minutes ago", 100.0),
        ("23 hours ago", "yesterday", 1.5 * HOUR),
        ("1 day, 3 hours ago", "1 day, 5 hours ago", 2 * HOUR),
        ("vor 3 Stunden", "vor 4 Stunden", HOUR),
        ("il y a 2 jours", "il y a 3 jours", DAY),
        ("hace 2 horas", "hace 3 horas", HOUR),
        ("3小时前", "4小时前", HOUR),
        ("ends in 5 minutes", "ends in 3 minutes", 120.0),
        ("4 March 2026", "5 March 2026", DAY),
        ("Wednesday, March 4, 2026", "Thursday, March 5, 2026", DAY),
        ("04.03.2026", "05.03.2026", DAY),
        ("2026-03-04", "2026-03-05", DAY),
        ("It is 15:30", "It is 16:30", HOUR),
        ("It is 10:30:20 am", "It is 11:30:22 am", HOUR),
        ("2026-03-04T15:30:20Z", "2026-03-04T16:30:20Z", HOUR),
        ("Published 4 March 2026", "Published 4 March 2026", 90 * DAY),
        ("Open until 18:00", "Open until 18:00", 7 * HOUR),
    ],
)
def test_what_moves_with_time(before: str, after: str, elapsed: float) -> None:
    """Ages grow, rests shrink, and dates and clocks follow the visit."""
    assert moved(before, after, elapsed)


@pytest.mark.parametrize(
    ("before", "after", "elapsed"),
    [
        ("Posted 3 hours ago", "Posted 9 hours ago", 2 * HOUR),
        ("Posted 3 hours ago", "Posted 4 hours ago", 5.0),
        ("Posted 5 hours ago", "Posted 3 hours ago", 2 * HOUR),
        ("4 March 2020", "5 March 2020", DAY),
        ("4 March 2026", "5 March 2026", 10.0),
        ("4 March 2026", "4 March 2027", DAY),
        ("Open until 18:00", "Open until 19:00", 2 * HOUR),
        ("today", "tomorrow at 10:00", DAY),
    ],
)
def test_what_was_edited(before: str, after: str, elapsed: float) -> None:
    """A time that did not move as time did, or before it could, is an edit."""
    assert not moved(before, after, elapsed)


@pytest.mark.parametrize("text", ["price 3.99 on page 12", "version 1.2.3", "Marketing 3", "10 of 12", "€ 12.50"])
def test_what_names_no_time(text: str) -> None:
    """Prices, versions and other numbers are no times."""
    assert timed_block(text, NOW) is None


@pytest.mark.parametrize("text", ["5. Auguſt", "5 ſept 2024", "Auguſt 5", "5 Aprİl 2026", "5 aprıl", "٥ März 2026"])
def test_letters_that_match_others(text: str) -> None:
    """A month in letters that a match takes for plain ones is a date like any other."""
    timed = timed_block(text, NOW)
    assert timed is not None
    assert timed[0] == "\0"


@given(st.text(alphabet=st.characters() | st.sampled_from("0123456789ſıİK０٣:./- augustepril"), max_size=80))
def test_any_letters(text: str) -> None:
    """Text in any script can be read."""
    timed_block(text, NOW)


@given(st.lists(st.sampled_from(ODD_WORDS)))
def test_any_words_of_time(words: list[str]) -> None:
    """Words of time in odd letters can be read in any order."""
    for text in (" ".join(words), "".join(words)):
        timed_block(text, NOW)


@given(st.text(alphabet="0123456789:./- amonth ago in days", max_size=80), st.floats(0, 4e9))
def test_any_text(text: str, at: float) -> None:
    """Any text can be read at any time."""
    timed = timed_block(text, at)
    assert timed is None or (len(timed[1]) > 0 and all(0 <= moment < 2**63 for moment in timed[1]))
