"""Attacks by pages: what costs a reader of HTML, or whoever compares two versions, far more than it weighs."""

import gzip
from collections.abc import Callable, Iterable, Sequence
from random import Random

from tests.support.attacks.attack import Answers, Attack, in_turn, long_name, one_page_each
from tests.support.behaviours import answer, bomb

HOSTS = 20
VERSIONS = 8
REVISITS = 40.0  # seconds in which a page that changes comes up several times
ON_THE_LOOP, LARGE, LARGEST = 92_000, 500_000, 9_900_000  # bytes; the last is just below fetch.max_bytes
WORDS = [f"w{number:x}" for number in range(5000)]


def _document(inner: str) -> str:
    return f"<!doctype html><html><head><title>x</title></head><body>{inner}</body></html>"


def _pages(make: Callable[[], Iterable[str]]) -> Answers:
    """Every page of the attack is one of these, in turn; they are made where they are served."""
    return lambda _: {"p": in_turn([answer(body) for body in make()])}


def _paragraphs(blocks: Sequence[str]) -> str:
    return _document("".join(f"<p>{block}</p>" for block in blocks))


def _words_moved(bytes_: int, blocks: int) -> list[str]:
    """Versions of one text in which every block keeps its words and has them in another order."""
    random = Random(bytes_)
    length = bytes_ // blocks // 6
    vocabulary = WORDS[:40]  # few words, repeated: nothing is unique, everything could fit everywhere
    texts = [[random.choice(vocabulary) for _ in range(length)] for _ in range(blocks)]
    made = []
    for _ in range(VERSIONS):
        for words in texts:
            random.shuffle(words)
        made.append(_paragraphs([" ".join(words) for words in texts]))
    return made


def _blocks_moved(count: int) -> list[str]:
    """Versions of a page of many short blocks: a third stays, a third moves, a third is new, none in groups."""
    random = Random(count)
    base = [f"{random.choice(WORDS)} {number}" for number in range(count)]
    made = []
    for version in range(VERSIONS):
        moved = base[1::3]
        random.shuffle(moved)
        blocks = [
            text if number % 3 == 0 else moved.pop() if number % 3 == 1 and moved else f"{text} {version}"
            for number, text in enumerate(base)
        ]
        made.append(_paragraphs(blocks))
    return made


def _blocks_repeated(count: int) -> list[str]:
    """Versions of a page of many blocks of which none is unique: there is nothing to hold two versions together."""
    random = Random(count)
    few = [f"line {word}" for word in WORDS[:50]]
    return [_paragraphs([random.choice(few) for _ in range(count)]) for _ in range(VERSIONS)]


def _filled(unit: str, size: int, around: str = "{}") -> str:
    return _document(around.format(unit * (size // len(unit))))


def _attributes(size: int) -> str:
    """Tags with attributes by the thousand, each named twice."""
    names = " ".join(f"a{number % (size // 20)}=x" for number in range(size // 10))
    return _document(f"<p {names}>text</p>")


def _many_attributed_tags(size: int) -> str:
    tag = "<p " + " ".join(f"b{number}" for number in range(200)) + ">x"
    return _document(tag * (size // len(tag)))


def _formatting(size: int) -> str:
    """Formatting elements that are never closed and must be opened again in every paragraph."""
    opened = "".join(f"<b class=c{number}><i id=i{number}><a href=/{number}>" for number in range(40))
    unit = "<p>x<table><td>"
    return _document(opened + unit * ((size - len(opened)) // len(unit)))


def _misnested(size: int) -> str:
    unit = "<b><p></b><i><p></i><a><p></a><font><div></font>x"
    return _document(unit * (size // len(unit)))


def _tables(size: int) -> str:
    unit = "<table>x<tr>y<table>z"
    return _document(unit * (size // len(unit)))


def _dates(seed: int) -> str:
    random = Random(seed)
    kinds = ("{} minutes ago", "12:{:02d}", "{} views", "€ {}.99", "2026-01-{:02d}", "in {} days", "3 March 20{:02d}")
    texts = [" ".join(random.choice(kinds).format(random.randrange(28) + 1) for _ in range(20)) for _ in range(300)]
    return _paragraphs(texts)


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode())


PAGE_ATTACKS = (
    Attack(
        "second_look_diff",
        "Pages of 5 KB and 90 KB keep their words and put them into another order at every fetch.",
        one_page_each(HOSTS),
        _pages(lambda: (*_words_moved(5_000, 1), *_words_moved(90_000, 30))),
        least_seconds=REVISITS,
    ),
    Attack(
        "second_look_places",
        "Pages of 5 KB hold a hundred blocks whose words move at every fetch.",
        one_page_each(HOSTS),
        _pages(lambda: _words_moved(5_000, 100)),
        least_seconds=REVISITS,
    ),
    Attack(
        "blocks",
        "Pages of 10,000 blocks, a third of which moves and a third of which is new at every fetch.",
        one_page_each(HOSTS),
        _pages(lambda: _blocks_moved(10_000)),
        least_seconds=REVISITS,
    ),
    Attack(
        "blocks_repeated",
        "Pages of 10,000 blocks drawn anew from fifty at every fetch: no block is unique.",
        one_page_each(HOSTS),
        _pages(lambda: _blocks_repeated(10_000)),
        least_seconds=REVISITS,
    ),
    Attack(
        "html_attributes",
        "Pages of 92 KB and 500 KB are one tag with thousands of attributes, each named twice.",
        one_page_each(HOSTS),
        _pages(lambda: [_attributes(ON_THE_LOOP), _attributes(LARGE), _many_attributed_tags(LARGE)]),
    ),
    Attack(
        "html_nesting",
        "Pages of 92 KB and 500 KB nest elements as deep as they are long.",
        one_page_each(HOSTS),
        _pages(lambda: [_filled(unit, size) for unit in ("<div>", "<ul><li>") for size in (ON_THE_LOOP, LARGE)]),
    ),
    Attack(
        "html_formatting",
        "Pages of 92 KB and 500 KB leave formatting elements open, which every paragraph and table has to open again.",
        one_page_each(HOSTS),
        _pages(lambda: [made(size) for made in (_formatting, _misnested, _tables) for size in (ON_THE_LOOP, LARGE)]),
    ),
    Attack(
        "html_huge",
        "Pages of 9.9 MB: short paragraphs, one text without a space, and entities.",
        one_page_each(8),
        _pages(lambda: [_filled(unit, LARGEST) for unit in ("<p>word ", "x", "&amp;&lt;")]),
    ),
    Attack(
        "html_links",
        "Pages whose heads are full of links to feeds: never closed, many, or with long international names.",
        one_page_each(HOSTS),
        _pages(
            lambda: [
                _filled("<link rel=alternate type=application/rss+xml href=//a.b/c ", ON_THE_LOOP),
                _filled("<link a=" + "x" * 1_990 + "<", ON_THE_LOOP),
                _filled("<link rel=alternate type=application/rss+xml href=/feed/x>", ON_THE_LOOP),
                _filled(f"<link rel=alternate type=application/rss+xml href={long_name(1_900)}>", ON_THE_LOOP),
            ]
        ),
    ),
    Attack(
        "text_dates",
        "Pages of plain words that all look like dates, counters and prices, other ones at every fetch.",
        one_page_each(HOSTS),
        _pages(lambda: map(_dates, range(VERSIONS))),
        least_seconds=REVISITS,
    ),
    Attack(
        "gzip_body",
        "Pages of some 200 KB that unpack to 200 MB, in gzip, Brotli and Zstandard.",
        one_page_each(HOSTS),
        lambda _: {
            "p": in_turn([answer(bomb(name, 200), Content_Encoding=name) for name in ("gzip", "br", "zstd")]),
        },
    ),
    Attack(
        "gzip_largest",
        "Pages of some 10 KB that unpack to 9.9 MB of markup, just what is let in.",
        one_page_each(HOSTS),
        lambda _: {"p": answer(_packed(_filled("<p>a</p>", LARGEST)), Content_Encoding="gzip")},
    ),
)
"""Attacks that need no more than a page in somebody's list."""
