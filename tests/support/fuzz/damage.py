"""Well-formed files, mutated a few times by a generator with a fixed seed: a number names its input."""

import gzip
import random
import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from crawld.model.errors import ParseError
from crawld.read.listing import UnreadableError
from tests.support.fuzz.cost import Cost, measure
from tests.support.fuzz.parsers import PARSERS

SEEDS: tuple[bytes, ...] = (
    (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        b' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml">'
        b"<url><loc>https://example.org/a?x=1&amp;y=2</loc><lastmod>2024-01-02T10:00:00+01:00</lastmod>"
        b"<image:image><image:loc>/i.png</image:loc></image:image>"
        b'<xhtml:link rel="alternate" href="https://example.org/de"/></url>'
        b"<url><loc><![CDATA[https://example.org/b]]></loc><lastmod>2024-01-02</lastmod></url></urlset>"
    ),
    (
        b"<sitemapindex><sitemap><loc>https://example.org/1.xml.gz</loc>"
        b"<lastmod>Mon, 02 Dec 2024 11:30:00 GMT</lastmod></sitemap><sitemap>https://example.org/2.xml</sitemap></sitemapindex>"
    ),
    b"https://example.org/a\nhttps://example.org/b\r\n\r\nhttps://example.org/c",
    (
        b'<rss version="2.0"><channel><atom:link xmlns:atom="a" rel="hub" href="https://hub.example.org/"/>'
        b"<item><link>https://example.org/a</link><guid isPermaLink='false'>7</guid>"
        b"<pubDate>Tue, 02 Jan 2024 10:00:00 GMT</pubDate></item><item><guid>https://example.org/b</guid></item></channel></rss>"
    ),
    (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="/me"/><entry><id>tag:1</id><link href="/a"/>'
        b"<updated>2024-01-02T10:00:00Z</updated></entry></feed>"
    ),
    (
        b'{"version": "https://jsonfeed.org/version/1.1", "feed_url": "/me",'
        b' "hubs": [{"type": "WebSub", "url": "/hub"}],'
        b' "items": [{"id": "1", "url": "https://example.org/a", "date_modified": "2024-01-02T10:00:00Z"}]}'
    ),
    (
        b"User-agent: *\nDisallow: /private/*.php$\nAllow: /\nCrawl-delay: 2.5\nSitemap: https://example.org/s.xml\n"
        b"User-agent: crawld\nUser-agent: other # note\nDisallow: /x\n"
    ),
    (
        b"\xff\xfe"
        + "User-agent: crawld/1.0\r\nnoindex: /\r\nDisallow /*a*b$\r\nAllow: /%41?b=%2F#c\r\n".encode("utf-16-le")
    ),
    (
        b'<!DOCTYPE rss PUBLIC "-//x//EN" "x.dtd" [<!ENTITY lol "&#60;"><!-- ]> -->]><rss xml:base="/x/"><channel>'
        b'<item xml:base="y/"><link>a&nbsp;&lol;</link><pubDate>Tue, 02 Jan 2024 10:00:60 CEST</pubDate></item>'
        b"</channel></rss>"
    ),
    b"a=b; Path=/; Domain=.example.org; Max-Age=60; Expires=Tue, 02 Jan 2024 10:00:60 CET; Secure",
    b'<!DOCTYPE html><html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>',
    b'<https://hub.example.org/>; rel="hub", </me>; rel=self',
    (
        b"<!doctype html><html lang=en><head><meta charset=utf-8><title>A page | A site</title>"
        b'<link rel=alternate type="application/atom+xml" href="/feed"><style>a{b:c}</style></head><body><header><h1>A '
        b"site</h1><nav><ul><li><a href=/>Home</a></ul></nav></header><main><article><p>Posted 3 hours ago, 1,234 views"
        b'<p class="x y" style="display:none">hidden</p><pre> a  b\n</pre><div id=sidebar hidden>x</div><p>12:30</p>'
        b"<script>if (i<n) { a = '<p>'; }</script><svg><title>t</title></svg></article></main><aside role=note>n"
    ),
    b'["https://example.org/a", {"url": "https://example.org/b", "at": "2026-11-16T12:00:00Z"}, {"url": 7}]',
    b'{"host": "example.org", "key": "12345678", "urlList": ["https://example.org/a"]}',
)


TOKENS: tuple[bytes, ...] = (
    b"<", b">", b"&", b"&amp;", b"&#0;", b"&#xD800;", b"&#x10FFFF;", b"&lol;", b"<![CDATA[", b"]]>", b"<!--", b"-->",
    b"<?xml version='1.0' encoding='UTF-16'?>", b"<!DOCTYPE x [<!ENTITY lol 'lol'>]>", b"<url>", b"</url>", b"<loc>",
    b"</urlset>", b"<item>", b"<x:y>", b' xmlns="', b' xmlns:a="a" a:b="c"', b"\0", b"\xff\xfe", b"\xfe\xff",
    b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\x1f\x8b", b"\x1f\x8b\x08\0", b"{{", b"NaN", b"null", b"1e999", b"[",
    b"{", b'"', b"\\ud800", b"0000-00-00", b"9999-12-31T23:59:59-23:59", b"99999999999999999999", b"http://", b"https://[::1",
    b"https://a:99999/", b"//", b"javascript:1", b"http://\xc3\xa9.org/", b"*", b"$", b"%", b"%zz", b"Disallow: ", b":",
    b' xml:base="http://["', b"<!DOCTYPE ", b"<!ENTITY a '", b"&nbsp;", b":60", b" CEST", b"crawld/1.0", b"%2F", b"?",
    b"<div>", b"</div>", b"<p hidden>", b"<b>", b"<main>", b"<!--", b"-->", b"<script>", b"</script>", b"<table>",
    b"<select>", b"<template>", b"<svg>", b"<aside>", b"<a b='", b"3 days ago", b"\xef\xb7\x90", b" a=",
    b"\r", b"\n", b"\x85", b"\xe2\x80\xa8", b"User-agent: ", b"Crawl-delay: inf", b"Sitemap: ",
)  # fmt: skip


SUSPECT_SECONDS = 0.02
"""A damaged input that takes longer is measured once more, alone and with its memory."""


@dataclass(slots=True)
class Extremes:
    """What one parser was given, and what cost it most."""

    inputs: int = 0
    faults: int = 0
    slowest_ms: float = 0.0
    slowest: str = ""
    heaviest_mb: float = 0.0
    heaviest: str = ""

    def take(self, label: str, seconds: float, memory: int) -> None:
        """Take in what an input cost."""
        self.inputs += 1
        if seconds * 1000 > self.slowest_ms:
            self.slowest_ms, self.slowest = round(seconds * 1000, 1), label
        if memory / 2**20 > self.heaviest_mb:
            self.heaviest_mb, self.heaviest = round(memory / 2**20, 1), label


@dataclass(slots=True)
class Report:
    """What became of the inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    parsers: dict[str, Extremes] = field(default_factory=lambda: {name: Extremes() for name in PARSERS})

    def add_fault(self, parser: str, text: str) -> None:
        """Note a fault."""
        self.faults.append(text)
        self.parsers[parser].faults += 1

    def add_bombs(self, costs: Iterable[Cost]) -> None:
        """Take in what files made to be slow have cost."""
        for cost in costs:
            self.inputs += 1
            self.outcomes[f"{cost.parser}: bomb {'FAULT' if cost.fault else 'measured'}"] += 1
            self.parsers[cost.parser].take(f"{cost.name}, {cost.size:,} bytes", cost.seconds, cost.memory)
            if cost.fault is not None:
                self.add_fault(cost.parser, cost.fault)


def damaged(number: int, seed: int = 0) -> bytes:
    """The input of that number: a file, mutated."""
    rng = random.Random(f"{seed}/{number}")
    body = rng.choice(SEEDS)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8, 20))):
        body = rng.choice(MUTATIONS)(body, rng)
        if len(body) > 20_000:
            body = body[:20_000]
    wrap = rng.random()
    if wrap < 0.05:
        return gzip.compress(body, 1)
    if wrap < 0.08:
        packed = bytearray(gzip.compress(body, 1))
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        return bytes(packed)
    if wrap < 0.11:
        return body.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-16-be", "utf-32", "utf-8-sig")))
    return body


def _insert(body: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(body))
    return body[:at] + rng.choice(TOKENS) + body[at:]


def _cut(body: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(body))
    return body[:start] + body[start + rng.randint(0, 40) :]


def _end_early(body: bytes, rng: random.Random) -> bytes:
    return body[: rng.randint(0, len(body))]


def _repeat(body: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(body))
    piece = body[start : start + rng.randint(1, 60)]
    return body[:start] + piece * rng.choice((2, 3, 10, 100)) + body[start:]


def _flip(body: bytes, rng: random.Random) -> bytes:
    if not body:
        return body
    changed = bytearray(body)
    changed[rng.randrange(len(body))] = rng.randrange(256)
    return bytes(changed)


def _splice(body: bytes, rng: random.Random) -> bytes:
    other = rng.choice(SEEDS)
    return body[: rng.randint(0, len(body))] + other[rng.randint(0, len(other)) :]


def _swap_case(body: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(body))
    end = start + rng.randint(1, 30)
    return body[:start] + body[start:end].swapcase() + body[end:]


MUTATIONS = (_insert, _insert, _cut, _end_early, _repeat, _flip, _flip, _splice, _swap_case)


def run(inputs: int, seed: int = 0, first: int = 0, names: Collection[str] = tuple(PARSERS)) -> Report:
    """Give every damaged input to these parsers; what is raised but a ParseError is a fault, and too high a cost."""
    report = Report()
    for number in range(first, first + inputs):
        body = damaged(number, seed)
        report.inputs += 1
        for name in names:
            began = time.process_time()
            counted: object = None
            try:
                counted = PARSERS[name].parse(body)
                outcome = "read"
            except UnreadableError as refusal:
                outcome = refusal.reason.name.lower()
            except ParseError:
                outcome = "refused"
            except Exception:  # noqa: BLE001 - finding these is what the run is for
                outcome = "FAULT"
                report.add_fault(name, f"{name}, input {number}: {traceback.format_exc(limit=-3)}")
            report.outcomes[f"{name}: {outcome}"] += 1
            seconds = counted if isinstance(counted, float) else time.process_time() - began
            memory = 0
            if seconds > SUSPECT_SECONDS and outcome != "FAULT":
                cost = measure(name, f"input {number}", body)
                seconds, memory = cost.seconds, cost.memory
                if cost.fault is not None:
                    report.add_fault(name, cost.fault)
            report.parsers[name].take(f"input {number}", seconds, memory)
    return report
