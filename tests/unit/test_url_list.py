"""URL lists as people write them."""

from hypothesis import given
from hypothesis import strategies as st

from crawld.content.lists.url_list import read_url_list
from crawld.model.url import normalise


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


def test_spellings_of_one_page_are_one_line() -> None:
    """The first spelling of a page is what is asked, the last importance counts, and the others are duplicates."""
    body = (
        b"https://a.example/%7euser 1\nhttps://a.example/~user 2\nhttps://A.example/%7Euser 3\n"
        b"https://a.example/?t=a%2Cb\nhttps://a.example/?t=a,b\nhttps://a.example/?t=a%2cb\n"
    )
    got = read_url_list(body)
    assert [(w.url, w.importance) for w in got.wanted] == [
        ("https://a.example/%7euser", 3.0),
        ("https://a.example/?t=a%2Cb", 1.0),
        ("https://a.example/?t=a,b", 1.0),
    ]
    assert got.duplicates == 3
