"""The frame of a host: what its pages share is the site's, what one page shows is its own."""

import random
from dataclasses import dataclass, field

import pytest

from crawld.crawl.host_frames import learn_visit
from crawld.crawl.judge import Judgement, judge, read
from crawld.model.crawl import Digest, Memory, Verdict
from crawld.model.fetched import Fetched, Trouble
from crawld.read.change.frame import HostFrame
from crawld.read.page.rules import DigestRule

RULE = DigestRule()
WORDS = ("value", "list", "field", "server", "table", "query", "module", "object", "stream", "buffer", "thread", "file")
MENU = ("Home", "Guide", "Reference", "Community", "Blog")
FOOTER = ("Contact us", "All rights reserved")


def article(number: int) -> tuple[str, ...]:
    """Some paragraphs of a page's own, around a heading that others have too."""
    rng = random.Random(number)
    text = [" ".join(rng.choice(WORDS) for _ in range(20)) for _ in range(4)]
    return (f"Page {number}", text[0], text[1], "Example", text[2], text[3], f"Price € {number}.50")


@dataclass(slots=True)
class Host:
    """The pages of a host as the daemon sees them: each visit is judged in the light of the others."""

    frame: HostFrame = field(default_factory=lambda: HostFrame("x"))
    memories: dict[int, Memory] = field(default_factory=dict)
    at: float = 0.0

    def visit(self, page: int, *blocks: str, title: str = "", main: bool = False) -> Judgement:
        """Visit a page that has these blocks now, perhaps in a main element."""
        inner = "".join(f"<div>{block}</div>" for block in blocks)
        return self.shows(
            page, (f"<title>{title}</title>" if title else "") + (f"<main>{inner}</main>" if main else inner)
        )

    def shows(self, page: int, body: str) -> Judgement:
        """Visit a page whose markup is this."""
        self.at += 10.0
        outcome = Fetched("http://x/", 200, body.encode(), {"content-type": "text/html"})
        memory = self.memories.get(page)
        judgement = judge(page, self.at, outcome, memory, RULE, read(outcome, memory, RULE, self.at), self.frame)
        learn_visit(self.frame, page, memory, judgement, self.at)
        if judgement.memory is not None:
            self.memories[page] = judgement.memory
        return judgement

    def changed(self, page: int, *blocks: str, title: str = "", main: bool = False) -> bool:
        """Whether the page counted as changed."""
        return self.visit(page, *blocks, title=title, main=main).verdict is Verdict.CHANGED


PAGES = range(12)


@pytest.fixture
def host() -> Host:
    """A host of twelve articles in one frame, each visited twice."""
    made = Host()
    for _ in range(2):
        for page in PAGES:
            made.visit(page, *MENU, *article(page), *FOOTER)
    return made


def test_an_entry_of_the_menu_is_the_sites(host: Host) -> None:
    """A menu that gains, loses or renames an entry changes no page, and every copy is renewed."""
    for menu in (("Home", "Guide", "New", *MENU[2:]), ("Home", *MENU[2:]), ("Home", "Book", *MENU[2:])):
        for page in PAGES:
            judgement = host.visit(page, *menu, *article(page), *FOOTER)
            assert judgement.verdict is Verdict.UNCHANGED
            assert judgement.body is not None
            assert judgement.frame_gained or judgement.frame_lost


def test_an_edit_of_an_article_is_the_pages(host: Host) -> None:
    """A word, a price, a paragraph more or less, and a shared heading edited on one page are changes of that page."""
    own = list(article(3))
    for at, text in ((1, own[1] + " indeed"), (6, "Price € 99.50"), (3, "Examples"), (0, "Page 3, second edition")):
        own[at] = text
        assert host.changed(3, *MENU, *own, *FOOTER)
    assert host.changed(3, *MENU, *own, "A paragraph at the end", *FOOTER)
    assert host.changed(3, *MENU, *own[:3], *own[4:], "A paragraph at the end", *FOOTER)


def test_an_edit_beside_an_edit_of_the_frame_is_seen(host: Host) -> None:
    """A page whose article and menu changed at once has changed, the others have not."""
    menu = ("Home", "Guide", "New", *MENU[2:])
    assert not host.changed(0, *menu, *article(0), *FOOTER)
    assert host.changed(1, *menu, *article(1), "One paragraph more of it", *FOOTER)
    assert not host.changed(2, *menu, *article(2), *FOOTER)


@pytest.mark.parametrize("main", [False, True])
@pytest.mark.parametrize("count", [2, 5, 12])
def test_the_same_edit_inside_the_text_of_many_pages_is_theirs(count: int, main: bool) -> None:
    """A line put between two blocks of each page's own, or into its main element, is a change of every page."""
    host = Host()
    for _ in range(2):
        for page in PAGES:
            host.visit(page, "Shop", "Details", *article(page), "Imprint", main=main)
    for page in PAGES:
        notice = ["Sold out"] if page < count else []
        own = article(page)
        top = ["Shop", *notice] if main else ["Shop"]
        changed = host.changed(page, *top, "Details", own[0], *notice, *own[1:], "Imprint", main=main)
        assert changed == (page < count)


def test_the_same_edit_of_many_pages_is_one_event_of_the_site(host: Host) -> None:
    """Once three pages show an edit, the event tells how many do."""
    events = []
    for page in PAGES[:5]:
        memory = host.memories[page]
        judgement = host.visit(page, *MENU, article(page)[0], "Sold out", *article(page)[1:], *FOOTER)
        assert judgement.seen is not None
        events.append(host.frame.shared_edit(page, memory.digest, judgement.seen, host.at))
    assert events[:2] == [None, None]
    assert [(event.kind, event.pages, event.gained) for event in events[2:] if event] == [
        ("content", 3, 1),
        ("content", 4, 1),
        ("content", 5, 1),
    ]


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("end", [False, True])
def test_neighbours_that_copy_an_edit_do_not_hide_it(host: Host, copies: int, end: bool) -> None:
    """A new paragraph is seen however soon a few other pages have copied it, inside the text and at its end."""
    added: list[str] = []
    for number in range(6):
        added.append(f"A new paragraph, which is number {number} of them")
        own = {page: article(page) for page in PAGES}
        blocks = {p: (*one, *added) if end else (*one[:2], *added, *one[2:]) for p, one in own.items()}
        for page in (*range(1, copies + 1), 0):
            assert host.changed(page, *MENU, *blocks[page], *FOOTER)
        for page in PAGES[copies + 1 :]:
            host.visit(page, *MENU, *article(page), *FOOTER)


def test_neighbours_that_copy_a_whole_page_make_it_no_error(host: Host) -> None:
    """A page whose new text others already show is changed and does not fail."""
    own = list(article(0))
    for number in range(5):
        own[1] = f"{article(0)[1]} {number}"
        for page in (1, 2, 3, 0):
            judgement = host.visit(page, *MENU, *own, *FOOTER)
        assert judgement.verdict is Verdict.CHANGED
        assert host.visit(0, *MENU, *own, *FOOTER).trouble is None


def test_pages_that_change_at_every_visit_prove_no_error() -> None:
    """A text that pages without a steady text turned to is no error page."""
    host = Host()
    for number in range(3):
        for page in PAGES:
            host.visit(page, *MENU, *article(page + 100 * number), *FOOTER)
    assert {host.visit(page, "Sorry", "Something went wrong.").trouble for page in PAGES} == {None}


@pytest.mark.parametrize("join", [" — ", " | ", " for ", " "])
def test_words_of_all_titles_are_the_sites(join: str) -> None:
    """A new version in the titles of all pages changes none of them; a new title of one page changes that one."""
    host = Host()
    for version in ("4.1", "4.1", "4.2", "4.3"):
        for page in PAGES:
            title = f"Page {page}{join}The Docs {version}"
            assert not host.changed(page, *MENU, *article(page), *FOOTER, title=title)
    assert host.changed(7, *MENU, *article(7), *FOOTER, title=f"Page 7 renamed{join}The Docs 4.3")


def test_a_title_that_one_page_changes_alone_counts_in_the_end() -> None:
    """Where no other page shows the new words of a title, they are the page's."""
    host = Host()
    for _ in range(2):
        for page in PAGES:
            host.visit(page, *MENU, *article(page), *FOOTER, title=f"Page {page} of the Docs 4.1")
    host.visit(0, *MENU, *article(0), *FOOTER, title="Page 0 of the Docs withdrawn")
    for page in PAGES[1:6]:
        host.visit(page, *MENU, *article(page), *FOOTER, title=f"Page {page} of the Docs 4.1")
    assert host.changed(0, *MENU, *article(0), *FOOTER, title="Page 0 of the Docs withdrawn")


def test_a_counter_of_a_template_is_learnt_once_for_the_host() -> None:
    """Where a counter varied on a few pages, it varies on all others: they count at none of their visits."""
    host, changed = Host(), []
    for turn in range(6):
        for page in PAGES:
            views = f"{100 * page + 7 * turn:,} views"
            changed.append(host.changed(page, *MENU, article(page)[0], views, *article(page)[1:], *FOOTER))
    assert sum(changed) <= 3
    known = [(page, memory.digest.blocks, "", memory) for page, memory in host.memories.items()]
    assert HostFrame("x", known).noise.blocks == host.frame.noise.blocks


def test_a_part_of_a_site_speaks_for_itself() -> None:
    """Pages in another folder, however many show a block, make no frame of it."""
    host = Host()
    for page in range(40):
        folder = "wiki" if page < 10 else "spam"
        blocks = (100 + page, 7) if folder == "spam" else (100 + page, 8)
        host.frame.see(page, None, Digest(b"%d" % page, b"%d" % page, blocks), 1.0, f"http://x/{folder}/{page}")
    view = host.frame.view(0, Digest(b""), Digest(b""))
    assert view.is_shared(8)
    assert not view.is_shared(7)


def large_host(*, main: bool) -> Host:
    """A host of thirty articles, each with a heading of its own between blocks of the template."""
    host = Host()
    for _ in range(2):
        for page in range(30):
            host.visit(page, *templated(page), main=main)
    return host


def templated(page: int, notice: str = "", version: str = "Docs 4.1", text: str = "") -> tuple[str, ...]:
    """The blocks of an article: a notice below its heading, its text, and the version of the site below that."""
    own = article(page)
    return own[0], *filter(None, [notice]), "Details", *own[1:3], *filter(None, [text]), *own[3:], "See also", version


@pytest.mark.parametrize("main", [False, True])
def test_a_banner_that_a_deploy_puts_on_every_page_is_the_sites(main: bool) -> None:
    """A banner at the template's place and its end count on the first two pages alone.

    So do another banner in its place and a new version, but not in a main element: there they are content.
    """
    host = large_host(main=main)
    for notice, version in (("Five is out", "Docs 4.1"), ("Six is out", "Docs 4.1"), ("", "Docs 4.1"), ("", "Docs 5")):
        changed = [host.changed(page, *templated(page, notice, version), main=main) for page in range(30)]
        exchanged = notice == "Six is out" or version == "Docs 5"
        assert all(changed) if main and exchanged else not any(changed[2:])
    assert host.changed(7, *templated(7, text="A line more"), main=main)


@pytest.mark.parametrize("main", [False, True])
def test_a_notice_of_some_pages_at_the_templates_place_is_theirs(main: bool) -> None:
    """A notice that two pages in three show below their headings is a change of each, at once or at the next visit."""
    host = large_host(main=main)
    rng, noticed = random.Random(5), set(range(0, 30, 3)) | set(range(1, 30, 3))
    found: set[int] = set()
    for _ in range(2):
        for page in rng.sample(range(30), 30):
            if host.changed(page, *templated(page, "Sold out" if page in noticed else ""), main=main):
                found.add(page)
    assert found == noticed


@pytest.mark.parametrize("main", [False, True])
def test_an_edit_amid_the_text_of_all_pages_is_theirs(main: bool) -> None:
    """A line that every page of a large host gains between its own paragraphs, or another in its place, counts."""
    host = large_host(main=main)
    for text in ("Sold out", "In stock", "Sold out again"):
        assert all(host.changed(page, *templated(page, text=text), main=main) for page in range(30))


def test_a_new_theme_changes_no_page() -> None:
    """Pages that begin to say what their main element is, or cease to, have the text they had."""
    host = Host()

    def themed(page: int, *, semantic: bool) -> bool:
        text = "".join(f"<p>{block}</p>" for block in article(page))
        menu, end = ("".join(f"<p>{block}</p>" for block in blocks) for blocks in (MENU, FOOTER))
        body = f"<nav>{menu}</nav><main>{text}</main><footer>{end}</footer>" if semantic else menu + text + end
        return host.shows(page, f"<title>Page {page}</title>{body}").verdict is Verdict.CHANGED

    for semantic in (False, False, True, True, False, False):
        assert [page for page in PAGES if themed(page, semantic=semantic)] == []
    assert host.changed(3, *MENU, *article(3)[:-1], "Price € 99.00", *FOOTER, title="Page 3")


def test_the_same_edit_of_some_pages_is_theirs(host: Host) -> None:
    """A line that some pages gain while others do not is no frame."""
    changed = []
    for page in PAGES:
        noted = ["Deprecated."] if page % 3 == 0 else []
        changed.append(host.changed(page, *MENU, *article(page)[:4], *noted, *article(page)[4:], *FOOTER))
    assert changed == [page % 3 == 0 for page in PAGES]


def test_a_lone_edit_inside_the_frame_counts_in_the_end(host: Host) -> None:
    """A line that only one page shows in its frame is that page's once others were seen without it."""
    odd = (*MENU[:3], "Only here", *MENU[3:])
    assert not host.changed(0, *odd, *article(0), *FOOTER)
    for page in PAGES[1:6]:
        host.visit(page, *MENU, *article(page), *FOOTER)
    assert host.changed(0, *odd, *article(0), *FOOTER)


def test_a_title_in_the_menu_is_still_a_title() -> None:
    """Where every menu lists all titles, a new title changes its own page and no other."""
    host, titles = Host(), [f"Page {page}" for page in PAGES]
    for _ in range(2):
        for page in PAGES:
            host.visit(page, *MENU, *titles, *article(page), *FOOTER)
    titles[5] = "Another title"
    for page in PAGES[:5]:
        assert not host.changed(page, *MENU, *titles, *article(page), *FOOTER)
    assert host.changed(5, *MENU, *titles, "Another title", *article(5)[1:], *FOOTER)


def test_an_entry_beside_the_pages_own_entry_is_the_sites() -> None:
    """A menu edited next to the entry of the page itself is still the site's."""
    host, titles = Host(), [f"Page {page}" for page in PAGES]
    for _ in range(2):
        for page in PAGES:
            host.visit(page, *MENU, *titles, *article(page), *FOOTER, title=f"Page {page}")
    titles[5] = "Another title"
    for page in (4, 6, 0):
        assert not host.changed(page, *MENU[:-1], *titles, *article(page), *FOOTER, title=f"Page {page}")


def test_pages_without_content_of_their_own_are_compared_whole() -> None:
    """Where pages are alike but for a line, that line is what they are, however many share it."""
    host = Host()
    for version in range(6):
        for page in PAGES:
            assert host.changed(page, f"Page {page}", f"This is version {version}.", "The end") == (version > 0)


def test_unrelated_pages_have_no_frame() -> None:
    """On a host of pages that have nothing in common every edit counts."""
    host = Host()
    for _ in range(2):
        for page in range(40):
            host.visit(page, *article(page))
    for page in range(40):
        for at in range(7):
            blocks = list(article(page))
            if blocks[at] != "Example":
                blocks[at] += " x"
                assert host.changed(page, *blocks)


def test_one_text_at_many_addresses_is_trouble(host: Host) -> None:
    """Pages that turn to one and the same text have failed, all but the first two, and come back as they were."""
    sorry = ("Sorry", "Something went wrong, please come back later.")
    verdicts = [host.visit(page, *sorry) for page in PAGES]
    assert [one.verdict for one in verdicts] == [Verdict.CHANGED] * 2 + [Verdict.FAILED] * 10
    assert {one.trouble for one in verdicts[2:]} == {Trouble.ERROR_PAGE.value}
    assert all(one.memory is None and one.body is None for one in verdicts[2:])
    again = host.visit(0, *sorry)
    assert again.trouble == Trouble.ERROR_PAGE.value
    back = [host.visit(page, *MENU, *article(page), *FOOTER) for page in PAGES]
    assert [one.verdict for one in back] == [Verdict.CHANGED] * 2 + [Verdict.UNCHANGED] * 10
    assert [one.reverted for one in back[:2]] == [True, True]


def test_pages_that_always_shared_a_text_are_fine() -> None:
    """Pages that have one text from the beginning, or change from one to another together, are no error."""
    host = Host()
    for text in ("Nothing here yet.", "Nothing here yet.", "Still nothing here.", "Still nothing here."):
        for page in PAGES:
            assert host.visit(page, text).trouble is None


def test_a_sketch_read_from_the_store_knows_the_frame(host: Host) -> None:
    """After a restart the blocks of the pages kept tell the frame at once."""
    host.frame = HostFrame("x", [(page, memory.digest.blocks) for page, memory in host.memories.items()])
    for page in PAGES:
        assert not host.changed(page, "Home", "New", *MENU[1:], *article(page), *FOOTER)


def test_a_change_of_the_frame_is_one_event(host: Host) -> None:
    """The event has the time of the first page that showed it, and counts the pages; a lone page is none yet."""
    assert host.frame.changed(1, [5], [6], 10.0) is None
    first, second = host.frame.changed(2, [5], [6], 20.0), host.frame.changed(3, [], [6, 7], 30.0)
    assert first is not None
    assert second is not None
    assert (first.first_at, first.pages, first.gained) == (10.0, 2, 1)
    assert (second.first_at, second.last_at, second.pages, second.gained) == (10.0, 30.0, 3, 2)
    assert host.frame.changed(3, [8], [], 40.0) is None


def test_the_sketch_is_bounded() -> None:
    """Of many large pages only as many are held as the bound allows."""
    frame = HostFrame("x", [(page, range(page * 1000 + 1, page * 1000 + 1001)) for page in range(300)])
    assert len(frame) <= 256
    assert frame.weight <= 65_536


def test_all_that_is_noted_of_a_host_weighs() -> None:
    """Moves, presumed differences and texts turned to count as well, and what is taken back does not."""
    frame = HostFrame("x")
    plain, other = Digest(b"1", b"1", (1, 2)), Digest(b"2", b"2", (1, 3))
    frame.see(1, None, plain, 10.0)
    blocks = frame.weight
    frame.see(1, plain, other, 20.0)
    moved = frame.weight
    assert moved > blocks
    frame.see(1, other, plain, 30.0)
    assert frame.weight == moved
    frame.presume(1, (1,), (2, 3))
    frame.presume(1, (1,), (2, 3))
    assert frame.weight == moved + 4
    frame.settle(1)
    assert frame.weight == moved


def test_the_moves_of_a_host_are_bounded() -> None:
    """However many pages gain and lose blocks, the sketch stays within twice its bound."""
    frame = HostFrame("x")
    for page in range(256):
        before = Digest(b"%d" % page, b"%d" % page, ())
        for version in range(3):
            blocks = range(version * 256 + 1, version * 256 + 257)
            seen = Digest(b"%d %d" % (page, version), b"%d %d" % (page, version), tuple(blocks))
            frame.see(page, before, seen, 10.0 * page + version)
            before = seen
    assert frame.weight <= 3 * 65_536
