"""URLs over a real connection and through the whole daemon: asked as they were given, found by any spelling."""

from pathlib import Path

import aiohttp
import pytest

from crawld.fetch.http import HttpFetcher
from crawld.fetch.robots_cache import Allowed, Disallowed, RobotsCache
from crawld.model.clock import SystemClock
from crawld.model.fetched import Fetched, FetchFailed, Redirected, Request, Trouble
from crawld.model.url import host_of, normalise
from tests.support.behaviours import answer
from tests.support.daemon import bearer, rows, running, until
from tests.support.names import NameServer
from tests.support.process import command, free_port, settings
from tests.support.site import LOOPBACK, Site, Visit

AGENT = "crawld-test/1.0 (+https://example.org/bot)"
SELDOM: dict[str, object] = {"min_interval": 3600, "max_interval": 7200}


GIVEN = [
    "/ok?tags=a%2Cb", "/ok?tags=a,b", "/ok/%3A%2F%40%3B%28", "/ok/:@;(", "/ok?", "/?", "/ok?a?b=/../c", "//ok//a/",
    "/ok/%zz%", "/ok/%2e%2ea", "/ok/%7Euser/%61", "/ok/%e2%9c%93", "/ok/a+b%20c?a+b%20c", "/ok;v=1/x;y?z;w",
    "/ok/a|b?c|d", "/ok?^`{}[]\\", "/ok/it's", "/ok?u=https%3A%2F%2Fa.example%2F", "/ok?u=https://a.example/",
    "/ok?&&a=&=b",
]  # fmt: skip


@pytest.mark.parametrize("target", GIVEN)
async def test_the_request_line_says_what_was_given(target: str, site: Site, fetcher: HttpFetcher) -> None:
    """Path and query arrive at the server byte for byte."""
    await fetcher.fetch(Request(normalise(site.url(target)), site.host()))
    assert [seen.target for seen in site.visits()] == [target]


async def test_what_cannot_be_sent_is_encoded_as_browsers_do(site: Site, fetcher: HttpFetcher) -> None:
    """Spaces, quotes and characters beyond ASCII are escaped; dot segments and the fragment are not sent."""
    await fetcher.fetch(Request(normalise(site.url("/ok/x/../ä b\"^?ö 'c'#part")), site.host()))
    assert [seen.target for seen in site.visits()] == ["/ok/%C3%A4%20b%22%5E?%C3%B6%20%27c%27"]


@pytest.mark.parametrize(("name", "asked"), [("BÜCHER.test", "xn--bcher-kva.test"), ("dot.test.", "dot.test")])
async def test_names_are_asked_in_their_encoded_form(name: str, asked: str, site: Site) -> None:
    """A name beyond ASCII is looked up and sent in Punycode; a dot at its end is no other name."""
    async with NameServer({asked: ["127.0.0.1"]}) as names:
        fetcher = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK], resolver=names.resolver)
        url = normalise(f"http://{name}:{site.port}/ok")
        outcome = await fetcher.fetch(Request(url, host_of(url)))
        await fetcher.close()
    assert isinstance(outcome, Fetched)
    assert site.visits()[0].host == f"{asked}:{site.port}"


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.1", "127.0.0.1."])
async def test_shorthand_addresses_meet_the_guard(host: str, site: Site) -> None:
    """A shorthand for an address of our own network is refused where the address is."""
    fetcher = HttpFetcher(SystemClock(), AGENT)
    outcome = await fetcher.fetch(Request(f"http://{host}:{site.port}/ok", "x"))
    await fetcher.close()
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, site.visits()) == (Trouble.FORBIDDEN_ADDRESS, [])


LOCATIONS = [
    ("/b%2Cc?d%2Ce", "/b%2Cc?d%2Ce"),
    ("/b?", "/b?"),
    ("b c#part", "/a/b%20c"),
    ("?x=1", "/a/start?x=1"),
    ("/\xc3\xa4", "/%C3%A4"),  # the bytes of UTF-8
    ("/\xe4?\xfc", "/%E4?%FC"),  # the bytes of Latin-1 mean themselves
    ("/%e4%2f|", "/%e4%2f|"),
    ("..\\b", "/b"),
    ("/a/start", "/a/start"),
]


@pytest.mark.parametrize(("location", "target"), LOCATIONS)
async def test_redirects_lead_where_browsers_go(location: str, target: str, site: Site, fetcher: HttpFetcher) -> None:
    """A Location is resolved against what was asked; its bytes are escaped one by one, its escapes left alone."""
    site.pages["/a/start"] = answer(status=302, Location=location)
    outcome = await fetcher.fetch(Request(site.url("/a/start"), site.host()))
    assert isinstance(outcome, Redirected)
    assert outcome.location == site.url(target)


async def test_a_redirect_to_a_name_beyond_ascii(site: Site, fetcher: HttpFetcher) -> None:
    """The host of a Location may be written in UTF-8."""
    site.pages["/a"] = answer(status=302, Location="http://b\xc3\xbccher.example/x")
    outcome = await fetcher.fetch(Request(site.url("/a"), site.host()))
    assert isinstance(outcome, Redirected)
    assert outcome.location == "http://xn--bcher-kva.example/x"


def insists(spelling: str) -> object:
    """A page that redirects every other spelling of its query to this one."""

    async def behave(visit: Visit) -> None:
        if visit.seen.target.endswith(spelling):
            await visit.reply("<p>here</p>")
        else:
            await visit.reply(status=301, headers={"Location": f"{visit.seen.path}{spelling}"})

    return behave


async def test_a_server_that_insists_on_its_spelling_is_crawled(tmp_path: Path) -> None:
    """Asked as it is listed, or redirected to its own spelling, a page that takes no other spelling is crawled."""
    async with Site() as site:
        for path, spelling in (("/tags", "?t=a%2Cb"), ("/hex", "?c=%E2%9C%93"), ("/empty", "?")):
            site.pages[path] = insists(spelling)  # type: ignore[assignment]
        listed = [site.url(target) for target in ("/tags?t=a%2Cb", "/hex?c=%e2%9c%93", "/empty", "/empty?")]
        async with running(tmp_path, listed, **SELDOM) as daemon:
            await until(lambda: daemon.crawler.status.requests >= 7)
            await until(lambda: sum(daemon.crawler.status.verdicts.values()) == 4)
        asked = {seen.target for seen in site.visits()} - {"/robots.txt"}
    assert asked == {"/tags?t=a%2Cb", "/hex?c=%e2%9c%93", "/hex?c=%E2%9C%93", "/empty", "/empty?"}
    found = rows(tmp_path, "SELECT p.url, c.verdict FROM crawls c JOIN pages p ON p.id = c.page_id")
    assert sorted(found) == sorted((url, "new") for url in listed)


@pytest.mark.parametrize(
    ("rule", "target", "allowed"),
    [
        ("/*%2F", "/ok?u=a%2Fb", False),
        ("/*%2F", "/ok?u=a/b", True),
        ("/ok?u=%3A", "/ok?u=%3A", False),
        ("/ok%3Fa", "/ok%3Fa", False),
        ("/*?", "/ok?", False),
        ("/*?", "/ok", True),
        ("/~me", "/%7Eme/x", False),
    ],
)
def test_robots_rules_meet_what_is_sent(rule: str, target: str, allowed: bool) -> None:
    """A rule on an escaped form forbids the escaped form, not its decoded namesake."""
    cache, url = RobotsCache(AGENT), normalise(f"https://example.org{target}")
    body = f"User-agent: *\nDisallow: {rule}\n".encode()
    cache.learn("https://example.org/robots.txt", Fetched("https://example.org/robots.txt", 200, body), 0.0)
    assert isinstance(cache.verdict(url, 0.0), Allowed if allowed else Disallowed)


async def test_a_page_is_known_by_every_spelling(tmp_path: Path) -> None:
    """Pings and copies find the page by its identity; a list that respells it asks the new spelling of the old page."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        listed = site.url("/ok/%7euser?c=%c3%a9")
        other = site.url("/ok/~user?c=%C3%A9")
        async with running(tmp_path, [listed], api={"listen": f"127.0.0.1:{port}"}, **SELDOM) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            await daemon.store.flush()
            async with session.post(f"{api}/signals", json=[other]) as answered:
                assert (await answered.json())["signals"] == 1
            async with session.get(f"{api}/copy", params={"url": other}) as answered:
                assert "Page /ok/%7euser" in await answered.text()
            assert [seen.target for seen in site.visits()][1:] == ["/ok/%7euser?c=%c3%a9"]
            (tmp_path / "urls.txt").write_text(f"{other}\n")
            assert daemon.reload is not None
            await daemon.reload()
            (page,) = daemon.page_set.pages()
            assert page.url == other
    assert rows(tmp_path, "SELECT url, identity, crawls FROM pages") == [(other, None, 1)]


async def test_the_command_line_finds_pages_by_every_spelling(tmp_path: Path) -> None:
    """`explain` and `urls remove` take any spelling of a listed page and show the one that is asked."""
    async with Site() as site:
        listed, other = site.url("/ok/%7euser"), site.url("/ok/~user")
        file = settings(tmp_path, [])
        given = ["--config", str(file)]
        added = await command("urls", "add", listed, other, *given, cwd=tmp_path)
        assert "1 added" in added.out
        explained = await command("explain", other, *given, cwd=tmp_path)
        assert (explained.status, listed in explained.out) == (0, True), explained.err
        removed = await command("urls", "remove", other, *given, cwd=tmp_path)
        assert (removed.status, removed.out) == (0, f"removed {listed}\n")
