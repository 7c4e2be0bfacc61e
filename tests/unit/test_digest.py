"""What of a page counts: bytes, visible text, blocks."""

import pytest

from crawld.read.page.digest import LIMITS as DIGEST_LIMITS
from crawld.read.page.digest import block_length, block_number, digest, grouped
from crawld.read.page.rules import DigestRule

HTML = "text/html; charset=utf-8"
STEADY = "<p>The first paragraph stays.</p><p>The second one stays as well.</p>"


def text_of(body: str | bytes, rule: DigestRule | None = None) -> bytes | None:
    """The digest of the visible text."""
    data = body.encode() if isinstance(body, str) else body
    return digest(data, HTML, rule or DigestRule()).text


@pytest.mark.parametrize(
    "noise",
    [
        '<script nonce="{}">var t="{}"</script>',
        "<style>.c{} {{}}</style>",
        "<!-- rendered by {} -->",
        "<template>{}</template>",
        '<input type=hidden name=csrf value="{}">',
        '<img src="/logo.{}.png" alt="{}">',
        '<link rel=stylesheet href="/site.{}.css">',
        '<meta name=csrf content="{}">',
        "<div hidden>{}</div>",
        '<p id="x{}" class="css-{}"></p>',
    ],
)
def test_noise_is_not_text(noise: str) -> None:
    """What a reader does not see changes the bytes, never the text."""
    first, second = (digest((STEADY + noise.replace("{}", token)).encode(), HTML) for token in ("aaa", "bbb"))
    assert first.raw != second.raw
    assert (first.text, first.blocks) == (second.text, second.blocks)
    assert first.text is not None


def test_white_space_is_evened_out() -> None:
    """Indentation and line breaks in the markup are not text."""
    assert text_of("<p>one  two</p>\n\n  <p>three</p>") == text_of("<p>one\ntwo</p><p> three </p>")


def test_cells_are_apart() -> None:
    """Two table cells are two blocks, not one word."""
    assert len(digest(b"<table><tr><td>12</td><td>34</td></tr></table>", HTML).blocks) == 2


@pytest.mark.parametrize("body", [b"", b"   ", b"<script>draw()</script>", b"<div>" * 10_000 + b"deep"])
def test_without_text_only_bytes_count(body: bytes) -> None:
    """An empty page, one drawn by scripts and one nested too deep for the parser are compared by their bytes."""
    assert digest(body, HTML).text is None


def test_other_types_are_bytes() -> None:
    """What is neither HTML nor a readable document is compared by its bytes, even where it looks like markup."""
    assert digest(b"<p>x</p>", "image/png").text is None
    assert digest(b'{"a": 1', "application/json").text is None
    assert digest(b"a { color: red }", "text/css").text is None


def test_undeclared_html_is_recognised() -> None:
    """Without a declared type, a body that begins like HTML is HTML."""
    assert digest(b"\n<!DOCTYPE html><p>x", None).text is not None
    assert digest(b"plain words", None).text is None


def test_raw_rule() -> None:
    """A raw rule looks at nothing but bytes."""
    assert text_of(STEADY, DigestRule(mode="raw")) is None


def test_only_and_ignore() -> None:
    """`only` keeps what its selector finds, `ignore` leaves elements out, `ignore_text` leaves words out."""
    rule = DigestRule(only="main", ignore=[".ad", "time"], ignore_text=[r"\d+ views"])
    body = "<nav>{}</nav><main><p>Steady</p><p class=ad>{}</p>By <time>{}</time><p>{} views of it</p></main>"
    assert text_of(body.replace("{}", "1"), rule) == text_of(body.replace("{}", "22"), rule)
    assert text_of(body.replace("Steady", "New"), rule) != text_of(body, rule)


def test_only_that_finds_nothing_means_the_whole_page() -> None:
    """A selector that a redesign made useless does not freeze the page."""
    rule = DigestRule(only="#gone")
    assert text_of("<p>a</p>", rule) != text_of("<p>b</p>", rule)


def test_block_numbers_tell_their_length() -> None:
    """A block's length is in its number, within 5 %."""
    for length in (1, 10, 333, 12_345):
        assert block_length(block_number("x" * length)) == pytest.approx(length, rel=0.05)


def test_many_blocks_are_grouped_by_content() -> None:
    """A text of very many blocks is remembered as few, and a block put in at the front moves only its own group."""
    blocks = [f"line {n}" for n in range(20_000)]
    before, after = grouped(blocks), grouped(["new", *blocks])
    assert len(before) <= DIGEST_LIMITS.max_blocks
    assert len(set(before) ^ set(after)) <= 2


def test_known_bytes_are_not_read_again() -> None:
    """The bytes of a known digest have that digest; other bytes are read."""
    known = digest(STEADY.encode(), HTML)
    assert digest(STEADY.encode(), HTML, known=known) is known
    assert digest(b"<p>other</p>", HTML, known=known) == digest(b"<p>other</p>", HTML)
