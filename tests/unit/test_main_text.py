"""The main text of a page: what is content counts, what is frame does not."""

import pytest

from crawld.read.page.digest import digest
from crawld.read.page.markup import PageText, page_text
from crawld.read.page.rules import DigestRule
from tests.support.generator_pages import ARTICLE, PAGES, build, places

HTML = "text/html; charset=utf-8"


def text_of(body: str | bytes, **rule: object) -> PageText:
    """What is compared of a page."""
    data = body.encode() if isinstance(body, str) else body
    found = page_text(data, HTML, DigestRule(**rule))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("name", PAGES)
def test_an_edit_of_the_content_counts(name: str) -> None:
    """Another word anywhere in the content, the title and the article's own header and footer is a change."""
    page = PAGES[name]
    before = digest(build(page), HTML)
    for place in range(places(page, "content")):
        assert digest(build(page, "content", place), HTML).text != before.text, f"content {place}"


@pytest.mark.parametrize("name", [name for name in PAGES if places(PAGES[name], "frame")])
def test_an_edit_of_the_frame_does_not_count(name: str) -> None:
    """Another word in the menus, header, footer and sidebars of the page is a change in mode text alone."""
    page = PAGES[name]
    before = digest(build(page), HTML)
    for place in range(places(page, "frame")):
        edited = build(page, "frame", place)
        assert digest(edited, HTML).text == before.text, f"frame {place}"
        assert text_of(edited, mode="text").blocks != text_of(build(page), mode="text").blocks


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_lost(name: str) -> None:
    """What is compared and what was left out together are as many blocks as the page has."""
    body = build(PAGES[name])
    main, text = text_of(body), text_of(body, mode="text")
    assert len(main.blocks) + sum(main.left_out.values()) >= len(text.blocks)
    assert not main.whole


def test_what_was_left_out_is_counted_by_kind() -> None:
    """Blocks left out are counted by the element that says what they are."""
    frame = "<header>h<nav><ul><li>a<li>b</ul></nav></header>"
    found = text_of(f"{frame}<main><p>{ARTICLE}</p><p hidden>x</p></main><footer>f</footer>z")
    assert found.blocks == [ARTICLE]
    assert found.left_out == {"nav": 2, "header": 1, "hidden": 1, "footer": 1, "outside main": 1}


@pytest.mark.parametrize("mode", ["main", "text"])
def test_the_title_is_the_first_block(mode: str) -> None:
    """The title of the document comes first and whole, wherever it stands, and is told apart from the text."""
    page = f"<p>{ARTICLE}</p><title>Page | \n The  Site 1.2</title>"
    found = text_of(page, mode=mode)
    assert found.blocks == ["Page | The Site 1.2", ARTICLE]
    assert found.titled
    assert not text_of(f"<p>{ARTICLE}</p>", mode=mode).titled


@pytest.mark.parametrize(
    "page",
    [
        "<title>t</title><nav>" + "<p>All of the page is in here.</p>" * 40 + "</nav>",
        "<title>t</title><header><a>Skip</a>" + "<p>All of the page is in here.</p>" * 40 + "</header><main></main>",
        "<main>Loading…</main><aside>" + "<p>All of the page is in here.</p>" * 40 + "</aside>",
    ],
    ids=["nothing but navigation", "an empty main", "next to nothing in main"],
)
def test_a_page_without_content_is_compared_whole(page: str) -> None:
    """Where next to nothing would be left, the whole visible text is compared."""
    found = text_of(page)
    assert found.whole
    assert found.blocks == text_of(page, mode="text").blocks
    assert found.left_out == {}


def test_a_short_page_is_not_compared_whole() -> None:
    """A few words of content beside a menu are the content."""
    found = text_of("<nav>" + "<a>Another entry</a> " * 10 + "</nav><main><p>Not yet.</p></main>")
    assert (found.blocks, found.whole) == (["Not yet."], False)


def test_a_main_part_that_holds_nothing_gives_way_to_what_is_around_it() -> None:
    """Where main is next to empty, all that is not the frame is compared, and the frame still is not."""
    found = text_of(f"<nav>menu</nav><main>…</main><div>{ARTICLE * 20}</div>")
    assert found.blocks == ["…", ARTICLE * 20]
    assert (found.left_out, found.whole) == ({"nav": 1}, False)


def test_without_marks_of_structure_main_is_text() -> None:
    """A page that does not say what its parts are is compared by all of its visible text."""
    page = f"<div><a>Home</a></div><h1>Title</h1><p>{ARTICLE}</p>"
    assert text_of(page).blocks == text_of(page, mode="text").blocks


def test_a_header_with_the_only_heading_stays() -> None:
    """The page's title in a header at the top counts, the lists and links beside it do not."""
    header = "<header><h1>{}</h1><p>by {}</p><ul><li><a>{}</a></ul><a>{}</a></header>"
    page = f"{header}<main><p>{ARTICLE}</p></main>"
    assert text_of(page.format("T", "A", "L", "M")).blocks == ["T", "by A", ARTICLE]
    page = f"{header}<main><h1>Own</h1><p>{ARTICLE}</p></main>"
    assert text_of(page.format("Site", "A", "L", "M")).blocks == ["Own", ARTICLE]


def test_words_of_neighbours_stay_apart() -> None:
    """Where a part between two blocks is left out, they are still two."""
    found = text_of(
        f"<main>{ARTICLE}</main><nav>n</nav><main>two</main><h1 hidden>h</h1><main>three<nav>n</nav>four</main>"
    )
    assert found.blocks == [ARTICLE, "two", "three", "four"]


def test_only_goes_before_main() -> None:
    """`only` looks at what the operator chose, though it is in the frame; `ignore` leaves out a part of the content."""
    page = f"<nav id=n>menu <b>x</b></nav><main><p>{ARTICLE}</p><p class=ad>buy</p></main>"
    assert text_of(page, only="#n").blocks == ["menu x"]
    assert text_of(page, only="#n", ignore=["b"]).blocks == ["menu"]
    assert text_of(page, only="#gone", ignore=[".ad"]).blocks == [ARTICLE]


def test_marks_of_our_own_in_a_page_are_text() -> None:
    """A page with the noncharacters that mark parts inside has its text all the same."""
    marks = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    page = f"<main><p>{marks}</p><p>{ARTICLE}</p></main>"
    assert text_of(page).blocks[-1] == ARTICLE
    references = "".join(f"&#{ord(mark)};" for mark in marks)
    first, second = (digest(f"<main><p>{references}</p><p>{word}</p></main>".encode(), HTML) for word in "ab")
    assert first.raw != second.raw


@pytest.mark.parametrize(
    "markup",
    [
        "<header><h1>x</h1><a>y</a></header>" * 20_000,
        "<div>" * 1_900 + "<aside class=note>x</aside><div class=sidebar>y</div>" * 20_000,
        "<article>" + "<div>" * 1_900 + "<div class=sidebar>y</div>" * 40_000,
        "<p role=navigation hidden style='display:none'>x" * 60_000,
        "".join(f"<i style='display:none;a:{n}'>x</i>" for n in range(40_000)),
        "<p style='" + "display:none;/*" * 200_000 + "'>x</p>",
        "<svg>" * 1_900 + "<title>x</title>" * 60_000,
        "<title>" + " " * 1_000_000 + "- x" + " - " * 300_000 + "</title>",
        "<pre>" + " \n\t" * 1_000_000 + "</pre>",
        "<header>" + "<div>" * 1_900 + "<a>y</a>" * 40_000 + "<h1>x",
        "\ufdd0\ufdd1\ufdeb\ufdec\ufded" * 100_000,
    ],
    ids=[
        "headers",
        "names",
        "names in an article",
        "attributes",
        "styles",
        "style",
        "icons",
        "title",
        "spaces",
        "links",
        "marks",
    ],
)
def test_structure_made_to_be_slow(markup: str) -> None:
    """Structure that would be slow to make out is read all the same, and an edit of the text shows."""
    first, second = (digest(f"{markup}<main><p>{ARTICLE}{word}".encode(), HTML) for word in ("one", "two"))
    assert first.raw != second.raw
    assert None not in (first.text, second.text)
    assert first.text != second.text
