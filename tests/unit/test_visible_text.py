"""What a reader sees counts, what nobody sees does not, and white space counts where it is shown."""

import pytest

from crawld.read.page.digest import digest
from crawld.read.page.markup import page_language, visible_blocks
from crawld.read.page.rules import DigestRule

HTML = "text/html; charset=utf-8"
STEADY = "<p>A first paragraph that stays, with enough words for a page.</p>"
MAIN, TEXT = DigestRule(), DigestRule(mode="text")


def same(first: str, second: str) -> bool:
    """Whether two pages are the same to a reader, in mode main and in mode text."""
    answers = {
        digest(first.encode(), HTML, rule).text == digest(second.encode(), HTML, rule).text for rule in (MAIN, TEXT)
    }
    assert len(answers) == 1
    return answers == {True}


UNSEEN = [
    "<div style='display:none'>{}</div>",
    "<div style='color: red; DISPLAY : None !important ;'>{}</div>",
    "<div style='/* off */ display:none'>{}</div>",
    "<div style='display:block;display:none'>{}</div>",
    "<div style='display:none!important;display:block'>{}</div>",
    "<span style='visibility:hidden'>{}</span>",
    "<tr style='visibility: collapse'>{}</tr>",
    "<div style='content-visibility:hidden'>{}</div>",
    "<div style='display:none'><p>a</p><div><b>{}</b></div></div>",
    "<div hidden>{}</div>",
    "<div hidden=hidden>{}</div>",
    "<div HIDDEN=''><ul><li>{}</ul></div>",
    "<dialog>{}</dialog>",
    "<noscript>{}</noscript>",
    "<noscript><p>{}</p></noscript>",
    "<template>{}</template>",
    "<svg><title>{}</title><path d=M0/></svg>",
    "<svg><g><title>{}</title><desc>{}</desc></g><metadata>{}</metadata></svg>",
    "<svg><defs><text>{}</text></defs><symbol><text>{}</text></symbol></svg>",
    "<video src=x><p>{}</p></video>",
    "<audio src=x>{}</audio>",
    "<canvas>{}</canvas>",
    "<object data=x>{}</object>",
    "<iframe src=x>{}</iframe>",
    "<datalist><option>{}</datalist>",
    "<ruby>漢<rp>{}</rp></ruby>",
    "<math><semantics><mi>x</mi><annotation>{}</annotation></semantics></math>",
]

SEEN = [
    "<div style='display:nonesuch'>{}</div>",
    "<div style='display:none;display:block'>{}</div>",
    "<div style='x-display:none'>{}</div>",
    "<div style='background:url(display:none)'>{}</div>",
    "<div style='visibility:visible'>{}</div>",
    "<div class=hidden>{}</div>",
    "<div aria-hidden=true>{}</div>",
    "<div hidden=until-found>{}</div>",
    "<details><summary>s</summary>{}</details>",
    "<dialog open>{}</dialog>",
    "<svg><text>{}</text></svg>",
    "<my-card><template shadowrootmode=open><p>{}</p></template></my-card>",
    "<select><option>{}</select>",
    "<textarea>{}</textarea>",
    "<button>{}</button>",
    "<title>{}</title>",
    "<noscript>a</noscript>{}",
    "<p>before <span hidden>a</span> {}</p>",
    "<svg><title>a</title></svg>{}",
    "<ruby>漢<rt>{}</rt></ruby>",
]


@pytest.mark.parametrize("markup", UNSEEN)
def test_what_nobody_sees_does_not_count(markup: str) -> None:
    """Text that no browser shows is not compared."""
    assert same(STEADY + markup.replace("{}", "one"), STEADY + markup.replace("{}", "another"))


@pytest.mark.parametrize("markup", SEEN)
def test_what_a_reader_can_see_counts(markup: str) -> None:
    """Text that is shown, or that a reader can unfold, is compared."""
    assert not same(STEADY + markup.replace("{}", "one"), STEADY + markup.replace("{}", "another"))


def test_hidden_text_does_not_join_or_part_what_is_around_it() -> None:
    """A hidden word in a sentence and the title of an icon leave the sentence one block."""
    page = "<p>one <span hidden>x</span>two <svg><title>icon</title></svg>three</p>"
    assert visible_blocks(page.encode(), HTML, MAIN) == ["one two three"]


@pytest.mark.parametrize(
    "page",
    [
        "<html style='display:none'><body hidden><p>The text is {}.</p>",
        "<p>Loading…</p><div style='display:none'>" + "<p>Shown by a script later on, all of it.</p>" * 40 + "{}</div>",
    ],
    ids=["the whole page", "all but a word"],
)
def test_a_page_hidden_until_a_script_shows_it_still_changes(page: str) -> None:
    """Where next to all text is hidden, the hidden text is compared: the page must not seem unchanged for ever."""
    assert not same(page.replace("{}", "one"), page.replace("{}", "another"))


FORMATTED = [
    "<pre>{}</pre>",
    "<pre><code><span class=k>def</span> {}</code></pre>",
    "<textarea>{}</textarea>",
    "<div style='white-space: pre-wrap'>{}</div>",
    "<pre><div class=line>{}</div></pre>",
    "<listing>{}</listing>",
]


@pytest.mark.parametrize("markup", FORMATTED)
@pytest.mark.parametrize("other", ["a  b", "a\nb", "a\tb", "  a b", "a b\n\nc", "a b\n c"])
def test_white_space_counts_where_it_is_shown(markup: str, other: str) -> None:
    """Another indentation or line break in preformatted text is a change."""
    known = "a b\nc" if "c" in other else "a b"
    assert not same(STEADY + markup.replace("{}", known), STEADY + markup.replace("{}", other))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<pre>\na b\n</pre>", "<pre>a b</pre>"),
        ("<pre>a\r\nb</pre>", "<pre>a\nb</pre>"),
        ("<pre>a b</pre>", "<pre>a <b>b</b></pre>"),
        ("<p>a  b</p>\n\n<p>c", "<p>a\nb</p><p>\tc"),
        ("<pre>x</pre>a  b", "<pre>x</pre>a b"),
        ("<div style='white-space: nowrap'>a  b</div>", "<div>a b</div>"),
    ],
)
def test_white_space_that_is_not_shown(first: str, second: str) -> None:
    """The line break right after `<pre>`, the kind of line break, and white space elsewhere do not count."""
    assert same(STEADY + first, STEADY + second)


def test_preformatted_blocks_keep_their_lines() -> None:
    """A block of code is compared as it is shown, line by line, also where words are to be ignored."""
    page = b"<p>x  y</p><pre>def f():\n    return 17 views\n</pre>"
    assert visible_blocks(page, HTML, MAIN) == ["x y", "def f():\n  return 17 views"]
    assert visible_blocks(page, HTML, DigestRule(ignore_text=[r"\d+ views"])) == ["x y", "def f():\n  return "]


def test_white_space_of_a_long_block_is_evened_out() -> None:
    """A block of many stretches is the same text as one word after another."""
    words = [f"word{number}" for number in range(60_000)]
    page = "<p>" + " \n\u00a0\t".join(words)
    assert visible_blocks(page.encode(), HTML, MAIN) == [" ".join(words)]


@pytest.mark.parametrize(
    "other",
    [
        "def f():  \n    return 1\t\n\n    # x",
        "    def f():\n        return 1\n\n        # x",
        "def f():\n  return 1\n   \n  # x\n\n",
        "def f():\n\treturn 1\n\n\t# x",
    ],
)
def test_indentation_of_a_whole_block_of_code_is_nothing(other: str) -> None:
    """White space at line ends and another indentation of the whole block are no change; of one line it is."""
    known = "<pre>def f():\n    return 1\n\n    # x</pre>"
    assert same(STEADY + known, STEADY + f"<pre>{other}</pre>")
    assert not same(STEADY + known, STEADY + f"<pre>{other}</pre>".replace("return 1", "return  1"))
    assert not same(STEADY + known, STEADY + known.replace("    # x", "# x"))


@pytest.mark.parametrize(
    ("head", "language"),
    [
        ("<!doctype html><html lang=de-AT><title>x</title>", "de-AT"),
        ("<HTML class='a' xml:lang='fr'>", "fr"),
        ("<html data-lang='en'><p lang='it'>", None),
        ("<html lang=''>", None),
        ("<html>", None),
    ],
)
def test_the_language_is_what_the_page_says_of_itself(head: str, language: str | None) -> None:
    """The lang attribute of the html element, and of nothing else."""
    assert page_language(f"{head}<p>text</p>".encode(), "text/html") == language
