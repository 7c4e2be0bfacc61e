"""Claimed times: every spelling met in public files, and every reason for not using one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.units import DAY
from crawld.read.dates import SAYS_NOTHING, Precision, Unusable, read_date

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()


def at(*when: int) -> float:
    """UTC seconds of a moment."""
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2021-01-28T16:11:08+01:00", at(2021, 1, 28, 15, 11, 8)),
        ("2017-10-20T14:05:50.398Z", at(2017, 10, 20, 14, 5, 50) + 0.398),
        ("2017-03-10 12:56:58", at(2017, 3, 10, 12, 56, 58)),
        ("2017-03-10T12:56+02", at(2017, 3, 10, 10, 56)),
        ("2020/1/10 14:33:00", at(2020, 1, 10, 14, 33)),
        ("2020.01.10 14:33", at(2020, 1, 10, 14, 33)),
        ("20240115T101112Z", at(2024, 1, 15, 10, 11, 12)),
        ("1609859438225", 1609859438.225),
        ("1609859438", 1609859438.0),
        ("Mon, 11 Aug 2014 14:12:04 +0200", at(2014, 8, 11, 12, 12, 4)),
        ("Mon, 02 Dec 2024 11:30:00 GMT", at(2024, 12, 2, 11, 30)),
        ("Sat Aug 07 2010 01:00:00 GMT+0200 (czas letni)", at(2010, 8, 6, 23)),
        ("01/16/2026 1:05 pm", at(2026, 1, 16, 13, 5)),
        ("31.12.2023 10:11", at(2023, 12, 31, 10, 11)),
        ("Jan 5, 2024 10:00 PM", at(2024, 1, 5, 22)),
        ("2024-06-30T23:59:60Z", at(2024, 6, 30, 23, 59, 59)),
        (" \n2024-10-19T11:21:53Z\t", at(2024, 10, 19, 11, 21, 53)),
        ("Sun, 30 Jun 2024 23:59:60 GMT", at(2024, 6, 30, 23, 59, 59)),
        ("Sunday, 30-Jun-24 23:59:60 GMT", at(2024, 6, 30, 23, 59, 59)),
        ("Sun, 30 Jun 2024 23:59:60 CEST", at(2024, 6, 30, 21, 59, 59)),
        ("Mon, 02 Dec 2024 11:30:00 CET", at(2024, 12, 2, 10, 30)),
        ("Mon, 02 Dec 24 11:30:00 CET", at(2024, 12, 2, 10, 30)),
        ("Mon, 1 Jul 2024 11:30:00 CEST", at(2024, 7, 1, 9, 30)),
        ("Mon, 1 Jul 2024 11:30 BST", at(2024, 7, 1, 10, 30)),
        ("Mon, 1 Jul 2024 11:30:00 JST", at(2024, 7, 1, 2, 30)),
        ("Mon, 1 Jul 2024 11:30:00 jst", at(2024, 7, 1, 2, 30)),
        ("Mon, 1 Jul 2024 11:30:00 MSK", at(2024, 7, 1, 8, 30)),
        ("Mon, 1 Jul 2024 11:30:00 IST", at(2024, 7, 1, 6)),
        ("Mon, 1 Jul 2024 11:30:00 EEST", at(2024, 7, 1, 8, 30)),
        ("Mon, 1 Jul 2024 11:30:00 WEST", at(2024, 7, 1, 10, 30)),
        ("Mon, 1 Jul 2024 11:30:00 AEST", at(2024, 7, 1, 1, 30)),
        ("Mon, 1 Jan 2024 11:30:00 NZDT", at(2023, 12, 31, 22, 30)),
        ("Mon, 1 Jul 2024 11:30:00 CST", at(2024, 7, 1, 17, 30)),
        ("Mon, 1 Jul 2024 11:30:00 PDT", at(2024, 7, 1, 18, 30)),
        ("Mon, 1 Jul 2024 11:30:00 A", at(2024, 7, 1, 11, 30)),
        ("Mon, 1 Jul 2024 11:30:00 GMT+2", at(2024, 7, 1, 9, 30)),
        ("Mon, 1 Jul 2024 11:30:00 +0200 (CEST)", at(2024, 7, 1, 9, 30)),
        ("2024-07-01 11:30:00 CEST", at(2024, 7, 1, 9, 30)),
        ("Mon Jul  1 11:30:00 CEST 2024", at(2024, 7, 1, 9, 30)),
        ("Mon Jul 1 11:30:00 2024 CEST", at(2024, 7, 1, 9, 30)),
        ("Mon Jul  1 11:30:00 2024", at(2024, 7, 1, 11, 30)),
        ("1 July 2024, 11:30 PM CEST", at(2024, 7, 1, 21, 30)),
    ],
)
def test_reads_a_moment_however_it_is_spelt(text: str, expected: float) -> None:
    """A time is read to the second from every usual spelling, without a zone as UTC."""
    claim = read_date(text, NOW)
    assert (claim.at, claim.until, claim.precision, claim.reason) == (expected, expected, Precision.SECOND, None)


@pytest.mark.parametrize(
    ("text", "start", "days"),
    [
        ("2021-02-26", at(2021, 2, 26), 1),
        ("2024-1-5", at(2024, 1, 5), 1),
        ("2024-02", at(2024, 2, 1), 29),
        ("2023", at(2023, 1, 1), 365),
        ("20240115", at(2024, 1, 15), 1),
        ("01/16/1992", at(1992, 1, 16), 1),
        ("13/02/2024", at(2024, 2, 13), 1),
        ("January 15, 2024", at(2024, 1, 15), 1),
        ("15th January 2024", at(2024, 1, 15), 1),
        ("2024-01-15T00:00:00+00:00", at(2024, 1, 15), 1),
    ],
)
def test_a_date_covers_its_whole_span(text: str, start: float, days: int) -> None:
    """A day, month or year claims every moment within it, and midnight to the second is a day."""
    claim = read_date(text, NOW)
    assert (claim.at, claim.until, claim.precision, claim.usable) == (start, start + days * DAY, Precision.DATE, True)


@pytest.mark.parametrize(
    "text", ["Mon, 1 Jul 2024 11:30:00 XYZT", "2024-07-01 11:30:00 AMT", "Mon, 1 Jul 24 11:30:00 SST"]
)
def test_a_time_in_an_unknown_zone_may_be_any_moment_it_could_be(text: str) -> None:
    """A zone that nobody knows leaves a little more than a day open, from the easternmost to the westernmost zone."""
    claim = read_date(text, NOW)
    assert (claim.at, claim.until) == (at(2024, 6, 30, 21, 30), at(2024, 7, 1, 23, 30))
    assert (claim.precision, claim.usable) == (Precision.DATE, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Unusable.EMPTY),
        ("  \n", Unusable.EMPTY),
        ("NaN", Unusable.PLACEHOLDER),
        ("Invalid DateTime", Unusable.PLACEHOLDER),
        ("null", Unusable.PLACEHOLDER),
        ("{{ post.date | date_to_xmlschema }}", Unusable.TEMPLATE),
        ("0001-01-01T00:00:00Z", Unusable.ZERO),
        ("0000-00-00 00:00:00", Unusable.ZERO),
        ("1970-01-01T08:00+08:00", Unusable.ZERO),
        ("1985-05-05", Unusable.ANCIENT),
        ("2029-01-01T10:00:00Z", Unusable.FUTURE),
        ("2026-02-30", Unusable.IMPOSSIBLE),
        ("2024-01-01T25:00:00Z", Unusable.IMPOSSIBLE),
        ("2024-01-01T10:00:61Z", Unusable.IMPOSSIBLE),
        ("03/04/2026", Unusable.AMBIGUOUS),
        ("last tuesday", Unusable.GARBLED),
        ("12:00", Unusable.GARBLED),
        ("16 Dec zz", Unusable.GARBLED),
        ("16 Dec zz 10:00:00 +0000", Unusable.GARBLED),
        ("2020/13/40 14:33:00", Unusable.IMPOSSIBLE),
        ("x" * 100_000, Unusable.GARBLED),
    ],
)
def test_names_why_a_value_cannot_be_used(text: str, reason: Unusable) -> None:
    """A value that claims no usable time says why."""
    claim = read_date(text, NOW)
    assert (claim.reason, claim.usable) == (reason, False)


def test_tomorrow_in_a_zone_ahead_of_us_is_no_future() -> None:
    """Up to a day ahead is believed, since dates carry no zone."""
    assert read_date("2026-11-17", NOW).usable


def test_a_future_time_keeps_its_moment() -> None:
    """A claim of the future is the same moment before and after that time has come."""
    early, late = read_date("2027-01-01T10:00:00Z", NOW), read_date("2027-01-01T10:00:00Z", NOW + 100 * DAY)
    assert early.at == late.at
    assert (early.reason, late.reason) == (Unusable.FUTURE, None)


def test_only_values_without_content_say_nothing() -> None:
    """A garbled date may still tell a change by changing itself; a placeholder never does."""
    assert Unusable.GARBLED not in SAYS_NOTHING
    assert Unusable.PLACEHOLDER in SAYS_NOTHING


@given(st.text() | st.from_regex(r"[0-9TZ:+./, -]{1,30}"))
def test_any_text_is_a_claim_or_a_reason(text: str) -> None:
    """No text raises, and each has either a time or a reason."""
    claim = read_date(text, NOW)
    assert claim.usable == (claim.reason is None)
    assert not claim.usable or (claim.at is not None and claim.until is not None and claim.until >= claim.at)
