"""Names, addresses, connections and TLS: what can go wrong before a server answers."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.model.clock import SystemClock
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of
from tests.support.names import NameServer
from tests.support.site import LOOPBACK, Site

AGENT = "crawld-test/1.0 (+https://example.org/bot)"
QUICK = Timeouts(connect=2.0, first_byte=1.0, whole=3.0)


async def fetch(url: str, *, allow: tuple[str, ...] = (LOOPBACK,), names: NameServer | None = None) -> Outcome:
    """One request with a fetcher of its own."""
    resolver = names.resolver if names else None
    fetcher = HttpFetcher(SystemClock(), AGENT, allow_private=allow, timeouts=QUICK, resolver=resolver)
    try:
        return await fetcher.fetch(Request(url, host_of(url)))
    finally:
        await fetcher.close()


async def test_nobody_listens() -> None:
    """A refused connection is the host's trouble."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = await fetch(f"http://127.0.0.1:{port}/")
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope, outcome.detail) == (Trouble.REFUSED, Scope.HOST, "connection refused")


async def test_a_name_that_does_not_exist() -> None:
    """A name without an address is the host's trouble, whatever the name server's reason."""
    async with NameServer() as names:
        outcome = await fetch("http://nowhere.test/", names=names)
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.DNS, Scope.HOST)
    assert "nowhere.test" in names.asked


async def test_a_named_host_is_asked_by_its_name(site: Site) -> None:
    """The server is told which name was asked for."""
    async with NameServer({"here.test": ["127.0.0.1"]}) as names:
        outcome = await fetch(f"http://here.test:{site.port}/ok", names=names)
    assert isinstance(outcome, Fetched)
    assert site.visits("/ok")[0].host == f"here.test:{site.port}"


async def test_a_host_with_ipv6_only() -> None:
    """A host that has nothing but an IPv6 address is reached."""
    if not socket.has_ipv6 or Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").read_text().strip() == "1":
        pytest.skip("no IPv6 on loopback here")
    async with Site(addresses=["::1"]) as site, NameServer({"six.test": ["::1"]}) as names:
        literal = await fetch(site.url("/ok"), allow=("::1/128",))
        named = await fetch(f"http://six.test:{site.port}/ok", allow=("::1/128",), names=names)
    assert isinstance(literal, Fetched)
    assert isinstance(named, Fetched)


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "0.0.0.0"])
async def test_private_literals_are_refused(address: str, site: Site) -> None:
    """An address of our own network is not connected to, however it is written, and the server never hears of it."""
    outcome = await fetch(f"http://{address}:{site.port}/ok", allow=())
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.FORBIDDEN_ADDRESS, Scope.HOST), outcome
    assert site.visits() == []


async def test_private_names_are_refused(site: Site) -> None:
    """A name that leads into our own network is not connected to, by whichever of its addresses."""
    async with NameServer({"inside.test": ["127.0.0.1", "10.0.0.1", "::1"]}) as names:
        outcome = await fetch(f"http://inside.test:{site.port}/ok", allow=(), names=names)
    assert isinstance(outcome, FetchFailed)
    assert outcome.trouble is Trouble.FORBIDDEN_ADDRESS
    assert site.visits() == []


async def test_rebinding_is_refused(site: Site) -> None:
    """A name that led to an allowed address and then to a forbidden one is checked at every connection."""
    async with NameServer({"moves.test": ["127.0.0.1"]}) as names:
        url = f"http://moves.test:{site.port}/hang_up"
        fetcher = HttpFetcher(
            SystemClock(), AGENT, allow_private=["127.0.0.1/32"], timeouts=QUICK, resolver=names.resolver
        )
        first = await fetcher.fetch(Request(url, host_of(url)))
        names.addresses["moves.test"] = ["127.0.0.2"]
        fetcher.forget_names()
        second = await fetcher.fetch(Request(url, host_of(url)))
        await fetcher.close()
    assert isinstance(first, FetchFailed)
    assert isinstance(second, FetchFailed)
    assert (first.trouble, second.trouble) == (Trouble.REFUSED, Trouble.FORBIDDEN_ADDRESS)
    assert [seen.host for seen in site.visits()] == [f"moves.test:{site.port}"]


async def test_a_redirect_into_a_private_network(site: Site) -> None:
    """A redirect is only told; the request that follows it meets the guard."""
    told = await fetch(site.url("/redirect_private"))
    assert isinstance(told, Redirected)
    outcome = await fetch(told.location)
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, host_of(outcome.url)) == (Trouble.FORBIDDEN_ADDRESS, "10.0.0.1")


@pytest.mark.parametrize("url", ["ftp://example.org/", "http://me:secret@127.0.0.1/", "file:///etc/passwd", "http://"])
async def test_urls_that_are_never_asked(url: str) -> None:
    """Another scheme, a password or a missing host ends the request before it begins."""
    fetcher = HttpFetcher(SystemClock(), AGENT)
    outcome = await fetcher.fetch(Request(url, "x"))
    await fetcher.close()
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.FORBIDDEN_ADDRESS, Scope.PAGE)


async def test_plain_http_where_tls_is_expected(site: Site) -> None:
    """A server that does not speak TLS is the host's trouble."""
    outcome = await fetch(site.url("/ok").replace("http://", "https://"))
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.TLS, Scope.HOST), outcome


async def test_a_certificate_nobody_signed(tmp_path: Path) -> None:
    """A certificate that is not trusted is the host's trouble, and nothing is asked."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    async with Site(tls=context) as site:
        outcome = await fetch(site.url("/ok"))
        assert site.visits() == []
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.TLS, Scope.HOST), outcome
    assert "certificate" in outcome.detail


async def test_cancelling_a_fetch_is_not_trouble(site: Site) -> None:
    """A fetch that is cancelled ends cancelled, and leaves no connection behind."""
    fetcher = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK])
    task = asyncio.create_task(fetcher.fetch(Request(site.url("/silent"), site.host())))
    while not site.visits():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fetcher.close()


async def test_connections_are_kept_alive(site: Site) -> None:
    """Requests to one host share a connection, also after answers without a page."""
    fetcher = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK])
    for path in ("/ok", "/status/404", "/redirect?to=/ok", "/status/500", "/ok"):
        await fetcher.fetch(Request(site.url(path), site.host()))
    await fetcher.close()
    assert len({seen.peer for seen in site.visits()}) == 1
