"""The text and the Markdown of pages, as readers get them."""

from statistics import mean

import pytest

from crawld.model.page import Document
from crawld.read.page.digest import block_number
from crawld.read.page.document import read_document
from crawld.read.page.rules import DigestRule
from tests.support.reader_pages import LabelledPage, labelled_pages, word_f1

HTML = "text/html; charset=utf-8"
URL = "https://docs.example/guide/page.html"
PROSE = "The relay forwards every connection to the upstream that answers soonest, and writes down why it did so. "


def document(body: str, rule: DigestRule | None = None, shared: tuple[int, ...] = ()) -> Document:
    """The document of a page that has one."""
    found = read_document(body.encode(), HTML, URL, rule or DigestRule(), shared)
    assert found is not None
    return found


def page(inside: str) -> str:
    """A page with a main part."""
    return f"<html lang=en><title>Guide</title><body><nav><a href=/>Home</a></nav><main>{inside}</main></body></html>"


def test_word_f1_of_labelled_pages() -> None:
    """The reader's text has a word F1 of .95 or more over the labelled pages, and of .8 on each of them."""
    pages = labelled_pages()
    scores = {one.name: word_f1(_text(one), one.wanted) for one in pages}
    assert len(pages) >= 60
    assert mean(scores.values()) >= 0.95
    assert {name: score for name, score in scores.items() if score < 0.8} == {}


def test_labelled_pages_have_markdown_of_their_words() -> None:
    """The Markdown of every labelled page has the words of its text."""
    for one in labelled_pages():
        found = read_document(one.body, HTML, URL)
        assert found is not None
        assert word_f1(found.markdown.split("---\n", 2)[2], found.text) >= 0.75, one.name


def _text(one: LabelledPage) -> str:
    found = read_document(one.body, HTML, URL)
    return "" if found is None else found.text


def test_front_matter() -> None:
    """Markdown begins with the title, the canonical address and the language."""
    source = page(f"<h1>Guide</h1><p>{PROSE}</p>").replace(
        "<title>", '<link rel="canonical" href="https://docs.example/guide/"><title>'
    )
    found = document(source)
    assert (found.title, found.language, found.canonical) == ("Guide", "en", "https://docs.example/guide/")
    head = '---\ntitle: "Guide"\nurl: "https://docs.example/guide/"\nlanguage: "en"\n---\n\n'
    assert found.markdown.startswith(head + "# Guide")


def test_structure_is_kept() -> None:
    """Headings with anchors, lists, tables and code with its language are Markdown."""
    found = document(
        page(
            f"<h1>Guide</h1><p>{PROSE}</p><section id=setup><h2>Set-up<a class=headerlink href=#setup>¶</a></h2>"
            "<ul><li>One<ul><li>Two</li></ul></li></ul><table><tr><th>Key</th><th>Value</th></tr><tr><td>a</td>"
            "<td>1</td></tr></table><div class='highlight-python notranslate'><pre><span>def</span> f():\n    pass"
            "</pre></div></section>"
        )
    ).markdown
    for part in (
        "## Set-up {#setup}\n",
        "- One\n  - Two\n",
        "| Key | Value |\n| --- | --- |\n| a | 1 |",
        "```python\ndef f():\n    pass\n```",
    ):
        assert part in found


def test_links_and_images_are_absolute() -> None:
    """Links and images have absolute addresses, and a link that runs a program is its text."""
    found = document(
        page(
            f"<p>{PROSE}<a href='../z?q=1#f'>rel</a> <a href='#here'>part</a> <a href=' JavaScript:alert(1)'>run</a> "
            "<a href='vbscript:x'>vb</a> <img src='data:image/png;base64,AA' alt='inline'> <img data-src='/i.png' "
            "src='data:,' alt='Logo'></p>"
        )
    ).markdown
    assert "[rel](https://docs.example/z?q=1#f)" in found
    assert f"[part]({URL}#here)" in found
    assert "![Logo](https://docs.example/i.png)" in found
    assert "script:" not in found.lower()
    assert "data:" not in found
    assert "run vb" in found


def test_text_is_no_markup() -> None:
    """What looks like Markdown or HTML in a text is escaped, and left alone in code."""
    found = document(
        page(
            f"<p>{PROSE}2*3*4 and _this_ but snake_case, [x](y), &lt;script&gt;alert(1)&lt;/script&gt;</p><p># no</p>"
            "<p>1. no list</p><p><code>a*b_c</code></p>"
        )
    ).markdown
    for part in (r"2\*3\*4", r"\_this\_", "snake_case", r"[x\](y)", r"\<script>", r"\# no", r"1\. no list", "`a*b_c`"):
        assert part in found


def test_same_bytes_same_document() -> None:
    """A page gives the same Markdown each time."""
    source = page(f"<h1>Guide</h1><p>{PROSE}</p><ul><li>a</li></ul>")
    assert document(source).markdown == document(source).markdown


@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 1_500 + PROSE.encode() + b"</div>" * 1_500,
        b"<div>" * 20_000 + PROSE.encode(),
        b"<pre>" + b"<span>" * 1_000 + PROSE.encode() + b"</pre>",
        b"<table>" + b"<tr><td>x</td></tr>" * 25_000 + b"</table><p>" + PROSE.encode(),
        b"<body hidden><div hidden><p>" + PROSE.encode() * 10 + b"</div>",
        b"<nav><p>" + PROSE.encode() * 3 + b"</p></nav>",
        b"<p>Hi</p>",
    ],
    ids=["deep", "very deep", "deep code", "wide table", "hidden", "menu alone", "short"],
)
def test_never_empty_where_text_is_not(body: bytes) -> None:
    """Pages that are nested, wide, hidden or short have a text, and Markdown with its words."""
    found = read_document(b"<html><body>" + body, HTML, URL)
    assert found is not None
    assert found.text.strip()
    assert len(found.markdown.split()) >= len(found.text.split()) / 2


def test_shared_blocks_leave_but_headings_stay() -> None:
    """What many pages of a host have leaves at the edges of the text, but a heading that recurs stays."""
    source = page(
        f"<p>Visit our stand at the fair in hall nine.</p><h1>Guide</h1><p>{PROSE}</p><h2>Settings</h2><p>{PROSE}</p>"
        "<p>Sold only while stocks last, as ever.</p>"
    )
    recurring = ("Visit our stand at the fair in hall nine.", "Settings", "Sold only while stocks last, as ever.")
    found = document(source, shared=tuple(map(block_number, recurring)))
    assert found.text.splitlines() == ["Guide", PROSE.strip(), "Settings", PROSE.strip()]


def test_marks_and_controls_are_no_text() -> None:
    """Links of headings to themselves, rows of controls and boxes of other articles leave; a heading of one stays."""
    text = f"<p>{PROSE}</p>"
    box = "<div class=more><b>More</b><ul><li><a href=/1>The wall fell</a></li><li><a href=/2>Pumps</a></li></ul></div>"
    source = page(
        f"<h1 id=g>Guide<span><a href=#g>#</a></span></h1>{text}<div><a href=/r>Reply</a> <a href=/s>Share</a></div>"
        f"<h2><a name=s></a>Set-up</h2>{text}{box}<h2><a href=#link>Link</a></h2>{text}"
    )
    found = document(source)
    assert found.text.splitlines() == ["Guide", PROSE.strip(), "Set-up", PROSE.strip(), "Link", PROSE.strip()]
    assert "# Guide {#g}" in found.markdown
    assert "## Set-up {#s}" in found.markdown


def test_rules_of_the_page_hold() -> None:
    """Selectors of the page's rule choose and leave out what is read."""
    source = page(
        f"<div class=a><p>{PROSE}</p></div><div class=b><p>Left out.</p></div><div class=c><p>Also.</p></div>"
    )
    assert document(source, DigestRule(only=".a, .c")).text.splitlines() == [PROSE.strip(), "Also."]
    assert "Left out" not in document(source, DigestRule(ignore=(".b",))).markdown


@pytest.mark.parametrize(
    ("body", "kind", "markdown"),
    [
        (b'{"a": 1}', "application/json", '```json\n{"a": 1}\n```'),
        (b"# Title\n\n*x*\n", "text/markdown", "# Title\n\n*x*"),
        (b"plain ``` text\n", "text/plain", "````\nplain ``` text\n````"),
    ],
)
def test_other_documents(body: bytes, kind: str, markdown: str) -> None:
    """Data and plain texts stand in a block of code, and Markdown is what it was."""
    found = read_document(body, kind, URL)
    assert found is not None
    assert found.markdown == f'---\nurl: "{URL}"\n---\n\n{markdown}\n'


def test_no_text_no_document() -> None:
    """A picture has no document."""
    assert read_document(b"\x89PNG\0\0", "image/png", URL) is None


def test_control_characters_cost_nothing_but_themselves() -> None:
    """Bytes and references that no XML may hold are left out, in text and in attributes."""
    link = b"<a href='/x\x01y' title='a&#8;b'>l\x02ink</a>"
    body = b"<main><h1>T\x07itle</h1><p>red &#27;[31m and \x00 " + link + b" words</p></main>"
    found = read_document(body, "text/html", "https://example.org/")
    assert found is not None
    assert "red [31m and" in found.markdown
    assert '[link](https://example.org/xy "ab")' in found.markdown
