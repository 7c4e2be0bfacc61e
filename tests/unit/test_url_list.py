"""URL lists as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.content.url_list import read_url_list
from crawld.errors import InputError
from crawld.model.url import _PLAIN, _taken_apart, host_of, normalise, origin_of


def test_good_lines_are_taken_and_bad_ones_named() -> None:
    """Blank lines and comments pass, duplicates merge, each bad line is named with its number and reason."""
    body = (
        b"\xef\xbb\xbfhttps://a.example/\n\n# a comment\n  https://b.example/x 2.5 \nhttps://A.example:443/#top\n"
        b"ftp://c.example/\nhttp:///nohost\n\xff\xfe\nhttps://d.example/" + b"x" * 10_000 + b"\n"
        b"https://e.example/ heavy\nhttps://u:p@f.example/\nexample.org\n"
        b"https://g.example/ 1 2\nhttps://h.example/ -1\n"
    )
    got = read_url_list(body)
    assert [(w.url, w.importance) for w in got.wanted] == [("https://a.example/", 1.0), ("https://b.example/x", 2.5)]
    assert got.duplicates == 1
    reasons = {bad.number: bad.reason for bad in got.bad}
    assert set(reasons) == {6, 7, 8, 9, 10, 11, 12, 13, 14}
    assert "ftp" in reasons[6]
    assert "host" in reasons[7]
    assert "UTF-8" in reasons[8]
    assert "10,018" in reasons[9]
    assert "heavy" in reasons[10]
    assert "password" in reasons[11]
    assert "http://" in reasons[12]
    assert "more than" in reasons[13]
    assert "positive" in reasons[14]


def test_csv_with_a_header_is_read_by_column_names() -> None:
    """Columns may come in any order and beside others; a quoted URL may hold a comma."""
    got = read_url_list(b'name,Importance,URL\nx,3,"https://a.example/?q=1,2"\ny,,https://b.example/\nz,1\n')
    assert [(w.url, w.importance) for w in got.wanted] == [
        ("https://a.example/?q=1,2", 3.0),
        ("https://b.example/", 1.0),
    ]
    assert [b.number for b in got.bad] == [4]


def test_an_empty_list_wants_nothing() -> None:
    """No lines: no pages and no complaints."""
    got = read_url_list(b"\n\n# nothing\n")
    assert got.wanted == ()
    assert got.bad == ()


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(body: bytes) -> None:
    """Whatever the bytes, every line is either taken, empty, a comment, or named."""
    got = read_url_list(body)
    for wanted in got.wanted:
        assert normalise(wanted.url) == wanted.url


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("http://example.org:80/a/../b#x", "http://example.org/b"),
        ("https://example.org:8443/?b=2&a=1", "https://example.org:8443/?b=2&a=1"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
    ],
)
def test_a_url_has_one_spelling(given: str, normal: str) -> None:
    """Scheme, host, port, dot segments and fragment are brought to one form; the query is left alone."""
    assert normalise(given) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize("text", ["", "http://", "http://a b/", "mailto:x@y", "http://exa\x00mple/", "http://x:99999/"])
def test_what_is_no_page_is_refused(text: str) -> None:
    """Anything that cannot be asked over HTTP is refused with a sentence."""
    with pytest.raises(InputError):
        normalise(text)


def test_host_and_origin_name_who_is_asked() -> None:
    """The port is part of the name only where it is not the scheme's own."""
    assert host_of("https://a.example/") == "a.example"
    assert host_of("http://a.example:8080/") == "a.example:8080"
    assert host_of("http://[::1]:81/") == "[::1]:81"
    assert origin_of("https://a.example:8443/x?y") == "https://a.example:8443"


@given(st.from_regex(_PLAIN, fullmatch=True))
def test_what_is_plain_is_what_taking_it_apart_gives(text: str) -> None:
    """The short way for most URLs and the parser's way end at the same spelling."""
    assert normalise(text) == _taken_apart(text) == text
