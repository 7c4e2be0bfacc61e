"""Cookies within one chain of redirects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.fetch.cookies import LIMITS as COOKIES_LIMITS
from crawld.fetch.cookies import ChainCookies

NOW = 1_700_000_000.0
HOME = "https://www.example.org/a/b?c"


def sent(line: str, to: str, home: str = HOME) -> str:
    """The Cookie header of a request to `to`, after `home` has sent one Set-Cookie line."""
    cookies = ChainCookies()
    cookies.take(home, [line], NOW)
    return cookies.header(to)


@pytest.mark.parametrize(
    ("line", "to", "header"),
    [
        ("x=1", HOME, "x=1"),
        ("x=1", "https://www.example.org/a/", "x=1"),
        ("x=1", "https://www.example.org/other", ""),
        ("x=1; Path=/", "https://www.example.org/other", "x=1"),
        ("x=1; Path=/oth", "https://www.example.org/other", ""),
        ("x=1; Path=/", "http://www.example.org:8080/", "x=1"),
        ("x=1; Path=/", "https://example.org/", ""),
        ("x=1; Path=/", "https://www.example.net/", ""),
        ("x=1; Path=/; Domain=.Example.org", "https://shop.example.org/", "x=1"),
        ("x=1; Path=/; Domain=example.org", "https://example.org/", "x=1"),
        ("x=1; Path=/; Domain=example.org", "https://badexample.org/", ""),
        ("x=1; Path=/; Domain=example.net", "https://www.example.org/", ""),
        ("x=1; Path=/; Domain=shop.example.org", "https://www.example.org/", ""),
        ("x=1; Path=/; Domain=org", "https://www.example.org/", ""),
        ("x=1; Path=/; Secure", "http://www.example.org/", ""),
        ("x=1; Path=/; secure; HttpOnly; SameSite=Lax", "https://www.example.org/", "x=1"),
        ("x=a=b; Path=/", "https://www.example.org/", "x=a=b"),
        ('x="q r"; Path=/', "https://www.example.org/", 'x="q r"'),
        ("x=; Path=/", "https://www.example.org/", "x="),
        ("x=1; Path=/; Max-Age=60", "https://www.example.org/", "x=1"),
        ("x=1; Path=/; Max-Age=0", "https://www.example.org/", ""),
        ("x=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://www.example.org/", ""),
        ("x=1; Path=/; Expires=Thu, 01-Jan-2099 00:00:00 GMT", "https://www.example.org/", "x=1"),
        ("just words", HOME, ""),
        ("=1", HOME, ""),
        ("x=a\rb", HOME, ""),
        ("x=\udc80", HOME, ""),
        ("x=" + "y" * 5_000, HOME, ""),
    ],
)
def test_a_cookie_goes_only_where_it_belongs(line: str, to: str, header: str) -> None:
    """Host, domain, path, scheme and age decide whether a cookie is sent; what is malformed is ignored."""
    assert sent(line, to) == header


def test_addresses_have_no_domains() -> None:
    """A cookie of a bare address goes to that address alone."""
    home = "http://127.0.0.1:8000/"
    assert sent("x=1", home, home) == "x=1"
    assert sent("x=1; Domain=0.0.1", "http://127.0.0.1/", home) == ""
    assert sent("x=1", "http://127.0.0.2:8000/", home) == ""


def test_later_cookies_replace_and_delete_earlier_ones() -> None:
    """A cookie of the same name and place is replaced; an expired one removes it; longer paths come first."""
    cookies = ChainCookies()
    cookies.take(HOME, ["x=1", "x=2", "y=3", "y=; Max-Age=0", "z=4; Path=/", "w=5; Path=/a"], NOW)
    assert cookies.header(HOME) == "x=2; w=5; z=4"


def test_the_jar_is_bounded() -> None:
    """Neither the number of cookies nor the header grows without limit."""
    cookies = ChainCookies()
    cookies.take(HOME, [f"c{number}={'v' * 4_000}" for number in range(10 * COOKIES_LIMITS.max_cookies)], NOW)
    assert len(cookies.header(HOME)) <= COOKIES_LIMITS.max_header
    cookies = ChainCookies()
    cookies.take(HOME, [f"c{number}=v" for number in range(10 * COOKIES_LIMITS.max_cookies)], NOW)
    assert cookies.header(HOME).count("=") == COOKIES_LIMITS.max_cookies


@given(st.sampled_from(["", "x="]), st.text(st.characters(exclude_categories=())))
def test_any_line_is_a_cookie_or_none(name: str, line: str) -> None:
    """Whatever a server sends, the header that follows can be sent."""
    header = sent(name + line, HOME)
    assert header.encode().decode() == header  # half a character cannot be encoded
    assert not set(header) & {"\r", "\n", "\0"}


def test_a_flood_of_lines_is_not_read() -> None:
    """Of thousands of Set-Cookie lines the first are read, and of thousands of attributes as well."""
    cookies = ChainCookies()
    read = iter([f"a{n}=b; Path=/" + ";x" * 3000 for n in range(5000)])
    cookies.take(HOME, read, NOW)
    assert next(read).startswith(f"a{COOKIES_LIMITS.max_lines}=")
    assert cookies.header(HOME).count("=") == COOKIES_LIMITS.max_cookies
