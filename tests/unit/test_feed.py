"""Feeds: RSS, Atom and JSON Feed give their items, the times they claim, and the hubs they offer."""

import pytest

from crawld.read.dates import read_date
from crawld.read.feed import links_of_header, read_feed
from crawld.read.listing import Entry, EntryKind, FileForm, Unreadable, UnreadableError
from crawld.read.page.head import canonical_in_header, read_head, read_refresh

URL = "https://example.org/feed"
NOW = 1_790_000_000.0


def only(text: str) -> Entry:
    """The single item of a feed."""
    (entry,) = read_feed(text.encode(), URL, NOW).entries
    return entry


@pytest.mark.parametrize(
    "text",
    [
        (
            "<rss><channel><link>https://example.org/</link><item><title>A &amp; B</title>"
            "<link>https://example.org/a</link><pubDate>Tue, 02 Jan 2024 10:00:00 GMT</pubDate></item></channel></rss>"
        ),
        (
            '<rss><channel><item><guid isPermaLink="true">https://example.org/a</guid>'
            "<pubDate>Tue, 02 Jan 2024 10:00:00 GMT</pubDate></item></channel></rss>"
        ),
        (
            '<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/" xmlns:dc="d"><item><link>/a</link>'
            "<dc:date>2024-01-02T10:00:00Z</dc:date></item></rdf:RDF>"
        ),
        (
            '<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.org/"/><entry><id>tag:1</id>'
            '<link rel="edit" href="/edit"/><link href="/a"/><published>2020-01-01</published>'
            "<updated>2024-01-02T10:00:00Z</updated></entry></feed>"
        ),
        (
            '{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": 3, "url": "https://example.org/a",'
            ' "date_published": "2020-01-01", "date_modified": "2024-01-02T10:00:00Z"}]}'
        ),
    ],
    ids=["RSS", "RSS by guid", "RSS 1.0", "Atom", "JSON Feed"],
)
def test_an_item_gives_its_page_and_its_latest_time(text: str) -> None:
    """The item's own link is taken, not the feed's, and the time of change goes before that of publication."""
    entry = only(text)
    assert (entry.loc, entry.kind) == ("https://example.org/a", EntryKind.ITEM)
    assert entry.lastmod is not None
    assert entry.lastmod.at == 1704189600.0


def test_a_doctype_is_dropped() -> None:
    """RSS 0.91 with its DOCTYPE is read, and the HTML names it may use are characters."""
    text = (
        '<?xml version="1.0"?>\n<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN"\n'
        ' "http://my.netscape.com/publish/formats/rss-0.91.dtd">\n<rss version="0.91"><channel><title>A&nbsp;B</title>'
        "<item><title>Caf&eacute;</title><link>https://example.org/caf&eacute;?a=1&copy=2&amp;b=3</link></item>"
        "</channel></rss>"
    )
    assert only(text).loc == "https://example.org/caf%C3%A9?a=1&copy=2&b=3"
    plain = text.replace("&nbsp;", " ").replace("&eacute;", "e").replace("&copy", "&amp;copy")
    assert read_feed(plain.encode(), URL, NOW).complete


@pytest.mark.parametrize(
    ("text", "loc"),
    [
        ('<feed xml:base="https://example.net/x/"><entry><link href="a"/></entry></feed>', "https://example.net/x/a"),
        ('<feed xml:base="/x/"><entry xml:base="y/"><link href="a"/></entry></feed>', "https://example.org/x/y/a"),
        ('<feed xml:base="/x/"><entry><link xml:base="../z/" href="a"/></entry></feed>', "https://example.org/z/a"),
        ('<feed xml:base="/x/"><entry><link href="https://example.org/a"/></entry></feed>', "https://example.org/a"),
        ('<feed xml:base="http://["><entry><link href="a"/></entry></feed>', "https://example.org/a"),
        ('<feed xml:base="mailto:me"><entry><link href="a"/></entry></feed>', "https://example.org/a"),
        (
            '<rss xml:base="/x/"><channel xml:base="y/"><item><link>a</link></item></channel></rss>',
            "https://example.org/x/y/a",
        ),
        ('<rss><channel><item xml:base="/x/"><guid>a</guid></item></channel></rss>', "https://example.org/x/a"),
    ],
)
def test_a_base_counts_for_what_is_inside(text: str, loc: str) -> None:
    """Relative links count from the xml:base of their own element and of those around it, if it is an address."""
    assert only(text).loc == loc


def test_a_base_counts_for_the_links_of_the_feed() -> None:
    """Hub and topic are relative to the feed's xml:base too."""
    listing = read_feed(b'<feed xml:base="https://example.net/x/"><link rel="self" href="me"/></feed>', URL, NOW)
    assert listing.topic == "https://example.net/x/me"


def test_an_empty_date_does_not_hide_another() -> None:
    """Of an item's dates the first that says anything counts."""
    item = "<link>/a</link><updated/><pubDate/><pubDate>some day</pubDate>"
    assert only(f"<rss><channel><item>{item}</item></channel></rss>").lastmod == read_date("some day", NOW)


def test_hubs_and_topic_are_found() -> None:
    """A feed's hub and its own address are read from Atom, RSS and JSON Feed."""
    links = '<link rel="hub" href="https://hub.example.net/"/><link rel="self" href="https://example.org/me"/>'
    json_feed = '{"feed_url": "https://example.org/me", "items": [],'
    json_feed += ' "hubs": [{"type": "WebSub", "url": "https://hub.example.net/"}]}'
    for text in (f"<feed>{links}</feed>", f"<rss><channel>{links}</channel></rss>", json_feed):
        listing = read_feed(text.encode(), URL, NOW)
        assert (list(listing.hubs), listing.topic) == (["https://hub.example.net/"], "https://example.org/me")


def test_links_in_the_header_are_found() -> None:
    """A Link header offers hub and topic, quoted or not, relative or not."""
    header = '<https://hub.example.net/>; rel="hub", </me>; rel=self, <https://example.org/x>; rel=next'
    assert links_of_header(header, URL) == (["https://hub.example.net/"], "https://example.org/me")


def test_an_item_without_a_page_is_skipped() -> None:
    """An item with neither link nor permanent guid is counted, not listed."""
    listing = read_feed(b'<rss><channel><item><guid isPermaLink="false">7</guid></item></channel></rss>', URL, NOW)
    assert (listing.form, list(listing.entries), listing.skipped) == (FileForm.RSS, [], 1)


def test_a_broken_feed_gives_what_can_be_made_out() -> None:
    """Items before and after a fault are read; the listing is not complete."""
    listing = read_feed(
        b"<rss><channel><item><link>/a?x=1&y=2</link></item><item><link>/b</link><p></item></channel></rss>", URL, NOW
    )
    assert [entry.loc for entry in listing.entries] == ["https://example.org/a?x=1&y=2", "https://example.org/b"]
    assert not listing.complete


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Unreadable.EMPTY),
        ("gone", Unreadable.NOT_XML),
        ("<!DOCTYPE html><p>", Unreadable.HTML),
        ('<!DOCTYPE rss [<!ENTITY x "y"><rss/>', Unreadable.DOCTYPE),
        ("<urlset/>", Unreadable.UNKNOWN_ROOT),
        ("<rss><chan", Unreadable.NOT_XML),
        ("{", Unreadable.NOT_JSON_FEED),
        ('{"items": {}}', Unreadable.NOT_JSON_FEED),
        ('{"items": [' + "1," * 5_000_000 + "1]}", Unreadable.TOO_LARGE),
    ],
)
def test_names_why_a_feed_cannot_be_read(text: str, reason: Unreadable) -> None:
    """What is no feed is refused with a named reason."""
    with pytest.raises(UnreadableError) as refusal:
        read_feed(text.encode(), URL, NOW)
    assert refusal.value.reason is reason


def test_feeds_linked_in_the_head_are_found() -> None:
    """Alternate links of a feed's type are found, relative or not; other links and comments' feeds are not."""
    page = b"""<!doctype html><head><LINK REL='alternate' type="application/rss+xml" href="/feed?a=1&amp;b=2">
        <link href=atom.xml rel="alternate home" type=application/atom+xml><link rel="stylesheet" href="x.css">
        <link rel="alternate" hreflang="de" href="/de"><link rel="alternate" type="application/rss+xml">
        <link rel="alternate" type="application/rss+xml" href="/comments/feed/"></head>"""
    found = ("https://example.org/feed?a=1&b=2", "https://example.org/a/atom.xml")
    assert read_head(page, "https://example.org/a/b").feeds == found
    styled = page.replace(b"<head>", b"<head><style>" + b"p { color: red }" * 20_000 + b"</style>")
    assert read_head(styled, "https://example.org/a/b").feeds == found


@pytest.mark.parametrize(
    ("page", "canonical"),
    [
        ("<head><link rel=canonical href='/a?x=1&amp;y=2'></head>", "https://example.org/a?x=1&y=2"),
        ("<head><base href=/docs/><link rel=Canonical href=a></head>", "https://example.org/docs/a"),
        ("<title>t</title><link href=/a rel='canonical nofollow'><p>text", "https://example.org/a"),
        ("<head></head><body><link rel=canonical href=/a>", None),
        ("<p>a comment by a stranger<link rel=canonical href=/a>", None),
        ("<head><!-- <link rel=canonical href=/a> --><script>'<link rel=canonical href=/b>'</script>", None),
        ("<head><link rel=canonical href=/a><link rel=canonical href=/b></head>", None),
        ("<head><link rel=canonical href='javascript:x'></head>", None),
    ],
)
def test_the_canonical_address_counts_in_the_head_alone(page: str, canonical: str | None) -> None:
    """One canonical link in the head names the page's address; several, or one in the body, name none."""
    assert read_head(page.encode(), "https://example.org/b").canonical == canonical


def test_a_link_header_may_name_the_canonical_address() -> None:
    """The canonical address may stand in a Link header among others."""
    header = '</s.css>; rel=preload, <https://example.org/a>; rel="canonical"'
    assert canonical_in_header(header, "https://example.org/b") == "https://example.org/a"
    assert canonical_in_header("</s.css>; rel=preload", "https://example.org/b") is None
    assert canonical_in_header(None, "https://example.org/b") is None


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/b", "https://example.org/b"),
        ("5;URL='/b'", "https://example.org/b"),
        ("0,/b", "https://example.org/b"),
        ("30; url=/b", None),
        ("0", None),
        ("0; url=/a", None),
    ],
)
def test_a_refresh_after_a_short_delay_leads_on(content: str, target: str | None) -> None:
    """A refresh within five seconds names where the page leads; a later one, and one to itself, name nothing."""
    page = f'<html><head><META content="{content}" HTTP-EQUIV="Refresh"></head>'.encode()
    found = read_refresh(page, "https://example.org/a")
    assert (None if found is None else found.url) == target
    assert read_refresh(b"<noscript>" + page + b"</noscript>", "https://example.org/a") is None
