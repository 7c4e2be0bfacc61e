"""Documents that are no HTML: compared by what they say, not by how it is written."""

import io
import json

import pypdf
import pytest

from crawld.crawl.judge import read_apart
from crawld.read.page.digest import digest, read_body
from crawld.read.page.documents import LIMITS as PAGE_DOCUMENTS_LIMITS
from crawld.read.page.rules import DigestRule

JSON, XML, TEXT = "application/json", "application/xml", "text/plain; charset=utf-8"


def same(one: str, other: str, content_type: str) -> bool:
    """Whether two documents have one text, and have one at all."""
    first, second = digest(one.encode(), content_type), digest(other.encode(), content_type)
    assert first.text is not None
    return first.text == second.text


def test_json_is_compared_parsed() -> None:
    """The order of keys, spacing and spellings of one value are nothing; any value, key or order of a list is."""
    known = '{"a": 1, "b": [1, {"c": "x"}], "d": null}'
    assert same(known, '{ "d":null,\n"b":[1,{"c":"\\u0078"}],"a":1 }', JSON)
    for other in ('{"a": 2, "b": [1, {"c": "x"}], "d": null}', '{"a": 1, "b": [{"c": "x"}, 1], "d": null}'):
        assert not same(known, other, JSON)
    assert not same(known, known.replace("null", '"null "'), JSON)
    assert not same('{"a": {"b": 1}}', '{"a": 1, "b": 1}', JSON)
    assert same('{"a": 1}', '{ "a": 1 }', "application/ld+json")
    assert same('{"a": 1}', '{ "a": 1 }', "text/plain")


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl", "application/json-seq"])
def test_lines_of_json_are_compared_parsed(kind: str) -> None:
    """Each line is a document; the order of lines counts, that of keys does not."""
    known = '{"a": 1, "b": 2}\n{"a": 3}\n'
    assert same(known, '\x1e{"b":2,"a":1}\r\n\x1e{ "a":3 }', kind)
    assert not same(known, '{"a": 3}\n{"a": 1, "b": 2}\n', kind)
    assert digest(b'{"a": 1}\n{"a":', kind).text is None
    assert digest(b"1\n" * (PAGE_DOCUMENTS_LIMITS.max_values + 1), kind).text is None


@pytest.mark.parametrize(
    "body", ["[" * 100_000, "[" + "1," * (PAGE_DOCUMENTS_LIMITS.max_values + 9) + "1]", '{"a": 1', ""]
)
def test_json_that_cannot_be_read_is_bytes(body: str) -> None:
    """A document that is broken, too deep or too large is compared by its bytes."""
    assert digest(body.encode(), JSON).text is None


def test_xml_is_compared_by_its_elements() -> None:
    """Comments, spacing, quotes and the order of attributes are nothing; texts, attributes and elements are."""
    known = "<r><a x='1' y='2'>one  two</a><b/>tail</r>"
    assert same(known, '<?xml version="1.0"?>\n<r>\n<a y="2" x="1">one two</a><!-- c --><b></b> tail</r>', XML)
    for old, new in (("one", "eins"), ("x='1'", "x='3'"), ("<a ", "<c "), ("tail", "end")):
        assert not same(known, known.replace(old, new).replace("</a>", "</c>" if new == "<c " else "</a>"), XML)


def test_hostile_xml_is_not_expanded() -> None:
    """Entities are never expanded, and what is no XML is compared line by line."""
    bomb = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><r>&b;</r>'
    assert list(read_body(bomb.encode(), XML).texts) == [bomb]
    assert list(read_body(b"<r><unclosed>\nx</r>", XML).texts) == ["<r><unclosed>", "x</r>"]


def test_text_is_compared_by_its_lines() -> None:
    """Line ends and white space before them are nothing, indentation and words are."""
    for kind in (TEXT, "text/markdown", "text/csv", "application/yaml"):
        assert same("# a\n\n  b: c\n", "# a  \r\n\r\n  b: c", kind)
        assert not same("# a\n\n  b: c\n", "# a\n\n    b: c\n", kind)
    rule = DigestRule(ignore_text=[r"\d+"])
    assert digest(b"a 1", TEXT, rule).text == digest(b"a 2", TEXT, rule).text


def test_html_under_another_type_is_recognised() -> None:
    """HTML that is served as plain text is compared as HTML, a text with tags in it as text."""
    page = "<!doctype html><p>Words</p><script>1</script>"
    assert same(page, page.replace("<script>1", "<script>2"), "text/plain")
    assert not same("Use <p> here", "Use <b> here", "text/plain")


def pdf(text: str, key: str) -> bytes:
    """A PDF that shows a text, with a date of its own."""
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(width=300, height=300)
    font = {"/F1": {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}}
    made = pypdf.generic
    fonts = made.DictionaryObject(
        {
            made.NameObject(name): made.DictionaryObject(
                {made.NameObject(key): made.NameObject(value) for key, value in one.items()}
            )
            for name, one in font.items()
        }
    )
    page[made.NameObject("/Resources")] = made.DictionaryObject({made.NameObject("/Font"): fonts})
    content = made.DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
    page[made.NameObject("/Contents")] = writer._add_object(content)
    writer.add_metadata({"/CreationDate": key})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_pdf_is_compared_by_its_text() -> None:
    """Another date of making is nothing, another word is a change; a broken file is compared by its bytes."""
    known, again, other = pdf("Ships come in", "D:2020"), pdf("Ships come in", "D:2021"), pdf("Ships go out", "D:2020")
    kind = "application/pdf"
    assert known != again
    assert digest(known, kind).text == digest(again, kind).text is not None
    assert digest(known, kind).text != digest(other, kind).text
    assert list(read_body(known, kind).texts) == ["Ships come in"]
    assert digest(known[:200], kind).text is None
    assert read_apart("http://x/", known, kind, None, DigestRule(), 0.0).digest == digest(known, kind)


def test_paths_of_json_that_vary_keep_their_words() -> None:
    """A value is one block with its path, so that what varies at a path is learnt there."""
    document = json.dumps({"meta": {"views": 17}, "items": [{"name": "a"}, {"name": "b"}]})
    assert list(read_body(document.encode(), JSON).texts) == ["items[] name: a", "items[] name: b", "meta views: 17"]
