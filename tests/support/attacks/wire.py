"""Attacks by how answers come: headers, chunks, interim answers, redirects, silence."""

import asyncio

from tests.support.attacks.attack import Attack, Web, in_turn, long_name, one_page_each
from tests.support.behaviours import answer
from tests.support.site import Behaviour, Visit

HOSTS = 20
_REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: "
START = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def _flow(head: bytes, unit: bytes, most: int, pause: float = 0.0) -> Behaviour:
    """Send a head, then the unit over and over, so many bytes at most."""

    async def behave(visit: Visit) -> None:
        visit.keep = False
        await visit.write(head)
        for _ in range(most // len(unit) if unit else 0):
            await visit.write(unit)
            await asyncio.sleep(pause)

    return behave


def _interim(_: Web) -> dict[str, Behaviour]:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    plain = b"HTTP/1.1 100 Continue\r\n\r\n"
    return {"p": in_turn([_flow(b"", hint * 200, 1 << 30), _flow(b"", plain * 500, 1 << 30)])}


def _chunks(_: Web) -> dict[str, Behaviour]:
    head = START + b"Transfer-Encoding: chunked\r\n\r\n"
    extended = b"1;" + b"e" * 50 + b"\r\nx\r\n"
    return {"p": in_turn([_flow(head, b"1\r\nx\r\n" * 2_000, 60_000_000), _flow(head, extended * 500, 1 << 29)])}


def _headers(_: Web) -> dict[str, Behaviour]:
    wide = b"X-A: " + b"x" * 8_000 + b"\r\n"
    narrow = b"".join(b"X-%d: y\r\n" % number for number in range(2_000))
    cookies = b"".join(b"Set-Cookie: a%d=b; Path=/\r\n" % number for number in range(500))
    return {"p": in_turn([_flow(START, unit, 8_000_000) for unit in (wide * 8, narrow, cookies)])}


def _drip(_: Web) -> dict[str, Behaviour]:
    head = START + b"Content-Length: 1000000\r\n\r\n"
    return {"p": in_turn([_flow(head, b"x", 1 << 20, 1.0), _flow(START + b"X-Slow: ", b"x", 1 << 20, 1.0)])}


def _to_waiting_hosts(web: Web) -> dict[str, Behaviour]:
    """Pages redirect to one host with a Crawl-delay and to one that asks for a wait; the rest is as usual."""
    slow, busy = web.host(10_000), web.host(10_001)

    async def robots(visit: Visit) -> None:
        if visit.seen.host == slow:
            await visit.reply("User-agent: *\nCrawl-delay: 60\n", headers={"Content-Type": "text/plain"})
        else:
            await visit.reply("", 404)

    async def page(visit: Visit) -> None:
        number = int(visit.seen.path.rpartition("/")[2])
        await visit.reply(status=302, headers={"Location": f"http://{(slow, busy)[number % 2]}/end/{number}"})

    async def end(visit: Visit) -> None:
        if visit.seen.host == busy:
            await visit.reply("busy", 429, {"Retry-After": "50"})
        else:
            await visit.reply("<p>slow</p>")

    return {"robots.txt": robots, "p": page, "end": end}


def _chains(web: Web) -> dict[str, Behaviour]:
    """Every page leads over five hosts that nobody has heard of to a text that is never the same."""
    fresh = 1_000
    text = 0

    async def page(visit: Visit) -> None:
        nonlocal fresh, text
        step = int(visit.query.get("step", "0"))
        if step < 5:
            fresh = 1_000 + (fresh + 1) % 50_000
            cookies = "".join(f"c{number}={step}; " for number in range(50))
            target = web.url(f"{visit.seen.path}?step={step + 1}", fresh)
            await visit.reply(status=302, headers={"Location": target, "Set-Cookie": cookies})
        else:
            text += 1
            await visit.reply(f"<p>Arrived {text}</p>")

    return {"p": page}


WIRE_ATTACKS = (
    Attack("interim_answers", "Answers begin with interim answers without end.", one_page_each(HOSTS), _interim),
    Attack(
        "tiny_chunks", "Bodies come in chunks of one byte, with and without extensions.", one_page_each(HOSTS), _chunks
    ),
    Attack("huge_headers", "Answers have 8 MB of headers: long ones, many, cookies.", one_page_each(HOSTS), _headers),
    Attack(
        "slow_drip",
        "Five hundred hosts send their answers one byte a second, in the body or in the headers.",
        one_page_each(500),
        _drip,
    ),
    Attack(
        "redirect_waiting",
        "2,500 pages of 500 hosts redirect to a host with Crawl-delay 60 and to one that answers Retry-After 50.",
        lambda web: [web.url(f"/p/{number}", number % 500) for number in range(2_500)],
        _to_waiting_hosts,
        least_seconds=45.0,
    ),
    Attack(
        "redirect_chains",
        "Forty pages lead over five fresh hosts each, and their text changes at every visit.",
        one_page_each(40),
        _chains,
    ),
    Attack(
        "redirect_idn",
        "Pages redirect to an international name of 4,000 characters.",
        one_page_each(HOSTS),
        lambda _: {"p": _flow(_REDIRECT + long_name(4_000).encode() + b"\r\nContent-Length: 0\r\n\r\n", b"", 0)},
    ),
    Attack(
        "dead_hosts",
        "6,000 pages on 6,000 hosts that take connections, or not even those, and never answer.",
        lambda web: [web.silent_url("/p/0", host) for host in range(6_000)],
        least_seconds=45.0,
    ),
    Attack(
        "status_flip",
        "Hosts answer 200, 500, 429 and 404 in turn, with validators of 7 KB that change each time.",
        one_page_each(100),
        lambda _: {
            "p": in_turn(
                [
                    answer(f"<p>{status}</p>", status, ETag=f'"{status}{"e" * 7_000}"', Retry_After="1")
                    for status in (200, 500, 200, 429, 200, 404)
                ]
            )
        },
    ),
)
"""Attacks that need a server which does not follow the rules of HTTP, or uses all of them."""
