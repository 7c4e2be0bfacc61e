"""A body read in another process is judged as if it had been read here, and costs the event loop little."""

import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.crawl.judge import Judgement, is_simple, judge, learn_from_pair, read, read_apart
from crawld.model.crawl import Memory
from crawld.model.fetched import Fetched
from crawld.read.change.frame import HostFrame, newest_that_fit
from crawld.read.page.digest import Reading
from crawld.read.page.head import Head
from crawld.read.page.rules import DigestRule

URL, HTML = "https://example.org/", "text/html"
RULE = DigestRule()
HOUR = 3600.0
WORDS = ("1", "12:30", "3 hours ago", "$5", "news", "17 views", "a-1", "1,234", "2024-01-01", "word")


def page(blocks: list[str]) -> bytes:
    """A page of these blocks."""
    return "".join(f"<p>{block}</p>" for block in blocks).encode()


def noisy(seed: int, visit: int, count: int) -> list[str]:
    """The blocks of a page of which some vary, some are lost and some move."""
    steady, now = random.Random(seed), random.Random(seed * 1000 + visit)
    blocks = [f"steady {n} {steady.random()}" for n in range(count)]
    for at in steady.sample(range(count), count // 3):
        blocks[at] = " ".join(now.choice(WORDS) for _ in range(now.choice((3, 3, 3, 4))))
    if now.random() < 0.3:
        del blocks[now.randrange(count)]
    if now.random() < 0.3:
        blocks.append(blocks.pop(now.randrange(len(blocks))))
    return blocks


def apart(body: bytes, memory: Memory | None, at: float) -> Reading:
    """What comes back from another process."""
    found: Reading = pickle.loads(pickle.dumps(read_apart(URL, body, HTML, memory, RULE, at)))
    return found


def both_ways(body: bytes, memory: Memory | None, at: float, frame: HostFrame) -> tuple[Judgement, Judgement]:
    """The judgement of a page read here, and read elsewhere."""
    answer = Fetched(URL, 200, body, {"content-type": HTML})
    here = judge(1, at, answer, memory, RULE, read(answer, memory, RULE, at), frame)
    return here, judge(1, at, answer, memory, RULE, apart(body, memory, at), frame)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([6, 30, 90]), st.booleans())
def test_what_is_read_elsewhere_is_judged_as_if_read_here(seed: int, count: int, framed: bool) -> None:
    """Over several visits with pairs of fetches, verdict, magnitude and places are the same either way."""
    memory: Memory | None = None
    frame = HostFrame("example.org")
    for visit in range(5):
        at = 1.79e9 + visit * HOUR
        body = page(noisy(seed, visit, count))
        here, there = both_ways(body, memory, at, frame)
        assert (here.verdict, here.magnitude, here.memory) == (there.verdict, there.magnitude, there.memory)
        assert (here.frame_lost, here.frame_gained) == (there.frame_lost, there.frame_gained)
        first = Fetched(URL, 200, body, {"content-type": HTML})
        second = page(noisy(seed, visit + 100, count))
        if here.memory is not None:
            again = Fetched(URL, 200, second, {"content-type": HTML})
            pair = learn_from_pair(here, read(first, memory, RULE, at), read(again, here.memory, RULE, at + 1))
            elsewhere = learn_from_pair(there, apart(body, memory, at), apart(second, there.memory, at + 1))
            assert pair.memory == elsewhere.memory
        memory = here.memory or memory
        if framed:
            for other in range(2, 6):
                frame.see(other, None, read(first, None, RULE, at).digest, at)


@pytest.mark.parametrize("letters", [10_000, 4_000_000])
def test_what_comes_back_does_not_grow_with_the_text(letters: int) -> None:
    """A page of megabytes comes back as its numbers, not as its text."""
    body = page([f"{n} " + "word " * (letters // 50) for n in range(10)])
    memory = both_ways(page(["another page"]), None, 0.0, HostFrame("example.org"))[0].memory
    assert len(pickle.dumps(read_apart(URL, body, HTML, memory, RULE, HOUR))) < 40_000


def test_the_head_is_read_where_the_page_is_read() -> None:
    """The feeds and the canonical address of a page come with its reading, at its first visit and at later ones."""
    body = b'<link rel=alternate type="application/rss+xml" href="/feed"><link rel=canonical href="/a"><p>text</p>'
    head = Head(("https://example.org/feed",), "https://example.org/a")
    first = apart(body, None, 0.0)
    assert first.head == head
    answer = Fetched(URL, 200, body, {"content-type": HTML})
    memory = judge(1, 0.0, answer, None, RULE, first).memory
    assert apart(body + b"<p>more", memory, HOUR).head == head


def test_much_text_that_differs_is_compared_elsewhere() -> None:
    """A small page that differs in a line is compared at once, one that differs in all of its text is not."""
    answer = Fetched(URL, 200, page([f"line {n} of the text" for n in range(200)]), {"content-type": HTML})
    memory = judge(1, 0.0, answer, None, RULE).memory
    for lines, simple in ((1, True), (200, False)):
        blocks = [f"line {n}{' again' if n < lines else ''} of the text" for n in range(200)]
        changed = Fetched(URL, 200, page(blocks), {"content-type": HTML})
        assert is_simple(read(changed, memory, RULE, HOUR), memory) is simple


def test_a_rule_is_compiled_once_wherever_it_is_sent() -> None:
    """A rule arrives by what was written, and twice the same rule is one object."""
    rule = DigestRule("example.org/*", only="p.x", ignore=("b", "i > a"), ignore_text=(r"\d+ views",), min_change=0.1)
    sent = pickle.dumps(rule)
    assert len(sent) < 300
    arrived, again = pickle.loads(sent), pickle.loads(sent)
    assert arrived == rule
    assert arrived is again
    body = b"<p class=x>7 views<b>no</b> text</p><p>out"
    assert read_apart(URL, body, HTML, None, arrived, 0.0).digest == read_apart(URL, body, HTML, None, rule, 0.0).digest


def test_a_frame_is_made_of_the_pages_it_can_hold() -> None:
    """Of pages with many blocks only the newest are taken, the same as if all had been."""
    pages = [(number, tuple(range(number * 1024, (number + 1) * 1024))) for number in range(256)]
    few = newest_that_fit(pages)
    assert len(few) == 64
    whole, quick = HostFrame("example.org", pages), HostFrame("example.org", few)
    assert len(whole) == len(quick)
    assert whole.weight == quick.weight
    assert newest_that_fit(pages[:3]) == pages[:3]
