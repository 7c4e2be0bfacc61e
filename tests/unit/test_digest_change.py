"""Two versions to a verdict."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.crawl.judge import judge
from crawld.model.crawl import Memory
from crawld.model.fetched import Fetched
from crawld.read.change.comparison import LIMITS as COMPARISON_LIMITS
from crawld.read.change.comparison import Comparison, compare, remember, share_changed
from crawld.read.page.digest import Reading, block_number, read_body
from crawld.read.page.rules import DigestRule

HTML = "text/html"
LONG = "A long paragraph that makes the small ones look small, as real pages have many of them. " * 5


def page(*paragraphs: str) -> Reading:
    """A page with these paragraphs, read."""
    return read_body("".join(f"<p>{text}</p>" for text in paragraphs).encode(), HTML)


def known(version: Reading) -> Memory:
    """The memory of a page that was last seen like this."""
    return Memory(1, 0.0, version.digest)


def visit(memory: Memory, version: Reading, at: float = 0.0) -> tuple[Comparison, Memory]:
    """Compare and remember, as the daemon does at each crawl."""
    comparison = compare(memory, version, at=at)
    return comparison, remember(memory, version.digest, comparison, at)


def test_same_bytes() -> None:
    """The same bytes are no change."""
    assert compare(known(page("a")), page("a")) == Comparison(changed=False, magnitude=0.0)


def test_same_text_in_other_bytes() -> None:
    """Other bytes around the same text are no change, unless the rule asks for bytes."""
    noisy = read_body(b"<!-- 17 --><p>a</p>", HTML)
    assert not compare(known(page("a")), noisy).changed
    assert compare(known(page("a")), noisy, DigestRule(mode="raw")).changed


def test_magnitude_weighs_length() -> None:
    """A counter beside a long text is a small change, another text a large one."""
    small = compare(known(page(LONG, "17 views")), page(LONG, "18 views"))
    large = compare(known(page(LONG, "17 views")), page(LONG[::-1], "17 views"))
    assert small.changed
    assert large.changed
    assert small.magnitude is not None
    assert large.magnitude is not None
    assert small.magnitude < 0.06
    assert large.magnitude > 0.9


def test_min_change_ignores_a_counter_but_not_drift() -> None:
    """Small changes do not count, until they have added up against the version remembered."""
    rule = DigestRule(min_change=0.1)
    memory = known(page(LONG, *"abcdefgh"))
    first = page(LONG, *"Xbcdefgh")
    assert not compare(memory, first, rule).changed
    memory = remember(memory, first.digest, compare(memory, first, rule), at=1.0)
    assert compare(memory, page(LONG, *(f"{letter} and quite some more" for letter in "abcdefgh")), rule).changed


def test_order_counts_but_weighs_nothing() -> None:
    """Paragraphs in another order are a change of no magnitude."""
    found = compare(known(page("a", "b")), page("b", "a"))
    assert (found.changed, found.magnitude) == (True, 0.0)


def test_bytes_have_no_magnitude() -> None:
    """Of bytes it is only known that they changed."""
    found = compare(known(read_body(b"1", "image/png")), read_body(b"2", "image/png"))
    assert (found.changed, found.magnitude) == (True, None)


def test_flip_back() -> None:
    """Going back to a version seen before is told, and only that."""
    memory = known(page("A"))
    first, memory = visit(memory, page("B"))
    second, memory = visit(memory, page("C"))
    third, memory = visit(memory, page("A"))
    fourth, memory = visit(memory, page("D"))
    assert [one.reverted for one in (first, second, third, fourth)] == [False, False, True, False]


def test_streak_and_versions_are_bounded() -> None:
    """The streak counts changes in a row, and of old versions a bounded number is remembered."""
    memory = known(page("word"))
    for number in range(2, 41):
        _, memory = visit(memory, page("word" * number), at=float(number))
    assert (memory.streak, len(memory.seen), memory.fetched_at) == (39, COMPARISON_LIMITS.versions_seen, 40.0)
    _, memory = visit(memory, page("word" * 40))
    assert memory.streak == 0


def test_a_page_that_is_all_noise_still_changes() -> None:
    """Where everything differs at every fetch, the page changes at every fetch; it does not freeze."""
    memory = known(page("17 views"))
    for number in range(20):
        comparison, memory = visit(memory, page(f"{number} views"), at=float(number))
        assert comparison.changed


BLOCKS = st.lists(st.sampled_from([block_number(text) for text in ("a", "bb", "c" * 100, "d" * 3000)]), max_size=30)


@given(BLOCKS, BLOCKS)
def test_magnitude_is_a_share(before: list[int], after: list[int]) -> None:
    """How much changed lies between 0 and 1, is the same both ways, and is 0 for the same blocks."""
    share = share_changed(before, after)
    assert 0.0 <= share <= 1.0
    assert share == pytest.approx(share_changed(after, before))
    assert share_changed(before, sorted(before)) == pytest.approx(0.0)


def test_a_digest_of_another_rule_is_another_scheme() -> None:
    """Digests tell what rule they were made by, so that a changed rule is not taken for changed pages."""
    body = b"<p>text</p>"
    schemes = {
        read_body(body, HTML, rule).digest.scheme
        for rule in (DigestRule(), DigestRule(mode="raw"), DigestRule(ignore=["b"]), DigestRule(only="main"))
    }
    assert len(schemes) == 4
    assert read_body(body, HTML, DigestRule(min_change=0.5)).digest.scheme in schemes
    assert replace(page("a").digest, scheme=0) != page("a").digest


def test_a_page_that_comes_back_is_the_one_it_was() -> None:
    """After a 404 the places that vary are still known, and the version of before is told as such."""
    memory = known(page(LONG, "Seen by 100 people"))
    for number in range(1, 20):
        _, memory = visit(memory, page(LONG, f"Seen by {100 + number} people"), at=3600.0 * number)
    assert memory.varying
    gone = judge(1, 80_000.0, Fetched("http://x/", 404), memory, DigestRule()).memory
    assert gone is not None
    back, after = visit(gone, page(LONG, "Seen by 500 people"), at=83_600.0)
    assert back.changed
    assert back.reverted
    assert {one & (1 << 48) - 1 for one in after.varying} == {one & (1 << 48) - 1 for one in memory.varying}
