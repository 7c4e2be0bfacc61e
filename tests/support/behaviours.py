"""Every way in which the test site behaves or misbehaves, by name."""

import asyncio
import gzip
import itertools
import secrets
import time
import zlib
from random import Random

import brotli
from backports import zstd

from tests.support.floods import FLOODS
from tests.support.site import Behaviour, Visit

FILLER = "Nothing here ever changes, which makes it a good page to compare with. "


def page(title: str, *paragraphs: str) -> str:
    """A small HTML page with some steady text around what matters."""
    inner = "".join(f"<p>{text}</p>" for text in paragraphs)
    head = f"<!doctype html><html><head><title>{title}</title></head>"
    return f"{head}<body><h1>{title}</h1>{inner}<p>{FILLER}</p></body></html>"


def html(body: str) -> Behaviour:
    """A page with exactly this body."""

    async def behave(visit: Visit) -> None:
        await visit.reply(body)

    return behave


def answer(body: bytes | str = b"", status: int = 200, content_type: str = "text/html", **headers: str) -> Behaviour:
    """A fixed answer; header names are written with underscores."""
    sent = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}

    async def behave(visit: Visit) -> None:
        await visit.reply(body, status, sent)

    return behave


def robots_txt(text: str) -> Behaviour:
    """A robots.txt with this text."""
    return answer(text, content_type="text/plain; charset=utf-8")


async def not_found(visit: Visit) -> None:
    """404."""
    await visit.reply("<p>no such page</p>", 404)


async def ok(visit: Visit) -> None:
    """A page that stays as it is, with an ETag."""
    await visit.reply_cached(page(f"Page {visit.seen.path}"), '"1"')


async def cue(visit: Visit) -> None:
    """A page that changes when `Site.change` is called, with an ETag."""
    version = visit.site.versions.get(visit.seen.path, 0)
    await visit.reply_cached(page(f"Page {visit.seen.path}", f"This is version {version}."), f'"v{version}"')


def poisson_version(seed: int, path: str, rate: float, seconds: float) -> int:
    """How often a Poisson page has changed that long after the site began."""
    random = Random(f"{seed} {path}")
    at, version = random.expovariate(rate), 0
    while at <= seconds:
        at, version = at + random.expovariate(rate), version + 1
    return version


async def poisson(visit: Visit) -> None:
    """A page that changes by itself, `?rate=` times a second on average, the same way for the same seed."""
    rate = float(visit.query.get("rate", "0.1"))
    seconds = time.monotonic() - visit.site.began
    version = poisson_version(visit.site.seed, visit.seen.target, rate, seconds)
    await visit.reply_cached(page(f"Page {visit.seen.path}", f"This is version {version}."), f'"p{version}"')


async def nonce(visit: Visit) -> None:
    """A page whose bytes are never the same twice, though its text is."""
    token = secrets.token_hex(16)
    body = (
        f'<html><head><script nonce="{token}">var t="{token}"</script><link rel="stylesheet" href="/a.{token}.css">'
        f"<style>.c{token}{{}}</style></head><body><!-- {token} --><h1>Form</h1><form><input type=hidden name=csrf "
        f'value="{token}"><p>{FILLER}</p></form><template>{token}</template></body></html>'
    )
    await visit.reply(body)


async def never_same(visit: Visit) -> None:
    """A page with one block of visible text that is never the same twice."""
    await visit.reply(page("Quote of the second", "Before.", f"Quote {secrets.token_hex(8)}", "After."))


async def mod_deflate(visit: Visit) -> None:
    """A page behind Apache's mod_deflate: its tag is compared as it is, and sent as DeflateAlterETag `?alter=` says."""
    version = visit.site.versions.get(visit.seen.path, 0)
    given = [tag.strip() for tag in visit.seen.headers.get("if-none-match", "").split(",")]
    suffix = {"AddSuffix": "-gzip", "NoChange": ""}.get(visit.query.get("alter", "AddSuffix"))
    tag = {} if suffix is None else {"ETag": f'"v{version}{suffix}"'}
    if f'"v{version}"' in given:
        await visit.reply(status=304, headers=tag)
    else:
        body = gzip.compress(page("Deflated", f"This is version {version}.").encode())
        await visit.reply(body, headers={**tag, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})


async def cookie_wall(visit: Visit) -> None:
    """Sets a cookie and redirects to itself until the cookie comes back."""
    if "seen=yes" in visit.seen.headers.get("cookie", ""):
        await ok(visit)
    else:
        await visit.reply(
            status=302, headers={"Location": visit.seen.target, "Set-Cookie": "seen=yes; Path=/; HttpOnly"}
        )


async def always_304(visit: Visit) -> None:
    """304 to everything, asked for or not."""
    await visit.reply(status=304)


async def lying_304(visit: Visit) -> None:
    """304 to every conditional request, though the page changes at every visit."""
    if "if-none-match" in visit.seen.headers:
        await visit.reply(status=304)
    else:
        visit.site.change(visit.seen.path)
        version = visit.site.versions[visit.seen.path]
        await visit.reply(page("Liar", f"Version {version}"), headers={"ETag": '"x"'})


async def status(visit: Visit) -> None:
    """`/status/503?after=120`: that status, with Retry-After where given."""
    code = int(visit.seen.path.split("/")[2])
    after = visit.query.get("after")
    await visit.reply(f"<p>{code}</p>", code, {"Retry-After": after} if after else {})


async def redirect(visit: Visit) -> None:
    """`/redirect?to=URL&status=301`."""
    await visit.reply(status=int(visit.query.get("status", "302")), headers={"Location": visit.query.get("to", "")})


async def redirect_loop(visit: Visit) -> None:
    """Redirects for ever, each time somewhere new."""
    step = int(visit.query.get("n", "0")) + 1
    await visit.reply(status=302, headers={"Location": f"{visit.seen.path}?n={step}"})


async def redirect_private(visit: Visit) -> None:
    """Redirects into a private network."""
    await visit.reply(status=302, headers={"Location": visit.query.get("to", "http://10.0.0.1/")})


async def slow(visit: Visit) -> None:
    """Answers after `?seconds=`."""
    await asyncio.sleep(float(visit.query.get("seconds", "60")))
    await ok(visit)


async def silent(visit: Visit) -> None:
    """Accepts the request and never says a word."""
    visit.keep = False
    await asyncio.sleep(3600)


async def slow_loris(visit: Visit) -> None:
    """Sends its body a byte at a time, for ever."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await visit.write(b"x")
        await asyncio.sleep(float(visit.query.get("every", "0.05")))


async def slow_headers(visit: Visit) -> None:
    """Sends its headers a byte at a time, for ever."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await visit.write(b"x")
        await asyncio.sleep(float(visit.query.get("every", "0.05")))


async def hang_up(visit: Visit) -> None:
    """Closes the connection without an answer."""
    visit.keep = False


async def reset(visit: Visit) -> None:
    """Resets the connection without an answer."""
    visit.keep = False
    visit.writer.transport.abort()


async def raw(visit: Visit, data: bytes) -> None:
    """Sends these bytes and closes."""
    visit.keep = False
    await visit.write(data)


async def drop(visit: Visit) -> None:
    """Drops the connection in the middle of the body."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p>half")


async def long_length(visit: Visit) -> None:
    """A Content-Length one byte beyond the body."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nhello")


async def short_length(visit: Visit) -> None:
    """A Content-Length shorter than the body: what follows is not HTTP."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello and then some more")


async def bad_length(visit: Visit) -> None:
    """A Content-Length that is not a number."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: -5\r\n\r\nhello")


async def broken_chunks(visit: Visit) -> None:
    """A chunk whose length is not a number."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nworld\r\n0\r\n\r\n")


async def missing_chunk(visit: Visit) -> None:
    """Chunks without the last one."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


async def http09(visit: Visit) -> None:
    """A body without a status line, as HTTP/0.9 had it."""
    await raw(visit, b"<html><p>no status line</p></html>\r\n\r\n")


async def junk(visit: Visit) -> None:
    """Bytes that are not HTTP at all."""
    await raw(visit, bytes(range(256)) * 8)


async def huge_headers(visit: Visit) -> None:
    """Headers of 100 KB."""
    await raw(visit, b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n")


async def many_headers(visit: Visit) -> None:
    """10,000 headers."""
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(10_000))
    await raw(visit, b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 0\r\n\r\n")


async def endless(visit: Visit) -> None:
    """A body without a length that never ends."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n")
    while True:
        await visit.write(b"<p>more</p>" * 5000)


async def gigabyte(visit: Visit) -> None:
    """A body that says it has 1 GB, and sends it."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000000\r\n\r\n")
    for _ in range(1000):
        await visit.write(b"x" * 1_000_000)


_ZEROS = b"\0" * 1_000_000
_BOMBS: dict[str, bytes] = {}


def bomb(encoding: str, megabytes: int) -> bytes:
    """A small body that decompresses to so many megabytes of zeros."""
    key = f"{encoding} {megabytes}"
    if key not in _BOMBS:
        if encoding == "gzip":
            packed = gzip.compress(_ZEROS * 10) * (megabytes // 10)  # members may follow one another
        elif encoding == "br":
            brotlier = brotli.Compressor(quality=1)
            packed = b"".join(brotlier.process(_ZEROS) for _ in range(megabytes)) + brotlier.finish()
        else:
            zstder = zstd.ZstdCompressor()
            packed = b"".join(zstder.compress(_ZEROS) for _ in range(megabytes)) + zstder.flush()
        _BOMBS[key] = packed
    return _BOMBS[key]


async def bombs(visit: Visit) -> None:
    """`/bomb/gzip?mb=200`: decompresses to far more than it weighs."""
    encoding = visit.seen.path.split("/")[2]
    packed = await asyncio.to_thread(bomb, encoding, int(visit.query.get("mb", "200")))
    await visit.reply(packed, headers={"Content-Encoding": encoding})


async def encoded(visit: Visit) -> None:
    """`/encoded/br`, `/encoded/gzip,br`: a proper page in that encoding, or packed by one after the other."""
    packers = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstd.compress, "deflate": zlib.compress}
    names = visit.seen.path.split("/")[2].split(",")
    body = page("Encoded", FILLER * 20).encode()
    for name in names:
        body = packers[name](body)
    await visit.reply(body, headers={"Content-Encoding": ", ".join(names)})


async def bad_encoding(visit: Visit) -> None:
    """`/bad_encoding/gzip`: plain text that claims to be compressed."""
    encoding = visit.seen.path.split("/")[2]
    await visit.reply("this is not compressed at all", headers={"Content-Encoding": encoding})


async def cut_encoding(visit: Visit) -> None:
    """`/cut_encoding/zstd`: a compressed body that ends in the middle, with a length that fits."""
    encoding = visit.seen.path.split("/")[2]
    body = secrets.token_hex(5000).encode()
    packed = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstd.compress, "deflate": zlib.compress}[encoding](
        body
    )
    await visit.reply(packed[: len(packed) // 2], headers={"Content-Encoding": encoding})


async def empty_members(visit: Visit) -> None:
    """Gzip members without content, for ever: wire bytes without a single byte of body."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n")
    member = gzip.compress(b"")
    while True:
        await visit.write(member * 200)
        await asyncio.sleep(0.001)


async def nested(visit: Visit) -> None:
    """10,000 divs, one in the other; `?text=` lies in the innermost."""
    depth = int(visit.query.get("depth", "10000"))
    await visit.reply("<div>" * depth + visit.query.get("text", "deep") + "</div>" * depth)


async def wrong_charset(visit: Visit) -> None:
    """Latin-1 bytes that claim to be UTF-8, in a charset nobody knows by a second name."""
    body = "<html><head><meta charset=nonsense-42></head><p>déjà vu à la carte</p></html>".encode("latin-1")
    await visit.reply(body, headers={"Content-Type": "text/html; charset=utf-8"})


async def empty(visit: Visit) -> None:
    """No body at all."""
    await visit.reply(b"")


async def video(visit: Visit) -> None:
    """A type that is not a page."""
    await visit.reply(b"\0" * 1000, headers={"Content-Type": "video/mp4"})


async def flip(visit: Visit) -> None:
    """Two versions in turn."""
    turn = next(_TURNS)
    await visit.reply(page("Flip", f"Version {'AB'[turn % 2]}"))


_TURNS = itertools.count()

BEHAVIOURS: dict[str, Behaviour] = {
    "ok": ok, "cue": cue, "poisson": poisson, "nonce": nonce, "never_same": never_same, "flip": flip,
    "mod_deflate": mod_deflate, "cookie_wall": cookie_wall,
    "always_304": always_304, "lying_304": lying_304, "status": status, "redirect": redirect,
    "redirect_loop": redirect_loop, "redirect_private": redirect_private, "slow": slow, "silent": silent,
    "slow_loris": slow_loris, "slow_headers": slow_headers, "hang_up": hang_up, "reset": reset, "drop": drop,
    "long_length": long_length, "short_length": short_length, "bad_length": bad_length,
    "broken_chunks": broken_chunks, "missing_chunk": missing_chunk, "http09": http09, "junk": junk,
    "huge_headers": huge_headers, "many_headers": many_headers, "endless": endless, "gigabyte": gigabyte,
    "bomb": bombs, "encoded": encoded, "bad_encoding": bad_encoding, "cut_encoding": cut_encoding,
    "empty_members": empty_members, "nested": nested, "wrong_charset": wrong_charset, "empty": empty, "video": video,
    **FLOODS,
}  # fmt: skip
"""By the first segment of the path."""


def guide(title: str, prose: str) -> str:
    """A page with a menu, a heading with an anchor, a link and code."""
    return (
        f"<html lang=en><head><title>{title}</title></head><body><nav><a href=/>Front</a> <a href=/x>Menu</a></nav>"
        f"<main><h1 id=top>{title}</h1><p>{prose}</p><p><a href='/next'>More</a></p>"
        "<pre><code class=language-sh>relay run</code></pre></main></body></html>"
    )
