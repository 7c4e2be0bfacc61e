"""Two digests to a verdict."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.content.change import VERSIONS_SEEN, Comparison, compare, remember, share_changed
from crawld.content.digest import block_number, digest
from crawld.content.rules import DigestRule
from crawld.content.volatile import MOST_PLACES, add_places, steady_blocks, volatile_places
from crawld.model.crawl import Digest, Memory

HTML = "text/html"
LONG = "A long paragraph that makes the small ones look small, as real pages have many of them. " * 5


def page(*paragraphs: str) -> Digest:
    """The digest of a page with these paragraphs."""
    return digest("".join(f"<p>{text}</p>" for text in paragraphs).encode(), HTML)


def known(version: Digest, **more: object) -> Memory:
    """The memory of a page that was last seen like this."""
    return replace(Memory(1, 0.0, version), **more)  # type: ignore[arg-type]


def visit(memory: Memory, version: Digest, at: float = 0.0) -> tuple[Comparison, Memory]:
    """Compare and remember, as the daemon does at each crawl."""
    comparison = compare(memory, version)
    return comparison, remember(memory, version, comparison, at)


def test_same_bytes() -> None:
    """The same bytes are no change."""
    assert compare(known(page("a")), page("a")) == Comparison(changed=False, magnitude=0.0)


def test_same_text_in_other_bytes() -> None:
    """Other bytes around the same text are no change, unless the rule asks for bytes."""
    noisy = digest(b"<!-- 17 --><p>a</p>", HTML)
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
    memory = remember(memory, first, compare(memory, first, rule), at=1.0)
    assert compare(memory, page(LONG, *(f"{letter} and quite some more" for letter in "abcdefgh")), rule).changed


def test_order_counts_but_weighs_nothing() -> None:
    """Paragraphs in another order are a change of no magnitude."""
    assert compare(known(page("a", "b")), page("b", "a")) == Comparison(changed=True, magnitude=0.0)


def test_bytes_have_no_magnitude() -> None:
    """Of bytes it is only known that they changed."""
    assert compare(known(digest(b"1", "image/png")), digest(b"2", "image/png")) == Comparison(changed=True)


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
    memory = known(page("0"))
    for number in range(1, 40):
        _, memory = visit(memory, page(str(number)), at=float(number))
    assert (memory.streak, len(memory.seen), memory.fetched_at) == (39, VERSIONS_SEEN, 39.0)
    _, memory = visit(memory, page("39"))
    assert memory.streak == 0


def test_volatile_blocks_are_learnt_by_place() -> None:
    """What differed in two fetches at once is left out later, though it never looks the same again."""
    places = volatile_places(page("top", LONG, "quote 1", "end"), page("top", LONG, "quote 2", "end"))
    memory = known(page("top", LONG, "quote 3", "end"), volatile=places)
    same = compare(memory, page("top", LONG, "quote 4", "end"))
    assert (same.changed, same.left_out) == (False, 1)
    assert compare(memory, page("top!", LONG, "quote 5", "end")).changed
    assert compare(memory, page("top", LONG, "quote 6", "more", "end")).changed


def test_volatile_places_survive_changes_on_one_side() -> None:
    """A place is known by both its neighbours, so one of them may change."""
    places = volatile_places(page("a", "x1", "b"), page("a", "x2", "b"))
    memory = known(page("new", "x3", "b"), volatile=places)
    assert not compare(memory, page("new", "x4", "b")).changed
    memory = known(page("a", "x3", "new"), volatile=places)
    assert not compare(memory, page("a", "x4", "new")).changed


def test_repeated_lines_mark_no_place() -> None:
    """A line that stands beside many blocks does not hide them all."""
    places = volatile_places(
        page("h", "more", "one", "more", "x1", "more", "two", "more", "end"),
        page("h", "more", "one", "more", "x2", "more", "two", "more", "end"),
    )
    memory = known(page("h", "more", "one", "more", "x3", "more", "two", "more", "end"), volatile=places)
    assert not compare(memory, page("h", "more", "one", "more", "x4", "more", "two", "more", "end")).changed
    assert compare(memory, page("h", "more", "ONE", "more", "x5", "more", "two", "more", "end")).changed


def test_a_page_that_is_all_volatile_still_changes() -> None:
    """Where everything differs at every fetch, the page changes at every fetch; it does not freeze."""
    memory = known(page("quote 3"), volatile=volatile_places(page("quote 1"), page("quote 2")))
    assert compare(memory, page("quote 4")).changed


def test_places_are_bounded() -> None:
    """Of many places the newest are remembered."""
    assert add_places((1, 2), (3, 1)) == (3, 1, 2)
    assert add_places(range(5000), (7_000,)) == (7_000, *range(MOST_PLACES - 1))


def test_flip_back_beside_a_volatile_block() -> None:
    """A version is known again although its volatile block never is."""
    places = volatile_places(page("top", "q1", LONG), page("top", "q2", LONG))
    memory = known(page("top", "q3", LONG), volatile=places)
    _, memory = visit(memory, page("top", "q4", LONG + "!"))
    back, _ = visit(memory, page("top", "q5", LONG))
    assert back.reverted


def test_steady_pages_have_no_volatile_places() -> None:
    """Two fetches alike teach nothing."""
    assert volatile_places(page("a", "b"), page("a", "b")) == ()


BLOCKS = st.lists(st.sampled_from([block_number(text) for text in ("a", "bb", "c" * 100, "d" * 3000)]), max_size=30)


@given(BLOCKS, BLOCKS)
def test_magnitude_is_a_share(before: list[int], after: list[int]) -> None:
    """How much changed lies between 0 and 1, is the same both ways, and is 0 for the same blocks."""
    share = share_changed(before, after)
    assert 0.0 <= share <= 1.0
    assert share == pytest.approx(share_changed(after, before))
    assert share_changed(before, sorted(before)) == pytest.approx(0.0)


@given(BLOCKS, BLOCKS)
def test_learning_never_breaks(first: list[int], second: list[int]) -> None:
    """Any two digests give places that databases can keep, and only blocks of the page remain steady."""
    places = volatile_places(Digest(b"", b"", tuple(first)), Digest(b"", b"", tuple(second)))
    assert all(0 <= place < 2**63 for place in places)
    assert set(steady_blocks(first, places)) <= set(first)


def test_what_stays_the_same_is_not_volatile() -> None:
    """A block taken for noise because it changed between two quick fetches counts again once it has stood still."""
    places = volatile_places(page("head", "version 4"), page("head", "version 5"))
    memory = known(page("head", "version 4"), volatile=places)
    comparison, memory = visit(memory, page("head", "version 5"))
    assert (comparison.changed, memory.volatile) == (False, places)
    comparison, memory = visit(memory, page("head", "version 5"))
    assert (comparison.changed, memory.volatile) == (False, ())
    assert visit(memory, page("head", "version 6"))[0].changed
