"""Damaged files by the hundred thousand: the sitemap, feed and robots.txt parsers must read them or refuse by name.

    python -m benchmarks.fuzz --inputs 100000

Each input is a well-formed file, mutated a few times by a generator with a fixed seed, so that every run is the same
and a number names its input: `--only N` repeats it. Exit status 1 where any exception is not one of the named ones.
"""

import argparse
import gzip
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from crawld.content.cookies import ChainCookies
from crawld.content.dates import read_date
from crawld.content.feed import links_of_header, read_feed
from crawld.content.feed_links import feed_links
from crawld.content.headers import http_date, if_none_match
from crawld.content.listing import UnreadableError
from crawld.content.robots import read_robots
from crawld.content.robots_match import RuleMatcher
from crawld.content.sitemap import read_sitemap
from crawld.errors import ParseError

NOW = 1_790_000_000.0
URL = "https://example.org/file"

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
)

TOKENS: tuple[bytes, ...] = (
    b"<", b">", b"&", b"&amp;", b"&#0;", b"&#xD800;", b"&#x10FFFF;", b"&lol;", b"<![CDATA[", b"]]>", b"<!--", b"-->",
    b"<?xml version='1.0' encoding='UTF-16'?>", b"<!DOCTYPE x [<!ENTITY lol 'lol'>]>", b"<url>", b"</url>", b"<loc>",
    b"</urlset>", b"<item>", b"<x:y>", b' xmlns="', b' xmlns:a="a" a:b="c"', b"\0", b"\xff\xfe", b"\xfe\xff",
    b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\x1f\x8b", b"\x1f\x8b\x08\0", b"{{", b"NaN", b"null", b"1e999", b"[",
    b"{", b'"', b"\\ud800", b"0000-00-00", b"9999-12-31T23:59:59-23:59", b"99999999999999999999", b"http://", b"https://[::1",
    b"https://a:99999/", b"//", b"javascript:1", b"http://\xc3\xa9.org/", b"*", b"$", b"%", b"%zz", b"Disallow: ", b":",
    b' xml:base="http://["', b"<!DOCTYPE ", b"<!ENTITY a '", b"&nbsp;", b":60", b" CEST", b"crawld/1.0", b"%2F", b"?",
    b"\r", b"\n", b"\x85", b"\xe2\x80\xa8", b"User-agent: ", b"Crawl-delay: inf", b"Sitemap: ",
)  # fmt: skip


def _robots(body: bytes) -> None:
    rules = read_robots(body, "https://example.org/robots.txt", "crawld").rules
    if rules is not None:
        RuleMatcher(rules).allows("https://example.org/private/x.php")


def _texts(body: bytes) -> None:
    text = body[:2000].decode("utf-8", "replace")
    read_date(text, NOW)
    for line in text.splitlines()[:5]:
        read_date(line, NOW)
        http_date(line)
    cookies = ChainCookies()
    cookies.take(URL, text.split("\n"), NOW)
    cookies.header(URL).encode()
    if_none_match(text)
    links_of_header(text, URL)
    feed_links(body, URL)


PARSERS: dict[str, Callable[[bytes], object]] = {
    "sitemap": lambda body: read_sitemap(body, URL, NOW),
    "feed": lambda body: read_feed(body, URL, NOW),
    "robots": _robots,
    "texts": _texts,
}


@dataclass(slots=True)
class Report:
    """What became of the inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest_input: int = -1


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


def run(inputs: int, seed: int = 0, first: int = 0) -> Report:
    """Give every input to every parser; whatever is raised but a ParseError is a fault."""
    report = Report()
    for number in range(first, first + inputs):
        body = damaged(number, seed)
        report.inputs += 1
        for name, parse in PARSERS.items():
            began = time.perf_counter()
            try:
                parse(body)
                outcome = "read"
            except UnreadableError as refusal:
                outcome = refusal.reason.name.lower()
            except ParseError:
                outcome = "refused"
            except Exception:  # noqa: BLE001 - finding these is what the run is for
                outcome = "FAULT"
                report.faults.append(f"{name}, input {number}: {traceback.format_exc(limit=-3)}")
            report.outcomes[f"{name}: {outcome}"] += 1
            seconds = time.perf_counter() - began
            if seconds > report.slowest_seconds:
                report.slowest_seconds, report.slowest_input = seconds, number
    return report


def main() -> int:
    """Run from the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--inputs", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, help="repeat the input of this number and show it")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if given.only is not None:
        print(damaged(given.only, given.seed))
        report = run(1, given.seed, given.only)
    else:
        report = run(given.inputs, given.seed)
    if given.json:
        print(json.dumps({"inputs": report.inputs, "faults": len(report.faults), "outcomes": dict(report.outcomes)}))
    else:
        for name, count in sorted(report.outcomes.items()):
            print(f"{count:9,}  {name}")
        print(f"slowest: input {report.slowest_input}, {report.slowest_seconds * 1000:.0f} ms")
    for fault in report.faults[:10]:
        print(fault, file=sys.stderr)
    print(f"{report.inputs:,} inputs, {len(report.faults)} faults", file=sys.stderr)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
