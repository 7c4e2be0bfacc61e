"""Every parser of foreign bytes, as a function of bytes: what the fuzzer gives its inputs to."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from crawld.crawl.host_frames import learn_visit
from crawld.crawl.judge import judge, learn_from_pair, read, read_apart
from crawld.fetch.body import unpack_body
from crawld.fetch.cookies import ChainCookies
from crawld.model.crawl import Memory
from crawld.model.errors import ParseError
from crawld.model.fetched import Fetched
from crawld.read.change.frame import HostFrame
from crawld.read.dates import read_date
from crawld.read.feed import links_of_header, read_feed
from crawld.read.headers import charset, http_date, if_none_match, max_age, media_type, retry_after
from crawld.read.page.cost import is_cheap
from crawld.read.page.digest import read_body
from crawld.read.page.head import read_head, read_refresh
from crawld.read.page.rules import DigestRule
from crawld.read.robots import RuleMatcher, read_robots
from crawld.read.sitemap import read_sitemap
from crawld.signals.poll_signals import Known, PageIndex, at_once
from crawld.signals.push_inbox import PushInbox

NOW = 1_790_000_000.0
URL = "https://example.org/file"
HTML = "text/html"
MAIN = DigestRule()
TEXT = DigestRule(mode="text")
SELECTED = DigestRule(only="p", ignore=("div b", "i ~ i"), ignore_text=(r"\d+ views",))
VISITS = 4
LONGEST_LINE = 65_536
"""Bytes of headers that the fetcher takes."""
MOST_UNPACKED = 10_000_000


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser, and within what it must stay: by size, or whatever the size where it runs on the event loop.

    It may return the seconds that count, where not all it did does.
    """

    parse: Callable[[bytes], object]
    on_loop: bool = False
    largest: int = 10_000_000


def _visits(body: bytes) -> tuple[float, float]:
    """A page that differs at every visit, with a frame and pairs: the longest reading, and the longest judging."""
    apart, on_loop = 0.0, 0.0
    memory: Memory | None = None
    frame = HostFrame("example.org")
    for visit in range(VISITS):
        at = NOW + visit * 3_600.0
        answer, again = (Fetched(URL, 200, _varied(body, 2 * visit + n), {"content-type": HTML}) for n in (0, 1))
        began = time.process_time()
        reading = read_apart(URL, answer.body, HTML, memory, MAIN, at)
        done = time.process_time()
        apart = max(apart, done - began)
        judgement = judge(1, at, answer, memory, MAIN, reading, frame)
        learn_visit(frame, 1, memory, judgement, at)
        on_loop = max(on_loop, time.process_time() - done)
        if judgement.memory is not None:
            second = read_apart(URL, again.body, HTML, judgement.memory, MAIN, at + 1.0)
            began = time.process_time()
            judgement = learn_from_pair(judgement, reading, second)
            on_loop = max(on_loop, time.process_time() - began)
        memory = judgement.memory or memory
        for other in range(2, 6):
            frame.see(other, None, reading.digest, at)
    return apart, on_loop


def _varied(body: bytes, visit: int) -> bytes:
    """The page at another visit: other digits, and a few words put in."""
    digits = b"0123456789"
    body = body.translate(bytes.maketrans(digits, digits[visit % 10 :] + digits[: visit % 10]))
    rng = random.Random(visit)
    for place in sorted((rng.randrange(len(body) + 1) for _ in range(8)), reverse=True):
        body = body[:place] + b"<p>%d views</p>" % rng.randrange(100) + body[place:]
    return body


def _in_place(body: bytes) -> None:
    if is_cheap(body):
        answer = Fetched(URL, 200, body, {"content-type": HTML})
        judge(1, NOW, answer, None, MAIN, read(answer, None, MAIN, NOW))


def _robots(body: bytes) -> None:
    rules = read_robots(body, "https://example.org/robots.txt", "crawld").rules
    if rules is not None:
        matcher = RuleMatcher(rules)
        matcher.allows("https://example.org/private/x.php")
        matcher.allows(f"https://example.org/{'a' * 5_000}?{'b=%2F&' * 500}")


def _unpacked(body: bytes) -> None:
    for name in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
        try:
            unpack_body(body, name, MOST_UNPACKED)
        except ParseError:
            continue


def _headers(body: bytes) -> None:
    text = body[:LONGEST_LINE].decode("utf-8", "replace")
    for line in (text, *text.splitlines()[:5]):
        http_date(line)
        if_none_match(line)
        retry_after(line, NOW)
        max_age(line)
        media_type(line)
        charset(f"text/html;{line}")
        links_of_header(line, URL)


def _dates(body: bytes) -> None:
    text = body[:LONGEST_LINE].decode("utf-8", "replace")
    read_date(text, NOW)
    for line in text.splitlines()[:5]:
        read_date(line, NOW)


def _cookies(body: bytes) -> None:
    cookies = ChainCookies()
    cookies.take(URL, body[:LONGEST_LINE].decode("utf-8", "replace").split("\n"), NOW)
    cookies.header(URL).encode()


def _pings(body: bytes) -> None:
    inbox = PushInbox(Known(PageIndex(), lambda _: math.nan))
    at_once(inbox.take(inbox.read_signals(body, NOW), NOW))
    at_once(inbox.take(inbox.read_indexnow(body), NOW))
    inbox.get_indexnow({"url": body[:LONGEST_LINE].decode("utf-8", "replace"), "key": "12345678"}, NOW)


PARSERS: dict[str, Parser] = {
    "page": Parser(lambda body: read_body(body, HTML, MAIN, at=NOW).digest and None),
    "page, all text": Parser(lambda body: read_body(body, HTML, TEXT, at=NOW).digest and None),
    "page, selected": Parser(lambda body: read_body(body, HTML, SELECTED, at=NOW).digest and None),
    "page, any type": Parser(lambda body: read_body(body, None, MAIN, at=NOW).digest and None),
    "page read in place": Parser(_in_place, on_loop=True),
    "page compared": Parser(lambda body: _visits(body)[0]),
    "page judged": Parser(lambda body: _visits(body)[1], on_loop=True),
    "head of a page": Parser(lambda body: read_head(body, URL) and None),
    "refresh of a page": Parser(lambda body: read_refresh(body, URL) and None, on_loop=True),
    "sitemap": Parser(lambda body: read_sitemap(body, URL, NOW) and None),
    "feed": Parser(lambda body: read_feed(body, URL, NOW) and None),
    "robots": Parser(_robots, largest=512_000),
    "encodings": Parser(_unpacked),
    "headers": Parser(_headers, on_loop=True, largest=LONGEST_LINE),
    "dates": Parser(_dates, on_loop=True, largest=LONGEST_LINE),
    "cookies": Parser(_cookies, on_loop=True, largest=LONGEST_LINE),
    "pings": Parser(_pings, largest=4_000_000),
}
