"""What a body costs is seen from its bytes: what is cheap is cheap whatever is in it, and no page costs its square."""

import random
import time

import pytest

from crawld.read.page.cost import LIMITS as COST_LIMITS
from crawld.read.page.cost import is_cheap, is_readable
from crawld.read.page.digest import digest, read_body
from crawld.read.page.rules import DigestRule
from tests.support.fuzz.bombs import BOMBS

HTML = "text/html"
PIECES = (
    b"<a ", b"<a", b"<div>", b"</div>", b"<p>", b"</p>", b"<b 0>", b" a", b" b=", b'="', b'"', b"'", b"='", b">", b"/",
    b"<!--", b"-->", b"<script>", b"</script>", b"<title>", b" - ", b"&amp;", b"&", b"12:30 ", b"x12:30",
    b"3 hours ago", b"1 ", b"1,", b"$1 ", b"word ", b"<pre>", b"\n", b"<svg>", b"<table><td>", b"<li>",
    b"<h1>", b"<aside>", b" hidden",
    b' style="display:none"', b" role=main", b"<header>", b"<main>", b"<nav>", b'<div class="sidebar">', b"\xc3\xa9",
)  # fmt: skip


def seconds(body: bytes, rule: DigestRule | None = None) -> float:
    """Processor time of reading a body, the best of a few."""
    rule = rule or DigestRule()
    took = []
    for _ in range(2):
        began = time.process_time()
        read_body(body, HTML, rule)
        took.append(time.process_time() - began)
    return min(took)


def honest(size: int) -> bytes:
    """A page such as people write, of at least so many bytes."""
    card = b'<div class="card"><h2><a href="/page/%d">Entry %d</a></h2><p>Some words of text, and more.</p></div>\n'
    return b"".join(card % (number, number) for number in range(size // 90 + 1))


@pytest.mark.parametrize("name", BOMBS)
def test_reading_takes_time_by_size_and_not_by_its_square(name: str) -> None:
    """Four times the bytes cost no more than some eight times the work, and no more than a page made of bare tags."""
    small, large = BOMBS[name](12_000), BOMBS[name](48_000)
    if digest(large, HTML).text is None and digest(small, HTML).text is not None:
        return  # compared by its bytes: that is what bounds it
    floor = seconds(b"<p>x" * 4_000)
    assert seconds(large) <= 8 * seconds(small) + floor


def made(rng: random.Random) -> bytes:
    """A heap of a few pieces, each repeated, as large as what is cheap may be."""
    chosen = [rng.choice(PIECES) * rng.choice((1, 1, 2, 8, 60)) for _ in range(rng.randint(1, 6))]
    body = b"".join(chosen)
    return (body * (COST_LIMITS.cheap_bytes // len(body) + 1))[: rng.choice((2_000, COST_LIMITS.cheap_bytes))]


def test_what_is_called_cheap_is_cheap() -> None:
    """No heap of hostile pieces that is called cheap costs more than a few honest pages of the largest cheap size."""
    rng = random.Random(12)
    page = (
        honest(COST_LIMITS.cheap_bytes)[: COST_LIMITS.cheap_bytes]
        .replace(b"<h2>", b"")
        .replace(b"</h2>", b"")
        .replace(b"</a>", b"")
    )
    while not is_cheap(page):
        page = page[: len(page) * 9 // 10]
    unit = seconds(page)
    heaps = [body for body in (made(rng) for _ in range(1_500)) if is_cheap(body)]
    assert len(heaps) > 50  # the search is not empty
    once = sorted(heaps, key=_once, reverse=True)[:5]
    assert max(map(seconds, once)) <= 12 * unit


def _once(body: bytes) -> float:
    began = time.process_time()
    read_body(body, HTML)
    return time.process_time() - began


@pytest.mark.parametrize(
    ("body", "cheap"),
    [
        (b"<p>text</p>", True),
        (b"x" * COST_LIMITS.cheap_bytes, True),
        (b"x" * (COST_LIMITS.cheap_bytes + 1), False),
        (b"<p>" * COST_LIMITS.cheap_tags, True),
        (b"<p>" * (COST_LIMITS.cheap_tags + 1), False),
        (b"<p" + b" a" * (COST_LIMITS.cheap_attributes - 1) + b">", True),
        (b"<p" + b" a" * COST_LIMITS.cheap_attributes + b">", False),
        (b'<!-- <a x=" --><p' + b" a" * COST_LIMITS.cheap_attributes + b'>"', False),
        (b"<p" + b' a=">"' * COST_LIMITS.cheap_attributes + b">", False),
        (b"<p" + b"/a" * COST_LIMITS.cheap_attributes + b">", False),
        (b"<p>x".decode().encode("utf-16-le"), False),
    ],
)
def test_bounds_of_what_is_cheap(body: bytes, cheap: bool) -> None:
    """A small body of few tags with few attributes is cheap; quotes, comments and charsets hide nothing."""
    assert is_cheap(body) is cheap


def test_attributes_without_number_are_compared_by_bytes() -> None:
    """A tag of more attributes than people write is not given to the parser; as many in many tags are."""
    many = b"".join(b"a%d " % number for number in range(COST_LIMITS.max_attributes + 1))
    assert digest(b"<p " + many + b">text", HTML).text is None
    assert digest(b"<P X='>' " + many.replace(b" ", b"=1\n") + b">text", HTML).text is None
    assert digest((b"<p " + many[:500] + b">text") * 20, HTML).text is not None
    utf16 = ("<p " + many.decode() + ">text").encode("utf-16")
    assert digest(utf16, HTML).text is None


@pytest.mark.parametrize(
    "inside", [b"<!-- <p %s> -->", b"<script>i<n; %s</script>", b"<style>a<b %s</style>", b"<p title='%s'>"]
)
def test_what_only_looks_like_attributes(inside: bytes) -> None:
    """Words in comments, programs and quotes are no attributes, however many there are."""
    page = inside % (b"word " * 2_000) + b"<p>text"
    assert is_readable(page, selected=False)
    assert digest(page, HTML).text is not None


def test_stray_end_tags_in_deep_markup_are_compared_by_bytes() -> None:
    """End tags that close nothing are read, but not by the thousand in markup of great depth."""
    stray = b"</i>" * (COST_LIMITS.max_stray_ends + 1)
    assert digest(b"<div>" * 100 + b"text" + stray, HTML).text is not None
    assert digest(b"<div>" * 1_000 + b"text" + stray, HTML).text is None
    assert digest(b"<div>" * 1_000 + b"text" + b"<i>x</i>" * (COST_LIMITS.max_stray_ends + 1), HTML).text is not None


def test_a_tree_that_would_not_fit_is_not_made() -> None:
    """A large page of so many attributes that its tree would fill a worker is compared by its bytes."""
    card = b'<i a="1" b="2" c="3" d="4">x</i>'
    assert digest(card * 10_000, HTML).text is not None
    assert digest(card * 140_000, HTML).text is None
