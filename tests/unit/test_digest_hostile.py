"""Bytes of any kind have a digest: never an exception, never for ever."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.read.charset import decode, encoding_of, known
from crawld.read.page.digest import digest
from crawld.read.page.rules import DigestRule

TYPES = st.sampled_from(
    [None, "text/html", "text/html; charset=utf-16", "text/html; charset=punycode", "text/plain", ""]
)
RULES = st.sampled_from(
    [DigestRule(), DigestRule(mode="raw"), DigestRule(only="p", ignore=["b"], ignore_text=[r"\d+"], min_change=0.1)]
)
TAGS = st.sampled_from(
    ["<p>", "</p>", "<b 0>", "</b>", "<table>", "<td>", "<script>", "</script>", "<!--", "-->", "<![CDATA[", "<?xml?>",
     "&#0;", "&nbsp;", "\x00", "\ue000", "\udcff", "text ", "<svg><title>", "<template>", "<br/>", "<frameset>", "é"]
)  # fmt: skip


@given(st.binary(max_size=500), TYPES, RULES)
def test_any_bytes(body: bytes, content_type: str | None, rule: DigestRule) -> None:
    """Any bytes have a digest, the same one each time."""
    assert digest(body, content_type, rule) == digest(body, content_type, rule)


@given(st.lists(TAGS, max_size=60), RULES)
def test_any_markup(pieces: list[str], rule: DigestRule) -> None:
    """Any heap of markup has a digest whose blocks databases can keep."""
    found = digest("".join(pieces).encode("utf-8", "surrogatepass"), "text/html", rule)
    assert len(found.raw) == 16
    assert all(0 <= block < 2**63 for block in found.blocks)


@given(st.binary(max_size=200), st.text(max_size=60))
def test_any_charset(body: bytes, label: str) -> None:
    """Any label with any bytes is decoded somehow, by a charset of the web."""
    assert isinstance(decode(body, f"text/html; charset={label}"), str)
    assert known(label) is None or isinstance(b"x".decode(known(label) or "", "replace"), str)


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (b"\xef\xbb\xbf<p>x", "text/html; charset=latin-1", "utf-8"),
        (b"\xff\xfe<\x00p\x00", None, "utf-16-le"),
        ("<p>é".encode("latin-1"), "text/html; charset=ISO-8859-1", "cp1252"),
        (b"<meta charset=windows-1251><p>x", "text/html", "cp1251"),
        (b'<meta http-equiv=content-type content="text/html; charset=Shift_JIS">', None, "cp932"),
        (b"<meta charset=utf-16><p>x", None, "utf-8"),
        ("<p>é".encode(), "text/html; charset=nonsense", "utf-8"),
        ("<p>é".encode("latin-1"), "text/html", "cp1252"),
        (b"x", "text/html; charset=unicode_escape", "utf-8"),
    ],
)
def test_charsets(body: bytes, content_type: str | None, encoding: str) -> None:
    """A charset is taken from the byte order mark, the header, a meta element, or the bytes, in that order."""
    assert encoding_of(body, content_type) == encoding


def test_one_text_in_many_charsets() -> None:
    """The same text has the same digest in whatever charset it came."""
    text = "<p>Déjà vu, naïve façade</p>"
    found = {
        digest(text.encode(name), f"text/html; charset={name}").text
        for name in ("utf-8", "latin-1", "utf-16", "cp1252")
    }
    assert len(found) == 1


def test_a_wrong_charset_still_tells_change() -> None:
    """Bytes that do not fit their declared charset are replaced, and other text is another digest."""
    first, second = (digest(text.encode("latin-1"), "text/html; charset=utf-8") for text in ("<p>déjà", "<p>déjà vu"))
    assert first.text is not None
    assert first.text != second.text


@pytest.mark.parametrize(
    "body",
    [
        b"".join(b"<b %d>" % n for n in range(4000)) + b"x</b>" * 2000,
        b"<div>" * 100_000 + b"deep",
        b"<table><tr><td>" * 20_000,
        b"<a href=" + b"x" * 2_000_000,
        b"<!--" * 200_000,
        b"&" * 500_000,
        b"<p>" + b"word " * 400_000,
        b"<p>x" * 40_000,
        b"<select>" + b"<option>o" * 40_000,
        b"\x00" * 1_000_000,
    ],
    ids=["formatting", "nesting", "tables", "attribute", "comments", "entities", "text", "blocks", "options", "zeros"],
)
def test_hostile_markup(body: bytes) -> None:
    """Markup made to be slow has a digest, and a change in its bytes shows."""
    rule = DigestRule(ignore=["p b"], ignore_text=[r"wo+rd \d"])
    first, second = digest(body, "text/html", rule), digest(body + b"<p>new text at the end</p>", "text/html", rule)
    assert first.raw != second.raw
    assert len(first.blocks) <= 2048


def test_beyond_many_blocks_text_still_counts() -> None:
    """A change after the last block that is told apart is a change."""
    body = b"<p>x" * 30_000
    assert digest(body + b"<p>a", "text/html").text != digest(body + b"<p>b", "text/html").text


def test_selectors_look_into_trees_of_bounded_depth() -> None:
    """Where selectors would have to search very deep markup, the bytes are compared."""
    body = b"<div>" * 1000 + b"deep"
    assert digest(body, "text/html").text is not None
    assert digest(body, "text/html", DigestRule(ignore=["div b"])).text is None


@pytest.mark.parametrize("css", ["div i", "div div div i", "i, i, b", "i ~ i", "i:nth-child(3n)", "div:has(i)"])
def test_selectors_on_hostile_markup(css: str) -> None:
    """Markup made to be slow for a selector has a digest all the same."""
    body = b"<div>" * 200 + b"<i>x</i>" * 10_000
    assert len(digest(body, "text/html", DigestRule(ignore=[css])).raw) == 16


def test_more_tags_than_can_be_read() -> None:
    """A page of nothing but tags is compared by its bytes."""
    assert digest(b"<p>x" * 400_000, "text/html").text is None


def test_threads_agree() -> None:
    """Large bodies are digested off the event loop: several threads at once come to the same digest."""
    rule = DigestRule(ignore=["p.ad"], ignore_text=[r"\d+ views"])
    body = b"".join(b"<div><p>Text %d</p><p class=ad>x</p>7 views</div>" % number for number in range(500))
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: digest(body, "text/html", rule), range(16)))
    assert found == {digest(body, "text/html", rule)}


@pytest.mark.parametrize("odd", ["\x01", "&#1;", "\x0b", "\ufffe", "&#xFFFF;"])
def test_characters_that_no_tree_takes_back_are_read(odd: str) -> None:
    """A marked element may hold characters that the parser lets through and that cannot be written."""
    body = f"<html><body><div role=navigation>a{odd}b<p>c</p>d{odd}e</div><main>Text {odd} here.</main></body></html>"
    assert digest(body.encode(), "text/html").text is not None
