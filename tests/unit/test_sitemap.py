"""Sitemaps: every form and every fault is read or refused by name."""

import codecs
import gzip
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.url import normalise
from crawld.read.listing import LIMITS as LISTING_LIMITS
from crawld.read.listing import EntryKind, FileForm, Listing, Unreadable, UnreadableError, locate
from crawld.read.sitemap import read_sitemap
from crawld.read.xml_stream import LIMITS as XML_STREAM_LIMITS

URL = "https://example.org/sitemap.xml"
NOW = 1_790_000_000.0
SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
TWO = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {SPACE}>'
    "<url><loc>https://example.org/a</loc><lastmod>2024-01-02</lastmod></url>"
    "<url><loc>https://example.org/b</loc></url></urlset>"
)
TWO_LOCS = ["https://example.org/a", "https://example.org/b"]


def read(text: str | bytes) -> Listing:
    """Read a sitemap at its usual place."""
    return read_sitemap(text.encode() if isinstance(text, str) else text, URL, NOW)


def locs(text: str | bytes) -> list[str]:
    """The URLs that a sitemap lists."""
    return [entry.loc for entry in read(text).entries]


def refused(body: str | bytes) -> Unreadable:
    """Why a sitemap is refused."""
    with pytest.raises(UnreadableError) as refusal:
        read(body)
    assert str(refusal.value)
    return refusal.value.reason


def test_reads_locs_and_lastmods() -> None:
    """A plain urlset gives its pages with the times they claim."""
    listing = read(TWO)
    assert (listing.form, listing.complete, listing.skipped) == (FileForm.URLSET, True, 0)
    assert [entry.loc for entry in listing.entries] == TWO_LOCS
    first, second = listing.entries
    assert first.lastmod is not None
    assert first.lastmod.at == 1704153600.0
    assert second.lastmod is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(TWO.replace(SPACE, ""), id="no namespace"),
        pytest.param(TWO.replace("www.sitemaps.org", "www.google.com"), id="wrong namespace"),
        pytest.param(TWO.replace("<", "<s:").replace("<s:/", "</s:").replace("<s:?", "<?"), id="undeclared prefix"),
        pytest.param("\n\t  " + TWO, id="leading blanks"),
        pytest.param(codecs.BOM_UTF8 + TWO.encode(), id="byte order mark"),
        pytest.param(b"\n" + codecs.BOM_UTF8 + TWO.encode(), id="byte order mark behind a line"),
        pytest.param(TWO.encode("utf-16"), id="UTF-16"),
        pytest.param(TWO.encode("utf-16-be"), id="UTF-16 without mark"),
        pytest.param(TWO.replace("UTF-8", "UTF-16").encode(), id="UTF-16 declared in vain"),
        pytest.param(TWO.replace("UTF-8", "rot13").encode(), id="no such encoding"),
        pytest.param(TWO.replace("UTF-8", "ISO-8859-1").encode("latin-1"), id="Latin-1"),
        pytest.param("Warning: something on line 3\n" + TWO, id="a warning in front"),
        pytest.param("---\nlayout: null\n---\n" + TWO, id="front matter"),
        pytest.param(gzip.compress(TWO.encode()), id="gzip"),
        pytest.param(gzip.compress(gzip.compress(TWO.encode())), id="gzip twice"),
        pytest.param(gzip.compress(TWO[:99].encode()) + gzip.compress(TWO[99:].encode()), id="gzip in members"),
        pytest.param(gzip.compress(TWO.encode()) + bytes(100), id="gzip and padding"),
        pytest.param(TWO.replace("<loc>", "<loc>\n   ").replace("</loc>", "\n</loc>"), id="blanks around"),
        pytest.param(TWO.replace("https://example.org/a", "<![CDATA[https://example.org/a]]>"), id="CDATA"),
        pytest.param(TWO.replace("https://example.org", ""), id="relative"),
        pytest.param(TWO.replace("https://example", "HTTPS://EXAMPLE"), id="upper case"),
        pytest.param(TWO.removesuffix("</urlset>"), id="not closed"),
        pytest.param(TWO + "<url><loc>https://example.org/c", id="more behind the end"),
        pytest.param(TWO.replace("<urlset", "<!DOCTYPE urlset SYSTEM 'file:///etc/passwd'><urlset"), id="a DTD"),
        pytest.param(
            TWO.replace("<urlset", '<!DOCTYPE urlset [<!-- ]> --><!ENTITY a "]>">]>\n<urlset'), id="an own DTD"
        ),
        pytest.param(
            TWO.replace("<urlset", "<!DOCTYPE a><!-- x --><!DOCTYPE b [<!ENTITY c 'd'>]><urlset"), id="two DTDs"
        ),
        pytest.param(TWO.replace("</lastmod>", "</lastmd>"), id="wrong end"),
        pytest.param(TWO.replace("<lastmod>", "<x>&nbsp;\x01</x><lastmod>"), id="not XML inside"),
        pytest.param("\n".join(TWO_LOCS), id="text"),
        pytest.param("\r\n".join(["", *TWO_LOCS, ""]), id="text of another system"),
        pytest.param(codecs.BOM_UTF8 + "\n".join(TWO_LOCS).encode(), id="text with a mark"),
        pytest.param(gzip.compress("\n".join(TWO_LOCS).encode()), id="text, packed"),
    ],
)
def test_reads_whatever_can_be_made_out(body: str | bytes) -> None:
    """The same two pages come out of every spelling and of every fault that leaves them visible."""
    assert locs(body) == TWO_LOCS


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", Unreadable.EMPTY),
        (" \n ", Unreadable.EMPTY),
        (gzip.compress(b"", mtime=0), Unreadable.EMPTY),
        ("<!DOCTYPE html><html><body>Not found</body></html>", Unreadable.HTML),
        ("<html><body>Not found</body></html>", Unreadable.HTML),
        ('<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "b"><urlset/>', Unreadable.DOCTYPE),
        ("<!DOCTYPE urlset [" + '<!ENTITY a "b">' * 10_000 + "]><urlset/>", Unreadable.DOCTYPE),
        ("<kml><url><loc>https://example.org/</loc></url></kml>", Unreadable.UNKNOWN_ROOT),
        ("<urlset><url><loc", Unreadable.NOT_XML),
        ("<" + "!" * 100, Unreadable.NOT_XML),
        ("Not found", Unreadable.NO_URLS),
        ("\x7fELF" + "\0\1\2" * 1000, Unreadable.NO_URLS),
        ("x" * 100_000, Unreadable.NO_URLS),
        (gzip.compress(TWO.encode(), mtime=0)[:-12], Unreadable.GZIP),
        (b"\x1f\x8bnonsense", Unreadable.GZIP),
        ('{"items": 3}', Unreadable.NOT_JSON_FEED),
        ("[" * 100_000, Unreadable.NO_URLS),
        ('{"items":' + "[" * 100_000, Unreadable.NOT_JSON_FEED),
    ],
)
def test_names_why_a_file_cannot_be_read(body: str | bytes, reason: Unreadable) -> None:
    """What lists nothing is refused with a named reason."""
    assert refused(body) is reason


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    """A small file that unpacks to more than 50 MB is refused, however many layers it has."""
    bomb = gzip.compress(b"<urlset>" + (b"<url></url>" + b" " * 2000) * 30_000)
    assert len(bomb) < 2**20
    assert refused(bomb) is Unreadable.TOO_LARGE
    packed = TWO.encode()
    for _ in range(XML_STREAM_LIMITS.max_layers + 1):
        packed = gzip.compress(packed)
    assert refused(packed) is Unreadable.GZIP
    assert refused(gzip.compress(b"", mtime=0) * (XML_STREAM_LIMITS.max_members + 1)) is Unreadable.GZIP


def test_an_entry_without_end_is_refused() -> None:
    """One entry cannot grow in memory without limit."""
    assert refused("<urlset><url>" + "<x/>" * 200_000 + "</url></urlset>") is Unreadable.ENTRY_TOO_LARGE
    many = " ".join(f'a{i}="1"' for i in range(200_000))
    assert refused(f"<urlset><url {many}/></urlset>") is Unreadable.TOO_LARGE
    assert refused("<urlset>" + "<x>" * 200_000) in {Unreadable.ENTRY_TOO_LARGE, Unreadable.NOT_XML}


def test_at_most_fifty_thousand_entries_are_taken() -> None:
    """A file with more entries than the protocol allows is cut there, and says that it is not complete."""
    urls = "".join(f"<url><loc>https://example.org/{i}</loc></url>" for i in range(LISTING_LIMITS.max_entries + 10))
    listing = read(f"<urlset>{urls}</urlset>")
    assert (len(listing.entries), listing.complete) == (LISTING_LIMITS.max_entries, False)
    text = read("\n".join(f"https://example.org/{i}" for i in range(LISTING_LIMITS.max_entries + 10)))
    assert (len(text.entries), text.complete) == (LISTING_LIMITS.max_entries, False)


def test_entries_without_a_url_use_up_the_limit_too() -> None:
    """A file full of nothing is left where a full one would be."""
    blank = read("<urlset>" + "<url/>" * (LISTING_LIMITS.max_entries + 10) + "<url><loc>/a</loc></url></urlset>")
    assert (list(blank.entries), blank.skipped, blank.complete) == ([], LISTING_LIMITS.max_entries, False)
    text = read("https://example.org/a\n" + "x\n" * 10 * LISTING_LIMITS.max_entries)
    assert (len(text.entries), text.complete, text.skipped < 3 * LISTING_LIMITS.max_entries) == (1, False, True)


def test_ampersands_that_are_not_escaped_stay_in_the_url() -> None:
    """A bare ampersand is mended outside CDATA and left alone inside it, and the file is not taken as complete."""
    listing = read(
        "<urlset><url><loc>https://example.org/?a=1&b=2&amp;c=3</loc></url>"
        "<url><loc><![CDATA[https://example.org/?a=1&b=2>x]]></loc></url></urlset>"
    )
    assert [entry.loc for entry in listing.entries] == [
        "https://example.org/?a=1&b=2&c=3",
        normalise("https://example.org/?a=1&b=2>x"),
    ]
    assert not listing.complete


def test_an_index_lists_sitemaps() -> None:
    """The entries of an index are sitemaps with their own lastmods, even where <loc> is forgotten."""
    listing = read(
        f"<sitemapindex {SPACE}><sitemap><loc>https://example.org/1.xml.gz</loc><lastmod>2024-01-02</lastmod></sitemap>"
        "<sitemap>https://example.org/2.xml</sitemap></sitemapindex>"
    )
    assert listing.form is FileForm.INDEX
    assert [(e.loc[-8:], e.kind, e.lastmod is not None) for e in listing.entries] == [
        ("1.xml.gz", EntryKind.SITEMAP, True),
        ("rg/2.xml", EntryKind.SITEMAP, False),
    ]


def test_extensions_are_told_from_the_page() -> None:
    """An image's loc is not the page's, a news date stands in for lastmod, an alternate is named without a claim."""
    listing = read(
        f'<urlset {SPACE} xmlns:i="http://www.google.com/schemas/sitemap-image/1.1" xmlns:x="http://www.w3.org/1999/xhtml"'
        ' xmlns:n="http://www.google.com/schemas/sitemap-news/0.9" xmlns:v="http://www.google.com/schemas/sitemap-video/1.1">'
        "<url><i:image><i:loc>https://example.org/i.png</i:loc></i:image><loc>https://example.org/a</loc>"
        "<v:video><v:publication_date>2020-01-01</v:publication_date></v:video>"
        "<n:news><n:publication_date>2024-01-02</n:publication_date></n:news>"
        '<x:link rel="alternate" hreflang="de" href="https://example.org/de/a"/>'
        '<x:link rel="alternate" hreflang="en" href="https://example.org/a"/></url></urlset>'
    )
    page, alternate = listing.entries
    assert (page.loc, page.kind) == ("https://example.org/a", EntryKind.PAGE)
    assert page.lastmod is not None
    assert page.lastmod.raw == "2024-01-02"
    assert (alternate.loc, alternate.kind, alternate.lastmod) == ("https://example.org/de/a", EntryKind.ALTERNATE, None)


def test_an_empty_lastmod_does_not_hide_the_news_date() -> None:
    """Where a lastmod says nothing, the date of publication stands in for it; one that says something goes first."""
    news = "<n:news xmlns:n='n'><n:publication_date>2024-01-02</n:publication_date></n:news>"
    for lastmod in ("<lastmod/>", "<lastmod> </lastmod>", "<lastmod>NaN</lastmod>", "<lastmod/><lastmod/>"):
        (entry,) = read(f"<urlset><url><loc>/a</loc>{lastmod}{news}</url></urlset>").entries
        assert entry.lastmod is not None
        assert entry.lastmod.raw == "2024-01-02"
    (entry,) = read(f"<urlset><url><loc>/a</loc><lastmod>2024-03-04</lastmod>{news}</url></urlset>").entries
    assert entry.lastmod is not None
    assert entry.lastmod.raw == "2024-03-04"


@pytest.mark.parametrize("spelling", ["{}", "<![CDATA[{}]]>", "<!-- x -->{}"])
def test_a_file_cut_anywhere_gives_whole_addresses_alone(spelling: str) -> None:
    """However a file breaks off, each whole address counts, and no entry has half an address or half a date."""
    locs = [spelling.format(f"https://example.org/page/{number}?x=1&amp;y=2") for number in (1234, 5678)]
    whole = f"<urlset {SPACE}>" + "".join(
        f"<url>\n<loc>{loc}</loc><lastmod>2024-01-02T10:11:12Z</lastmod>\n</url>" for loc in locs
    )
    entries = read(whole + "</urlset>").entries
    assert len(entries) == 2
    for cut in range(len(f"<urlset {SPACE}>"), len(whole)):
        try:
            found = read(whole[:cut])
        except UnreadableError:
            continue
        dated = whole[:cut].count("</lastmod>")
        expected = [entry if number < dated else replace(entry, lastmod=None) for number, entry in enumerate(entries)]
        assert list(found.entries) == expected[: whole[:cut].count("</loc>")]
        assert not found.complete


def test_entities_of_a_dtd_are_never_expanded() -> None:
    """A DTD that would blow up, or read a file, defines nothing: addresses made of it are skipped."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))
    dtd = f'<!DOCTYPE urlset [<!ENTITY l0 "https://example.org/lol">{laughs}<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    listing = read(
        f"{dtd}<urlset><url><loc>&l19;</loc></url><url><loc>/a&x;</loc></url><url><loc>/b&c;d</loc></url></urlset>"
    )
    assert ([entry.loc for entry in listing.entries], listing.skipped) == (["https://example.org/b&c;d"], 2)


def test_a_base_in_the_file_counts() -> None:
    """A relative address counts from the xml:base of its entry and of the file."""
    listing = read(
        '<urlset xml:base="https://cdn.example.org/x/">'
        '<url xml:base="y/"><loc>a</loc></url><url><loc>b</loc></url></urlset>'
    )
    assert [entry.loc for entry in listing.entries] == ["https://cdn.example.org/x/y/a", "https://cdn.example.org/x/b"]


def test_junk_locs_are_counted_not_listed() -> None:
    """Entries without a URL that can be asked are skipped one by one."""
    listing = read(
        "<urlset><url><loc>https://example.org/a</loc></url><url><loc></loc></url><url/>"
        "<url><loc>javascript:alert(1)</loc></url><url><loc>{{ site.url }}</loc></url>"
        "<url><loc>https://user:secret@example.org/</loc></url></urlset>"
    )
    assert [entry.loc for entry in listing.entries] == ["https://example.org/a"]
    assert listing.skipped == 5


def test_a_feed_serves_as_sitemap() -> None:
    """RSS, Atom and JSON Feed at a sitemap's address are read as what they are."""
    rss = "<rss><channel><item><link>https://example.org/a</link></item></channel></rss>"
    atom = '<feed><entry><link href="https://example.org/a"/></entry></feed>'
    json_feed = '{"items": [{"url": "https://example.org/a"}]}'
    assert [read(body).form for body in (rss, atom, json_feed)] == [FileForm.RSS, FileForm.ATOM, FileForm.JSON]
    assert locs(rss) == locs(atom) == locs(json_feed) == ["https://example.org/a"]


@given(st.from_regex(r"https?://[a-z0-9-]{1,5}\.[a-z0-9.-]{0,5}[a-z]{2,3}/[A-Za-z0-9_~/.-]{0,12}", fullmatch=True))
def test_the_quick_way_normalises_alike(url: str) -> None:
    """A URL taken as it is would have been left alone by normalising."""
    found = locate(url, URL)
    try:
        expected: str | None = normalise(url)
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        expected = None
    assert found == expected
