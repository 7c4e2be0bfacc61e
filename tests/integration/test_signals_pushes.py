"""Discovery, pings and WebSub over real HTTP and a real store."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from crawld.crawl.polls import Discoverer
from crawld.crawl.pushes import Pushes
from crawld.model.signal import SOURCES, Source
from crawld.signals.poll_signals import Known
from crawld.signals.polled_sources import Discovery
from crawld.signals.push_inbox import PushInbox
from crawld.signals.websub import Subscriptions
from tests.support.behaviours import answer
from tests.support.in_place import InPlace
from tests.support.process import HANG_SECONDS
from tests.support.signal_daemon import DAY, SignalDaemon
from tests.support.site import Site
from tests.support.store_builders import by_source

KEY = "0123456789abcdef"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """An empty site."""
    async with Site() as site:
        yield site


def listed(site: Site, *paths: str) -> None:
    """Let the site's sitemap list these paths."""
    site.pages["/sitemap.xml"] = answer("\n".join(site.url(path) for path in paths), content_type="text/plain")


def pushes(daemon: SignalDaemon) -> Pushes:
    """The driver of pushes, with slots without end."""
    inbox = PushInbox(Known(daemon.index, daemon.scheduler.last_success))
    secrets = iter(["secret"])
    callback = "https://crawld.example.org/websub"
    hubs = Subscriptions(daemon.sources, callback, lambda: next(secrets), daemon.store.record_poll)
    return Pushes(inbox, daemon.polls, daemon.clock, InPlace(), hubs)


async def test_discovered_pages_join_and_leave(site: Site, tmp_path: Path) -> None:
    """Pages within the scope join up to the limit and leave with their entry; the list's own pages are left alone."""
    daemon = SignalDaemon(site, tmp_path / "c.db", Discovery((site.url("/new"),)))
    await daemon.start()
    limits = {site.url("/new"): 2}
    daemon.polls.on_result = [Discoverer(daemon.page_set, daemon.pages, daemon.clock, limits).follow, daemon.note]
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    listed(site, "/ok/0/", "/ok/1", "/new/1", "/new/2", "/new/3", "/elsewhere")
    await daemon.poll()
    mine = [f"/ok/{i}" for i in range(5)]
    joined = [path for path in daemon.paths() if path not in mine]
    assert len(joined) == 2
    assert all(path.startswith("/new/") for path in joined)
    listed(site, joined[0])
    await daemon.poll(later=DAY)
    assert daemon.paths() == sorted([*mine, joined[0]])
    assert (daemon.page("/ok/0").importance, daemon.page(joined[0]).importance) == (7.0, 1.0)
    await daemon.stop()


async def test_each_discovered_site_has_its_own_limit(site: Site, tmp_path: Path) -> None:
    """A site with a small limit takes in no more than that, however much another one may."""
    limits = {site.url("/few"): 1, site.url("/many"): 100}
    daemon = SignalDaemon(site, tmp_path / "c.db", Discovery(tuple(limits)))
    await daemon.start()
    daemon.polls.on_result = [Discoverer(daemon.page_set, daemon.pages, daemon.clock, limits).follow, daemon.note]
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    listed(site, *(f"/few/{i}" for i in range(9)), *(f"/many/{i}" for i in range(9)))
    await daemon.poll()
    paths = daemon.paths()
    assert sum(path.startswith("/few/") for path in paths) == 1
    assert sum(path.startswith("/many/") for path in paths) == 9
    await daemon.stop()


async def test_a_ping_reaches_scheduler_and_store(site: Site, tmp_path: Path) -> None:
    """A posted URL raises its page's count of pings at once and is recorded."""
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    status, body = await pushes(daemon).post_signals(json.dumps([site.url("/ok/2"), site.url("/nowhere")]).encode())
    assert (status, body["signals"], body["unknown"]) == (200, 1, 1)
    assert daemon.signals("/ok/2") == by_source(ping=1)
    await daemon.store.flush()
    assert (await daemon.store.restore()).signals[:, SOURCES.index(Source.PING)].sum() == 1
    await daemon.stop()


async def test_indexnow_counts_after_the_host_served_the_key(site: Site, tmp_path: Path) -> None:
    """The key is fetched from the host; the ping that waited for it then counts, and the next one at once."""
    site.pages[f"/{KEY}.txt"] = answer(KEY, content_type="text/plain")
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    door = pushes(daemon)
    assert (await door.get_indexnow({"url": site.url("/ok/1"), "key": KEY}))[0] == 202
    await daemon.run_errand()
    async with asyncio.timeout(HANG_SECONDS):
        while daemon.signals("/ok/1") != by_source(ping=1):
            await asyncio.sleep(0.01)
    body = {"host": site.host(), "key": KEY, "urlList": [site.url("/ok/3")]}
    assert await door.post_indexnow(json.dumps(body).encode()) == (202, {"accepted": 1})
    assert daemon.signals("/ok/3") == by_source(ping=1)
    assert len(site.visits(f"/{KEY}.txt")) == 1
    await door.close()
    await daemon.stop()


async def test_a_hub_is_asked_confirms_and_delivers(site: Site, tmp_path: Path) -> None:
    """A feed's hub gets our form, its challenge is answered, and what it delivers counts as WebSub's."""
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    door = pushes(daemon)
    daemon.polls.on_result = [door.follow, daemon.note]
    feed = f'<feed><link rel="hub" href="{site.url("/hub")}"/><link rel="self" href="/feed"/>%s</feed>'
    site.pages["/feed"] = answer(feed % "", content_type="application/atom+xml")
    site.pages["/hub"] = answer(status=202)
    daemon.polls.found_feeds(site.url("/ok/1"), [site.url("/feed")], daemon.clock.now())
    await daemon.poll()
    await daemon.run_errand()
    (asked,) = site.visits("/hub")
    form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    assert (asked.method, form["hub.mode"], form["hub.topic"]) == ("POST", "subscribe", site.url("/feed"))
    token = form["hub.callback"].removeprefix("https://crawld.example.org/websub/")
    query = {"hub.mode": "subscribe", "hub.topic": site.url("/feed"), "hub.challenge": "c"}
    assert await door.confirm(token, query) == (200, "c")
    body = (feed % f'<entry><link href="{site.url("/ok/4")}"/></entry>').encode()
    signed = {"x-hub-signature": "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()}
    assert await door.deliver(token, body, signed) == (202, "")
    assert daemon.signals("/ok/4") == by_source(websub=1)
    await daemon.stop()


async def test_without_a_public_address_there_are_no_hubs(site: Site, tmp_path: Path) -> None:
    """Callbacks are not found where no hub was ever asked, and nothing is asked."""
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    door = pushes(daemon)
    door.hubs = None
    daemon.polls.on_result = [door.follow, daemon.note]
    site.pages["/feed"] = answer(f'<feed><link rel="hub" href="{site.url("/hub")}"/></feed>')
    daemon.polls.found_feeds(site.url("/ok/1"), [site.url("/feed")], daemon.clock.now())
    assert list((await daemon.poll()).hubs) == [site.url("/hub")]
    assert ((await door.confirm("x", {}))[0], (await door.deliver("x", b"", {}))[0]) == (404, 404)
    assert not site.visits("/hub")
    await daemon.stop()
