"""Encodings of the web: every label of the standard, declared where a browser looks, in HTML and XML."""

import pytest
from webencodings.labels import LABELS

from crawld.read.charset import decode, encoding_of, known
from crawld.read.sitemap import read_sitemap

HTML = "text/html"


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_standard_is_known(label: str) -> None:
    """Each label, in any case and with blanks around it, stands for a codec; all but UTF-16 read ASCII as ASCII."""
    name = known(label)
    assert name is not None
    assert known(f" {label.upper()}\t") == name
    if not name.startswith("utf-16"):
        assert b"<p>plain</p>".decode(name) == "<p>plain</p>"


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("x-sjis", b"\x93\xfa\x96{\x87@", "日本①"),
        ("windows-31j", b"\x93\xfa", "日"),
        ("ks_c_5601-1987", b"\xb0\xa1\x81A", "가갂"),
        ("gb_2312-80", b"\xd6\xd0\x81\x40", "中丂"),
        ("x-x-big5", b"\xa4\xa4\x87\x40", "中䏰"),
        ("csisolatin1", b"\x80\xe9", "€é"),
        ("latin5", b"\xfd\x80", "ı€"),
        ("dos-874", b"\xa1", "ก"),
        ("x-mac-ukrainian", b"\x80", "А"),
        ("sun_eu_greek", b"\xe1", "α"),
        ("logical", b"\xe0", "א"),
        ("csiso2022jp", b"\x1b$BF|\x1b(B", "日"),
        ("ucs-2", "é".encode("utf-16-le"), "é"),
        ("unicodefffe", "é".encode("utf-16-be"), "é"),
    ],
)
def test_labels_mean_what_browsers_mean(label: str, data: bytes, text: str) -> None:
    """A label is read by the encoding that pages with it really have, which is often larger than its name says."""
    assert decode(data, f"text/html; charset={label}") == text


@pytest.mark.parametrize("label", ["hz-gb-2312", "iso-2022-kr", "x-user-defined"])
def test_what_browsers_do_not_read_still_changes(label: str) -> None:
    """An encoding that browsers refuse, or show by a font, is read so that another text is another text."""
    assert decode(b"~{VPND~}", f"text/html; charset={label}") != decode(b"~{VPNE~}", f"text/html; charset={label}")


@pytest.mark.parametrize("label", ["utf-7", "utf-32", "punycode", "rot13", "idna", "unicode_escape", "cp037", "", "é"])
def test_other_codecs_are_no_labels(label: str) -> None:
    """What Python can decode but no browser would is not an encoding."""
    assert known(label) is None


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        ("<!-- <meta charset=koi8-r> --><meta charset=windows-1251>", "cp1251"),
        ("<!-- <meta charset=koi8-r> -->", "utf-8"),
        ("<!-- <meta charset=koi8-r>", "utf-8"),
        ("<!--><meta charset=koi8-r>-->", "koi8-r"),
        ("<!-- > <meta charset=koi8-r> --!><meta charset=big5>", "big5hkscs"),
        ("<!doctype html><?php x?></x><META CHARSET = 'KOI8-R'>", "koi8-r"),
        ("<meta/charset=koi8-r>", "koi8-r"),
        ('<meta content="text/html; charset=koi8-r" http-equiv=Content-Type>', "koi8-r"),
        ("<meta http-equiv=content-type content='text/html; charset=\"koi8-r\"'>", "koi8-r"),
        ("<meta name=description content='we use charset=koi8-r'>", "utf-8"),
        ("<meta http-equiv=refresh content='1; charset=koi8-r'>", "utf-8"),
        ("<meta name=x><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=nonsense><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=koi8-r charset=big5>", "koi8-r"),
        ("<p title='<meta charset=koi8-r>'>", "utf-8"),
        ("<metadata charset=koi8-r>", "utf-8"),
        ("</meta charset=koi8-r>", "utf-8"),
        ("<p>charset=koi8-r", "utf-8"),
        ("<meta charset=utf-16le>", "utf-8"),
        ("<meta charset=x-user-defined>", "cp1252"),
        ("<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r"),
        ("<?xml version='1.0' encoding='koi8-r'?><html><meta charset=big5>", "big5hkscs"),
        ("<?xml version='1.0' encoding='utf-16'?><html>", "utf-8"),
        (" " * 2000 + "<meta charset=koi8-r>", "koi8-r"),
        (" " * 4096 + "<meta charset=koi8-r>", "utf-8"),
    ],
)
def test_where_a_page_declares_its_encoding(page: str, encoding: str) -> None:
    """A real meta element outside comments declares it, or else the XML declaration; nothing that only looks alike."""
    assert encoding_of(page.encode(), HTML) == encoding


def test_the_header_goes_before_the_page_and_the_mark_before_both() -> None:
    """A byte order mark wins over the header, and the header over a meta element."""
    page = b"<meta charset=koi8-r>"
    assert encoding_of(page, "text/html; charset=x-sjis") == "cp932"
    assert encoding_of(b"\xef\xbb\xbf" + page, "text/html; charset=x-sjis") == "utf-8"


@pytest.mark.parametrize("label", ["x-sjis", "ms_kanji", "windows-31j", "shift_jis"])
def test_xml_knows_the_same_labels(label: str) -> None:
    """A sitemap is read by every label that a page is read by."""
    text = f'<?xml version="1.0" encoding="{label}"?><urlset><url><loc>http://a.example/日本</loc></url></urlset>'
    listing = read_sitemap(text.encode("cp932"), "http://a.example/sitemap.xml", 0.0)
    assert [entry.loc for entry in listing.entries] == ["http://a.example/%E6%97%A5%E6%9C%AC"]


@pytest.mark.parametrize("head", [b"<!--" * 1024, b"<" * 4096, b"<a " * 1365, b"<meta '" * 585, b'<a x="' * 682])
def test_a_hostile_head_declares_nothing(head: bytes) -> None:
    """Markup made to be slow for the scan is scanned."""
    assert encoding_of(head, HTML) == "utf-8"
