"""What header values say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.read.headers import LIMITS as HEADERS_LIMITS
from crawld.read.headers import (
    VALIDATORS,
    charset,
    http_date,
    if_none_match,
    max_age,
    media_type,
    plain_headers,
    retry_after,
)

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-5", None),
        ("soon", None),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 22:14:20 +0100", 0.0),
        ("Tue, 14 Nov 2023 22:14:60 GMT", 99.0),
        ("Tuesday, 14-Nov-23 22:14:60 GMT", 99.0),
        ("Tue Nov 14 22:14:60 2023", 99.0),
        ("Tue, 14 Nov 2023 23:14:20 CET", 60.0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", HEADERS_LIMITS.max_wait),
        ("999999999999", HEADERS_LIMITS.max_wait),
        ("9" * 400, None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    """Seconds and all three spellings of a date are understood, the past is now, and no wait is for ever."""
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("public", None),
        ("public, max-age=300", 300.0),
        ('Max-Age="60"', 60.0),
        ("s-maxage=5", None),
        ("no-store", 0.0),
        ("max-age=300, no-cache", 0.0),
    ],
)
def test_max_age(value: str | None, seconds: float | None) -> None:
    """Cache-Control says how long a copy may be kept."""
    assert max_age(value) == seconds


@pytest.mark.parametrize(
    ("etag", "sent"),
    [
        ('"abc"', '"abc"'),
        ('W/"abc"', 'W/"abc"'),
        ('"abc-gzip"', '"abc-gzip", "abc"'),
        ('W/"abc-gzip"', 'W/"abc-gzip", W/"abc"'),
        ('"a-b-br"', '"a-b-br", "a-b"'),
        ('"abc--gzip"', '"abc--gzip", "abc"'),
        ('"abc;gzip"', '"abc;gzip", "abc"'),
        ('"abc:gzip"', '"abc:gzip", "abc"'),
        ('"abc-zstd"', '"abc-zstd", "abc"'),
        ('"-gzip"', '"-gzip"'),
        ('"abcgzip"', '"abcgzip"'),
        ("abc-gzip", "abc-gzip"),
        ('"abc"-gzip', '"abc"-gzip'),
        ('"a"b-gzip"', '"a"b-gzip"'),
    ],
)
def test_if_none_match(etag: str, sent: str) -> None:
    """The tag of a compressed answer goes back with and without its mark; any other, and what is no tag, as it came."""
    assert if_none_match(etag) == sent


def test_content_type() -> None:
    """A Content-Type has a bare type and a charset, quoted or not, known or not."""
    assert media_type("Text/HTML; charset=x") == "text/html"
    assert media_type("") is None
    assert charset('text/html; Charset="UTF-8"') == "utf-8"
    assert charset("text/html;charset=nonsense-42") == "nonsense-42"
    assert charset(None) is None


@given(st.text(), st.floats(0, 4e9))
def test_no_value_raises(value: str, now: float) -> None:
    """Whatever a server sends, a wait is a number of seconds within bounds, or nothing."""
    wait = retry_after(value, now)
    assert wait is None or 0.0 <= wait <= HEADERS_LIMITS.max_wait
    kept = max_age(value)
    assert kept is None or kept >= 0.0
    date = http_date(value)
    assert date is None or math.isfinite(date)
    label = charset(value)
    assert label is None or label.isascii()


def test_headers_become_short_plain_text() -> None:
    """Repeated headers are joined, long ones cut, and control characters do not reach the store or a terminal."""
    fields = [("Link", "a"), ("X-Odd", "d\udce9j\udce0"), ("link", "b"), ("X-Bell", "a\x07\x1b[31mb"), ("Y" * 101, "z")]
    assert plain_headers(fields) == {"link": "a, b", "x-odd": "déjà", "x-bell": "a [31mb"}
    many = plain_headers([("Link", "</a>; rel=hub")] * 100_000)
    assert len(many["link"]) == HEADERS_LIMITS.max_value


@pytest.mark.parametrize("name", VALIDATORS)
def test_a_validator_is_kept_whole_or_not_at_all(name: str) -> None:
    """Half an ETag is none: one that is too long, or holds a control character, is left out."""
    longest = VALIDATORS[name]
    assert plain_headers([(name, "x" * longest)]) == {name: "x" * longest}
    assert plain_headers([(name, "x" * (longest + 1))]) == {}
    assert plain_headers([(name, "x\x01")]) == {}


@given(st.lists(st.tuples(st.text(max_size=5), st.text(st.characters(), max_size=50))))
def test_any_headers_can_be_stored(fields: list[tuple[str, str]]) -> None:
    """Whatever bytes a server sends, what is kept of them is text without control characters."""
    sent = [(name, value.encode("utf-8", "replace").decode("utf-8", "surrogateescape")) for name, value in fields]
    for value in plain_headers(sent).values():
        assert all(byte >= 0x20 for byte in value.encode())
