"""URL lists as people write them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.url import identity, normalise
from crawld.read.url_list import ListedPages, read_changed_lines, read_url_list


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


LINES = """https://a.example/
https://a.example/ 2
https://a.example/ 2.0
https://A.example/
https://a.example/%7ex
https://a.example/~x

https://b.example/ 0.1
https://b.example/ 0.10
https://b.example/,3
https://c.example/ 1e-07
url,importance
x,y
ftp://bad/
# no"""
lines = st.lists(st.sampled_from(LINES.splitlines()), max_size=12)


@given(lines, lines)
def test_a_list_read_by_its_changed_lines_says_the_same(before: list[str], after: list[str]) -> None:
    """Whatever was listed, the pages kept and those wanted are together what the whole list says."""
    first = read_url_list("\n".join(before).encode()).wanted
    listed = ListedPages(
        np.arange(len(first)),
        np.array([ListedPages.line(page.url, page.importance) for page in first], np.int64),
        np.array([ListedPages.page(identity(page.url)) for page in first], np.int64),
    )
    body = "\n".join(after).encode()
    whole, changed = read_url_list(body), read_changed_lines(body, listed)
    said = [*changed.wanted, *(first[page] for page in changed.kept.tolist())]
    assert len(said) == changed.pages == whole.pages
    assert set(said) == set(whole.wanted)
    assert (changed.bad, changed.duplicates, changed.form) == (whole.bad, whole.duplicates, whole.form)


def test_lines_that_are_as_before_are_not_wanted_again() -> None:
    """Of a list with one line more, that line alone is new."""
    first = read_url_list(b"https://a.example/\nhttps://b.example/ 2.5\n").wanted
    columns = [[ListedPages.line(page.url, page.importance), ListedPages.page(page.url)] for page in first]
    listed = ListedPages(np.array([7, 8]), *np.array(columns).T)
    got = read_changed_lines(b"https://a.example/\nhttps://c.example/\nhttps://b.example/ 2.5\n", listed)
    assert [page.url for page in got.wanted] == ["https://c.example/"]
    assert sorted(got.kept.tolist()) == [7, 8]


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


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"https://a.example/,2\nhttps://b.example/,0.5\n", {"https://a.example/": 2.0, "https://b.example/": 0.5}),
        (b"https://a.example/,\nhttps://b.example/,3\n", {"https://a.example/": 1.0, "https://b.example/": 3.0}),
        (b"https://a.example/;2\r\nhttps://b.example/;1\r\n", {"https://a.example/": 2.0, "https://b.example/": 1.0}),
        (b"2,https://a.example/\n5,https://b.example/\n", {"https://a.example/": 2.0, "https://b.example/": 5.0}),
        (b"https://a.example/,My first page,2\nhttps://b.example/,\"B, too\",1\n",
         {"https://a.example/": 2.0, "https://b.example/": 1.0}),
        (b'"https://a.example/?q=1,2","news"\n"https://b.example/","blog"\n',
         {"https://a.example/?q=1,2": 1.0, "https://b.example/": 1.0}),
        (b"# mine\nhttps://a.example/,2\nhttps://b.example/\nhttps://c.example/,4\n",
         {"https://a.example/": 2.0, "https://b.example/": 1.0, "https://c.example/": 4.0}),
        (b"# mine\nurl;importance\nhttps://a.example/;2\n", {"https://a.example/": 2.0}),
        (b"Link,Weight\nhttps://a.example/,2\n", {"https://a.example/": 2.0}),
        (b"URL\nhttps://a.example/x,y 3\nhttps://b.example/\n",
         {"https://a.example/x,y": 3.0, "https://b.example/": 1.0}),
        (b"Blog,https://a.example/,2\nNews,https://b.example/,1\n",
         {"https://a.example/": 2.0, "https://b.example/": 1.0}),
        (b"https://a.example/\t2\nhttps://b.example/\t3\n", {"https://a.example/": 2.0, "https://b.example/": 3.0}),
    ],
)  # fmt: skip
def test_csv_without_a_header_is_taken_for_what_it_is(body: bytes, wanted: dict[str, float]) -> None:
    """Rows of a URL and its importance need no header, or one in other words, in any order, with any separator."""
    got = read_url_list(body)
    assert {page.url: page.importance for page in got.wanted} == wanted
    assert got.bad == ()


def test_numbers_below_a_header_that_does_not_name_importance_are_no_importance() -> None:
    """A header in words of its own is named as a bad line; the column of URLs is found, and views are no weights."""
    got = read_url_list(b"Titel,Seite,Views\nA,https://a.example/,200\nB,https://b.example/,30\n")
    assert [(page.url, page.importance) for page in got.wanted] == [
        ("https://a.example/", 1.0),
        ("https://b.example/", 1.0),
    ]
    assert [bad.number for bad in got.bad] == [1]


def test_urls_that_hold_commas_stay_whole() -> None:
    """A plain list of URLs with commas or semicolons in them is no CSV."""
    urls = ["https://a.example/0,1518,druck-2,00.html", "https://a.example/x;jsessionid=1", "https://a.example/a,b"]
    got = read_url_list("\n".join(urls).encode())
    assert [page.url for page in got.wanted] == urls
    assert got.form == "lines"


def test_a_bad_row_of_a_csv_without_a_header_is_named() -> None:
    """A row whose importance is no number is reported, and its neighbours are taken."""
    got = read_url_list(b"https://a.example/,2\nhttps://b.example/,lots\nhttps://c.example/,3\n")
    assert [page.url for page in got.wanted] == ["https://a.example/", "https://c.example/"]
    assert [(bad.number, "lots" in bad.reason) for bad in got.bad] == [(2, True)]
    assert got.form == "CSV without a header"
