"""Attacks by the files that crawlers read beside pages: robots.txt, sitemaps, feeds."""

import gzip
import time
from collections.abc import Callable, Sequence
from random import Random

from tests.support.attacks.attack import Answers, Attack, Web, in_turn, long_name, one_page_each
from tests.support.behaviours import answer
from tests.support.site import Behaviour, Visit

HOSTS = 20
MOST_UNPACKED = 49 * 2**20  # just below what a sitemap may hold
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:x="http://www.w3.org/1999/xhtml"'


def _robots(make: Callable[[], Sequence[str]]) -> Answers:
    """Every host has one of these robots.txt, in turn; they are made where they are served."""
    return lambda _: {"robots.txt": in_turn([answer(text, content_type="text/plain") for text in make()])}


def _groups(size: int) -> str:
    """Rows of agents before rows of rules, ours among them."""
    agents = "".join(f"User-agent: bot{number}\n" for number in range(size // 50))
    rules = "".join(f"Disallow: /{number}/*x{number}$\n" for number in range(size // 60))
    return f"{agents}User-agent: *\nUser-agent: crawld\n{rules}"


def _many_groups(size: int) -> str:
    return "".join(f"User-agent: crawld\nAllow: /a{n}*\nUser-agent: *\nDisallow: /{n}\n" for n in range(size // 70))


def _wildcards(size: int, unit: str) -> str:
    line = "Disallow: /" + unit * 100
    return "User-agent: *\n" + "".join(f"{line}{number}\n" for number in range(size // (len(line) + 6)))


def _lengths(size: int) -> str:
    """Plain rules of every length there is room for."""
    text, length = ["User-agent: *"], 1
    while size > 0:
        text.append("Disallow: /" + "a" * length)
        size, length = size - length - 11, length + 1
    return "\n".join(text)


def _sitemaps(*packed: Callable[[], tuple[bytes, bool]]) -> Answers:
    """Every host's robots.txt names three sitemaps; each is one of these bodies, packed once more on the way or not."""

    def answers(_: Web) -> dict[str, Behaviour]:
        files = []
        for body, again in [make() for make in packed]:
            if again:
                files.append(answer(gzip.compress(body), content_type="application/xml", Content_Encoding="gzip"))
            else:
                files.append(answer(body, content_type="application/xml"))

        async def robots(visit: Visit) -> None:
            lines = "".join(f"Sitemap: http://{visit.seen.host}/map/{number}.xml.gz\n" for number in range(3))
            await visit.reply(lines, headers={"Content-Type": "text/plain"})

        return {"robots.txt": robots, "map": in_turn(files)}

    return answers


def _urlset(inner: str) -> str:
    return f'<?xml version="1.0"?><urlset {NAMESPACE}>{inner}</urlset>'


def _entries(count: int, name: str = "http://a.example/{}") -> str:
    return "".join(f"<url><loc>{name.format(number)}</loc></url>" for number in range(count))


def _gz(text: str) -> tuple[bytes, bool]:
    return gzip.compress(text.encode()), False


def _tags(unit: str, size: int = MOST_UNPACKED) -> tuple[bytes, bool]:
    return _gz(_urlset("<url><loc>http://a.example/</loc></url>" + unit * (size // len(unit))))


def _padded() -> tuple[bytes, bool]:
    """One small gzip member and a padding of 45 MB, which weighs nothing on the way."""
    return gzip.compress(_urlset(_entries(10)).encode()) + bytes(45 * 2**20), True


def _members() -> tuple[bytes, bool]:
    """A thousand gzip members, each of an empty text."""
    return gzip.compress(b"") * 1_000 + gzip.compress(_urlset(_entries(10)).encode()), True


def _idn(count: int) -> str:
    return _entries(count, "http://" + "ü" * 40 + "{}." + "ö" * 40 + ".example/ä")


def _links(count: int) -> str:
    links = "".join(f'<x:link rel="alternate" hreflang="a{n}" href="http://ü{n}.example/{n}"/>' for n in range(count))
    return _urlset(f"<url><loc>http://a.example/</loc>{links}</url>" * 3)


def _feed_links(count: int) -> str:
    entry = "<entry>" + "".join(f'<link href="http://ü{n}.example/{n}"/>' for n in range(count)) + "</entry>"
    return f'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">{entry * 3}</feed>'


def _flood(web: Web) -> dict[str, Behaviour]:
    """Every robots.txt names a thousand sitemaps on hosts that nobody has heard of, and so does theirs."""
    planted = 0

    async def robots(visit: Visit) -> None:
        nonlocal planted
        lines = []
        for _ in range(1_000):
            planted += 1
            lines.append(f"Sitemap: {web.url(f'/map/{planted}.xml', planted % 50_000)}\n")
        await visit.reply("".join(lines), headers={"Content-Type": "text/plain"})

    return {"robots.txt": robots, "map": answer(_urlset(_entries(10)), content_type="application/xml")}


def _rules_of_each_host(_: Web) -> dict[str, Behaviour]:
    """370 KB of rules that do not compress, different ones on every host."""

    async def robots(visit: Visit) -> None:
        random = Random(visit.seen.host)
        lines = "".join(f"Disallow: /{random.getrandbits(320):x}\n" for _ in range(4_000))
        await visit.reply(f"User-agent: *\n{lines}", headers={"Content-Type": "text/plain"})

    return {"robots.txt": robots}


def _poison(web: Web) -> dict[str, Behaviour]:
    """A robots.txt names a file on the victim, whose open redirect leads back here, where its pages are called new."""

    async def robots(visit: Visit) -> None:
        target = f"http://{web.victim}/open?to=http://{visit.seen.host}/map/1.xml"
        await visit.reply(f"Sitemap: {target}\n", headers={"Content-Type": "text/plain"})

    async def sitemap(visit: Visit) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
        each = "<url><loc>http://{}/page/{}</loc><lastmod>{}</lastmod></url>"
        inner = "".join(each.format(web.victim, number, now) for number in range(0, 40_000, 1))
        await visit.reply(_urlset(inner), headers={"Content-Type": "application/xml"})

    return {"robots.txt": robots, "map": sitemap}


FILE_ATTACKS = (
    Attack(
        "robots_groups",
        "Forty hosts have a robots.txt of 80 KB or 500 KB with many agents before many rules.",
        one_page_each(40),
        _robots(lambda: [_groups(80_000), _groups(490_000), _many_groups(490_000)]),
    ),
    Attack(
        "robots_patterns",
        "Forty hosts have a robots.txt full of wildcards that nearly fit, or of rules of every length.",
        one_page_each(40, "/p/" + "a" * 250),
        _robots(lambda: [_wildcards(80_000, "*a"), _wildcards(490_000, "a*"), _lengths(490_000)]),
    ),
    Attack(
        "robots_long_urls",
        "Pages with addresses of 7,000 characters meet rules that nearly fit all along.",
        lambda web: [web.url("/p/" + "a" * 7_000 + str(number), number % HOSTS) for number in range(100)],
        _robots(lambda: ["User-agent: *\n" + ("Disallow: /*" + "a" * 130 + "b\n") * 10, _wildcards(80_000, "*a")]),
    ),
    Attack(
        "robots_memory",
        "Two hundred hosts have each 370 KB of rules for everybody, which do not compress.",
        one_page_each(200),
        _rules_of_each_host,
    ),
    Attack(
        "gzip_sitemaps",
        "Sitemaps of 15 KB to 150 KB unpack to as much as is let in: entries, elements inside one entry, text.",
        one_page_each(HOSTS),
        _sitemaps(
            lambda: _gz(_urlset(_entries(50_000))),
            lambda: _tags("<url><a/></url>"),
            lambda: _tags("<a>"),
            lambda: _tags('<url a="" b="" c="">'),
            lambda: _tags("&lt;"),
        ),
    ),
    Attack(
        "gzip_padding",
        "Sitemaps of some 50 KB hold a gzip member and 45 MB of padding, or a thousand empty members.",
        one_page_each(HOSTS),
        _sitemaps(_padded, _members),
    ),
    Attack(
        "comment_bomb",
        "Sitemaps unpack to millions of comments, to one comment without end, or to processing instructions.",
        one_page_each(HOSTS),
        _sitemaps(
            lambda: _tags("<!---->"), lambda: _tags("<!-- " + "x" * (MOST_UNPACKED - 1000)), lambda: _tags("<?a?>")
        ),
    ),
    Attack(
        "idn_sitemap",
        "Sitemaps of 50,000 addresses with international names, or of 2,000 that are as long as a URL may be.",
        one_page_each(HOSTS),
        _sitemaps(lambda: _gz(_urlset(_idn(50_000))), lambda: _gz(_urlset(_entries(2_000, long_name(7_900) + "{}")))),
    ),
    Attack(
        "robots_idn",
        "Forty hosts have a robots.txt whose Sitemap lines are international names as long as a URL may be.",
        one_page_each(40),
        _robots(lambda: [f"Sitemap: {long_name(7_900)}\n" * 30]),
    ),
    Attack(
        "links_entry",
        "Sitemaps and feeds hold thousands of links in one entry, all with international names.",
        one_page_each(HOSTS),
        _sitemaps(lambda: _gz(_links(30_000)), lambda: _gz(_feed_links(30_000))),
    ),
    Attack(
        "sitemap_flood",
        "A robots.txt names a thousand sitemaps on fresh hosts, whose robots.txt name a thousand more.",
        one_page_each(4),
        _flood,
    ),
    Attack(
        "open_redirect",
        "A robots.txt names a file on a good host whose open redirect leads to a list that calls its pages changed.",
        one_page_each(4),
        _poison,
    ),
)
"""Attacks by files that a page's host is asked for because the page is listed."""
