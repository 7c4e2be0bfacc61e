"""robots.txt to rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.fetched import RobotsReading
from crawld.read.robots import LIMITS as ROBOTS_LIMITS
from crawld.read.robots import RuleMatcher, read_robots
from tests.support.reference_files import robots_files

SITE = "https://example.org"


def read(text: str | bytes) -> RobotsReading:
    """What a robots.txt says to `crawld`."""
    return read_robots(text.encode() if isinstance(text, str) else text, f"{SITE}/robots.txt", "crawld")


def allows(text: str | bytes, path: str) -> bool:
    """Whether a robots.txt lets `crawld` ask for a path."""
    rules = read(text).rules
    return rules is None or RuleMatcher(rules).allows(SITE + path)


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /\nUser-agent: crawld\nAllow: /", "/a", True),
        ("User-agent: CRAWLD\nDisallow: /", "/a", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: crawld\nDisallow: /a\n\nUser-agent: crawld\nDisallow: /b", "/b", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x.pdf?y", True),
        ("\ufeffUser-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\rDisallow: /\r", "/a", False),
        ("<html><body>Not found</body></html>", "/a", True),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    """Groups, longest match, wildcards, byte order marks and files that are none are read as RFC 9309 has them."""
    assert allows(text, path) is allowed


def test_delay_and_sitemaps() -> None:
    """Crawl-delay is our group's, Sitemap lines are everybody's, each once and spelled as every URL."""
    found = read(
        "Sitemap: HTTPS://Example.org:443/a.xml\nUser-agent: *\nCrawl-delay: 9\nUser-agent: crawld\nCrawl-delay: 2.5\n"
        "Sitemap: /b.xml\nSitemap: https://example.org/a.xml\nSitemap: javascript:alert(1)\nSitemap: http://[\n"
    )
    assert found.crawl_delay == 2.5
    assert found.sitemaps == (f"{SITE}/a.xml", f"{SITE}/b.xml")


@pytest.mark.parametrize("delay", ["nan", "inf", "-1", "soon", ""])
def test_delays_that_are_none(delay: str) -> None:
    """A Crawl-delay that is not a length of time is no delay."""
    assert read(f"User-agent: *\nCrawl-delay: {delay}\nDisallow: /x").crawl_delay is None


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    """A robots.txt counts up to 500 KiB."""
    padding = b"#" + b"x" * ROBOTS_LIMITS.max_robots + b"\n"
    assert allows(padding + b"User-agent: *\nDisallow: /", "/a")


@given(st.binary(max_size=2000), st.sampled_from(["/", "/a?b=c", "/%C3%A9", "/*$"]))
def test_any_bytes_are_a_robots_txt(body: bytes, path: str) -> None:
    """Whatever a server sends for robots.txt gives rules."""
    assert allows(body, path) in {True, False}


@given(
    st.lists(st.sampled_from(["User-agent: *", "Disallow: /*a*b*$", "Allow: /%", "Crawl-delay: 1e400", "Sitemap: :"]))
)
def test_any_lines_are_a_robots_txt(lines: list[str]) -> None:
    """Lines in any order give rules, and no delay is infinite."""
    found = read("\n".join(lines))
    assert found.crawl_delay is None or found.crawl_delay < float("inf")
    assert allows("\n".join(lines), "/robots.txt")


def test_files_as_servers_send_them() -> None:
    """Every robots.txt of the reference files is read, and most of them let somebody in."""
    bodies = [*robots_files()]
    found = [read(body) for body in bodies]
    assert sum(allows(body, "/") for body in bodies) > len(bodies) / 2
    assert any(one.sitemaps for one in found)
    assert any(one.crawl_delay for one in found)
