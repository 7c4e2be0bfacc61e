"""Files made to be slow or large, by size: what a hostile server might send to each parser."""

import gzip
from collections.abc import Callable
from itertools import count

Bomb = Callable[[int], bytes]


def repeated(piece: bytes, before: bytes = b"", after: bytes = b"") -> Bomb:
    """One piece again and again."""
    return lambda size: before + piece * max(1, (size - len(before) - len(after)) // len(piece)) + after


def numbered(piece: bytes, before: bytes = b"", after: bytes = b"") -> Bomb:
    """A piece with another number each time."""

    def made(size: int) -> bytes:
        pieces, left = [before], size - len(before) - len(after)
        for number in count():
            pieces.append(piece.replace(b"%d", b"%d" % number))
            left -= len(pieces[-1])
            if left < 0:
                return b"".join(pieces) + after
        raise AssertionError  # counting does not end

    return made


BOMBS: dict[str, Bomb] = {
    "attributes": numbered(b"a%d ", b"<a ", b">x"),
    "attributes with values": numbered(b"a%d='>' ", b"<a ", b">x"),
    "tags of many attributes": numbered(b"<p a%d b c d e f g h=1>x"),
    "attributes of html": numbered(b"<html a%d=1>"),
    "one attribute often": repeated(b"a ", b"<a ", b">x"),
    "nested blocks": lambda size: b"<div>" * min(size // 5, 2_000) + b"deep",
    "nested formatting": repeated(b"<font><b><i><u>"),
    "unclosed formatting": numbered(b"<b %d>"),
    "misnested": repeated(b"<a><p></a></p>x"),
    "stray ends": repeated(b"</i>", b"<div>" * 250),
    "stray ends, deep": repeated(b"</i>", b"<div>" * 2_000 + b"x"),
    "stray ends, balanced": repeated(b"<p><p></p></p>", b"<div>" * 2_000 + b"x"),
    "void ends": repeated(b"<br></br>", b"<div>" * 2_000 + b"x"),
    "paragraphs, deep": repeated(b"<p>x</p>", b"<div>" * 1_900),
    "paragraphs": repeated(b"<p>x"),
    "other paragraphs": numbered(b"<p>word %d here"),
    "entities": repeated(b"&amp;"),
    "open entities": repeated(b"&x"),
    "numeric entities": repeated(b"&#1"),
    "entities in an attribute": repeated(b"&amp;", b'<a x="', b'">x'),
    "classes": repeated(b"a ", b'<div class="', b'">x'),
    "hidden": repeated(b"<p hidden>x"),
    "styles": numbered(b"<p style='display:none;a:%d'>x"),
    "one long style": repeated(b"display:none;/*", b"<p style='", b"'>x"),
    "roles": repeated(b"<p role=main>x"),
    "asides": repeated(b"<aside>x</aside>"),
    "named": repeated(b"<div class=sidebar>x</div>", b"<div>" * 200),
    "headers": repeated(b"<header><h1>x</h1><a>y</a></header>"),
    "headings, deep": repeated(b"<h1>x</h1>", b"<header>" * 1_000),
    "titles": repeated(b"<title>a - b</title>"),
    "one long title": repeated(b" - ", b"<title>", b"</title>x"),
    "icons": repeated(b"<svg><title>a</title></svg>"),
    "spaces": repeated(b" \n\t", b"<pre>"),
    "comments": repeated(b"<!--x-->"),
    "open comments": repeated(b"<!--"),
    "dashes": repeated(b"-", b"<!--"),
    "open tags": repeated(b"<a"),
    "open quotes": repeated(b"<a b=\"'"),
    "scripts": repeated(b"<script>x</script>"),
    "open script": repeated(b"<!--<script>", b"<script>"),
    "long names": repeated(b"a", b"<"),
    "other names": numbered(b"<t%d>x"),
    "digits": repeated(b"1", b"<p>"),
    "dotted digits": repeated(b"1.", b"<p>"),
    "grouped digits": repeated(b"1,234 ", b"<p>"),
    "single digits": numbered(b"<p>%d " + b"1 " * 400),
    "dates": numbered(b"<p>2024-01-01 %d "),
    "nearly dates": numbered(b"<p>%d " + b"x12:30x" * 200),
    "ages": numbered(b"<p>%d hours ago "),
    "nearly ages": numbered(b"<p>%d " + b"1 hour, and " * 100),
    "words": repeated(b"word ", b"<p>"),
    "one word": repeated(b"w", b"<p>"),
    "zeros": repeated(b"\0"),
    "bad bytes": repeated(b"\xff"),
    "noncharacters": repeated("\ufdd0\ufdd1".encode()),
    "utf-16": lambda size: ("<p>x" * (size // 8)).encode("utf-16"),
    "meta": repeated(b"<meta charset=x "),
    "cells": repeated(b"<tr><td>x", b"<table>"),
    "tables": lambda size: b"<table><tr><td>" * min(size // 15, 80) + b"x",
    "options": repeated(b"<option>x", b"<select>"),
    "breaks": repeated(b"<br>"),
    "links": repeated(b"<link " + b"a" * 20 + b" " * 1_900 + b">"),
}
"""Pages."""

LISTS: dict[str, Bomb] = {
    "entries": numbered(b"<url><loc>https://example.org/%d</loc></url>", b"<urlset>", b"</urlset>"),
    "empty entries": repeated(b"<url/>", b"<urlset>", b"</urlset>"),
    "comments in a list": repeated(b"<!---->", b"<urlset>", b"</urlset>"),
    "comments in an entry": repeated(b"<!--x-->", b"<urlset><url>", b"</url></urlset>"),
    "names without end": repeated(b"a", b"<urlset><"),
    "attributes in a list": numbered(b"a%d='' ", b"<urlset ", b"/>"),
    "namespaces": numbered(b"xmlns:a%d='a' ", b"<urlset ", b"/>"),
    "nested lists": repeated(b"<urlset>"),
    "entities in a list": repeated(b"&amp;", b"<urlset><url><loc>", b"</loc></url></urlset>"),
    "instructions": repeated(b"<?x?>", b"<urlset>"),
    "foreign names": numbered("<url><loc>https://é%d.example/</loc></url>".encode(), b"<urlset>", b"</urlset>"),
    "text lines": numbered(b"https://example.org/%d\n"),
    "foreign lines": numbered("https://é%d.example/\n".encode()),
    "links in one item": numbered(b"<link href='/%d'/>", b"<feed><entry>", b"</entry></feed>"),
    "items": numbered(b"<item><link>/%d</link></item>", b"<rss><channel>", b"</channel></rss>"),
    "hubs": numbered(b"<link rel='hub' href='https://h%d.example/'/>", b"<feed>", b"</feed>"),
    "json items": numbered(b'{"url":"/%d"},', b'{"version":"https://jsonfeed.org/version/1","items":[', b"{}]}"),
    "json nesting": repeated(b"["),
    "json digits": repeated(b"1", b'{"version":"https://jsonfeed.org/version/1","items":['),
    "bases": repeated(b"<a xml:base='x/'>", b"<rss>"),
    "packed lists": lambda size: gzip.compress(b"<urlset>" + b"<url/>" * (size * 20), 9)[:size],
    "many members": repeated(gzip.compress(b"", 9)),
    "members": repeated(gzip.compress(b"<url><loc>https://example.org/</loc></url>", 9)),
    "padding": repeated(b"\0", gzip.compress(b"<urlset/>", 9)),
}
"""Sitemaps and feeds."""

RULES: dict[str, Bomb] = {
    "agents": numbered(b"User-agent: a%d\n", b"", b"Disallow: /\n"),
    "groups": numbered(b"User-agent: a%d\nDisallow: /%d\n"),
    "agents and rules": lambda size: b"".join(
        numbered(line)(size // 2) for line in (b"User-agent: a%d\n", b"Disallow: /%d\n")
    ),
    "our groups": numbered(b"User-agent: *\nDisallow: /%d\n"),
    "stars": lambda size: b"User-agent: *\n" + (b"Disallow: /" + b"*a" * 500 + b"\n") * max(1, size // 1_000),
    "one long pattern": repeated(b"*a", b"User-agent: *\nDisallow: /", b"b$\n"),
    "escapes": repeated(b"%41", b"User-agent: *\nDisallow: /"),
    "sitemaps": numbered(b"Sitemap: https://example.org/%d\n"),
    "foreign sitemaps": numbered("Sitemap: https://é%d.example/\n".encode()),
    "empty lines": repeated(b"\r"),
    "colons": repeated(b":"),
}
"""robots.txt files."""

LINES: dict[str, Bomb] = {
    "semicolons": repeated(b"; ", b"a=b"),
    "cookies": numbered(b"a%d=b; Path=/\n"),
    "long cookie": repeated(b"a", b"b="),
    "date spaces": repeated(b" ", b"Tue, 02 Jan", b"2024"),
    "date digits": repeated(b"1", b"Tue, 02 Jan "),
    "date words": repeated(b"Jan "),
    "date parentheses": repeated(b"("),
    "link header": numbered(b"<https://h%d.example/>; rel=hub, "),
    "link parameters": repeated(b"; a=b", b"<x>"),
    "open link": repeated(b"<"),
    "quoted link": repeated(b'\\"', b'<x>; rel="'),
    "etag": repeated(b"-gzip", b'"', b'"'),
    "commas": repeated(b","),
    "foreign urls": numbered('"https://é%d.example/",'.encode(), b'["', b'"]'),
    "urls": numbered(b'"https://example.org/%d",', b"[", b'"x"]'),
    "deep ping": repeated(b"["),
    "xn": repeated(b"xn--a.", b"https://"),
}
"""Header values, dates, cookies and pings."""
