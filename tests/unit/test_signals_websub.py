"""WebSub: subscribing, confirming, delivering, and what a forger gets."""

import hashlib
import hmac
import pickle
from collections.abc import Mapping
from functools import partial
from itertools import count

from crawld.model.fetched import Fetched, Purpose, Request
from crawld.model.page import Page
from crawld.model.signal import Source
from crawld.signals.poll_signals import PageIndex, at_once
from crawld.signals.polled_sources import PolledSources, PollResult, PollSettings
from crawld.signals.schedule import restored
from crawld.signals.websub import LIMITS as WEBSUB_LIMITS
from crawld.signals.websub import Subscriptions
from crawld.store.sources import Poll

NOW = 1_790_000_000.0
HOUR = 3600.0
FEED = "https://a.org/feed"
TOPIC = "https://a.org/topic"


def feed(*pages: int) -> bytes:
    """A feed that lists these pages."""
    entries = "".join(f'<entry><link href="/{i}"/></entry>' for i in pages)
    return f"<feed>{entries}</feed>".encode()


class Desk:
    """Polled sources that watches one feed of a.org, polled once, and its subscriptions."""

    def __init__(self, hub: str = "https://hub.org/") -> None:
        pages = PageIndex()
        pages.put([Page(i, f"https://a.org/{i}", "a.org") for i in range(5)])
        self.sources = PolledSources(pages, lambda _: NOW - HOUR, PollSettings(given_feeds=[FEED]), lambda _: True)
        self.sources.watch_given(NOW)
        self.poll(NOW, 1)
        secrets = (f"secret {i}" for i in count())
        self.kept: list[Poll] = []
        callback = "https://me.org/websub/"
        self.subscriptions = Subscriptions(self.sources, callback, lambda: next(secrets), self.kept.append)
        self.hub = hub

    def poll(self, now: float, *pages: int) -> list[int]:
        """Poll the feed; the pages signalled."""
        (request,) = self.sources.due(now)
        reading = self.sources.reader(request)(Fetched(FEED, 200, feed(*pages)), now)
        return [signal.page_id for signal in at_once(self.sources.finish(request, reading, now)).signals]

    def subscribe(self, now: float = NOW) -> Request:
        """Ask the hub."""
        request = self.subscriptions.subscribe(FEED, [self.hub], TOPIC, now)
        assert request is not None
        return request

    def confirmed(self, lease: str = "864000") -> str:
        """Ask the hub and let it confirm; the token of the callback."""
        token = dict(self.subscribe().form)["hub.callback"].rpartition("/")[2]
        query = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.challenge": "c", "hub.lease_seconds": lease}
        assert self.subscriptions.confirm(token, query, NOW) == (200, "c")
        return token

    def until(self) -> float:
        """When the lease ends."""
        file = self.sources.schedule.get(FEED)
        assert file is not None
        return file.hub_until


def signature(body: bytes, name: str = "sha256", secret: str = "secret 0") -> dict[str, str]:
    """The header a hub signs a delivery with."""
    return {"x-hub-signature": f"{name}={hmac.new(secret.encode(), body, name).hexdigest()}"}


def test_a_feed_with_a_hub_is_subscribed_to() -> None:
    """The hub is asked by a form, with a callback nobody can guess and a secret; not again while that is pending."""
    desk = Desk()
    request = desk.subscribe()
    form = dict(request.form)
    assert (request.url, request.host, request.purpose) == ("https://hub.org/", "hub.org", Purpose.WEBSUB)
    assert (form["hub.mode"], form["hub.topic"], form["hub.secret"]) == ("subscribe", TOPIC, "secret 0")
    assert form["hub.callback"].startswith("https://me.org/websub/")
    assert desk.subscriptions.subscribe(FEED, [desk.hub], TOPIC, NOW + 1) is None
    assert desk.subscriptions.subscribe(FEED, [desk.hub], TOPIC, NOW + WEBSUB_LIMITS.ask_again) is not None
    assert desk.subscriptions.subscribe(FEED, [], None, NOW + 9 * WEBSUB_LIMITS.ask_again) is None
    assert desk.subscriptions.subscribe("https://a.org/other", [desk.hub], None, NOW) is None


def test_only_what_we_asked_for_is_confirmed() -> None:
    """The challenge is echoed for our own topic and callback; anything else is not found."""
    desk = Desk()
    token = dict(desk.subscribe().form)["hub.callback"].rpartition("/")[2]
    query = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.challenge": "c", "hub.lease_seconds": "3600"}
    confirm = desk.subscriptions.confirm
    assert confirm("0" * 32, query, NOW)[0] == 404
    assert confirm(token, query | {"hub.topic": FEED}, NOW)[0] == 404
    assert confirm(token, query | {"hub.mode": "unsubscribe"}, NOW)[0] == 404
    assert confirm(token, query, NOW + 2 * WEBSUB_LIMITS.ask_again)[0] == 404
    assert confirm(token, query, NOW + 1) == (200, "c")
    assert desk.until() == NOW + 1 + 3600
    assert confirm(token, {"hub.mode": "denied", "hub.topic": TOPIC}, NOW)[0] == 200
    assert desk.until() == 0


def delivered(
    subscriptions: Subscriptions, token: str, body: bytes, headers: Mapping[str, str], now: float
) -> tuple[int, str, PollResult | None]:
    """Accept a delivery, read it and take it in."""
    status, text, delivery = subscriptions.accept(token, body, headers, now)
    if delivery is None:
        return status, text, None
    return status, text, at_once(subscriptions.take(delivery.url, delivery.read(now), now))


def test_a_signed_delivery_signals_its_pages_once() -> None:
    """What the hub delivers counts at once, and neither a second delivery nor the next poll tells it again."""
    desk = Desk()
    token = desk.confirmed()
    body = feed(1, 2)
    status, _, result = delivered(desk.subscriptions, token, body, signature(body), NOW + 1)
    assert status == 202
    assert result is not None
    assert [(s.page_id, s.source) for s in result.signals] == [(2, Source.WEBSUB)]
    assert [poll.polls for poll in result.polls] == [0]
    again = delivered(desk.subscriptions, token, body, signature(body, "sha512"), NOW + 2)[2]
    assert again is not None
    assert not again.signals
    assert desk.poll(NOW + HOUR, 1, 2, 3) == [3]


def test_a_forger_gets_nothing() -> None:
    """A delivery with a wrong, missing or unknown signature is answered alike and does nothing."""
    desk = Desk()
    token = desk.confirmed()
    body = feed(1, 2)
    forged = ("", "md5=00", "sha256=é", signature(body, secret="guess")["x-hub-signature"])
    for headers in ({}, *({"x-hub-signature": value} for value in forged)):
        assert delivered(desk.subscriptions, token, body, headers, NOW + 1) == (202, "", None)


def test_deliveries_end_with_the_lease() -> None:
    """Without a subscription, or after its end, the hub is told to stop; a flood is refused."""
    desk = Desk()
    token = desk.confirmed("60")
    deliver = partial(delivered, desk.subscriptions)
    assert deliver("0" * 32, b"", {}, NOW)[0] == 410
    assert deliver(token, b"", {}, NOW + 61)[0] == 410
    assert deliver(token, b" " * (WEBSUB_LIMITS.max_delivered + 1), {}, NOW + 1)[0] == 413
    body = b"<html>"
    result = deliver(token, body, signature(body), NOW + 1)[2]
    assert result is not None
    assert (result.summary, list(result.signals)) == ("an HTML page", [])


def test_a_plain_hub_gets_no_secret() -> None:
    """Over plain HTTP no secret is sent, and deliveries are known by their callback alone."""
    desk = Desk("http://hub.org/")
    assert "hub.secret" not in dict(desk.subscribe().form)
    desk = Desk("http://hub.org/")
    result = delivered(desk.subscriptions, desk.confirmed(), feed(4), {}, NOW + 1)[2]
    assert result is not None
    assert [signal.page_id for signal in result.signals] == [4]


def test_leases_are_renewed_and_bounded() -> None:
    """A lease is renewed before its end, once a day at most; an absurd one is cut or replaced."""
    desk = Desk()
    desk.confirmed()
    assert not desk.subscriptions.renewals(NOW + HOUR)
    (request,) = desk.subscriptions.renewals(NOW + WEBSUB_LIMITS.lease - HOUR)
    assert dict(request.form)["hub.topic"] == TOPIC
    assert not desk.subscriptions.renewals(NOW + WEBSUB_LIMITS.lease - HOUR + 1)
    for lease, expected in (
        ("1e99", WEBSUB_LIMITS.max_lease),
        ("nan", WEBSUB_LIMITS.lease),
        ("-3", WEBSUB_LIMITS.lease),
        ("soon", WEBSUB_LIMITS.lease),
    ):
        desk = Desk()
        desk.confirmed(lease)
        assert desk.until() == NOW + expected


def test_a_restart_keeps_subscriptions() -> None:
    """The callback of a subscription still works after a restart."""
    desk = Desk()
    token = desk.confirmed()
    again = Desk()
    again.sources.schedule.remove(FEED)
    again.sources.schedule.add(restored(desk.kept[-1].file))
    body = feed(3)
    subscriptions = again.subscriptions
    result = delivered(subscriptions, token, body, signature(body), NOW + 1)[2]
    assert result is not None
    assert [signal.page_id for signal in result.signals] == [3]


def test_signatures_follow_the_protocol() -> None:
    """Each of the protocol's digests is accepted."""
    desk = Desk()
    token = desk.confirmed()
    for name in ("sha1", "sha256", "sha384", "sha512"):
        assert name in hashlib.algorithms_guaranteed
        body = feed(1)
        assert delivered(desk.subscriptions, token, body, signature(body, name), NOW + 1)[2] is not None


def test_a_delivery_is_read_where_it_can_be_stopped() -> None:
    """Accepting a delivery says how to read it in another process; what was read there is taken in afterwards."""
    desk = Desk()
    token = desk.confirmed()
    body = feed(1, 2)
    status, _, delivery = desk.subscriptions.accept(token, body, signature(body), NOW + 1)
    assert status == 202
    assert delivery is not None
    reading = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(delivery.read))(NOW + 1)))
    result = at_once(desk.subscriptions.take(delivery.url, reading, NOW + 1))
    assert [signal.page_id for signal in result.signals] == [2]


def test_a_stranger_cannot_have_others_asked() -> None:
    """However many feeds name a host as their hub, it is asked once a day until it confirms, and few such hosts are."""
    feeds = [f"https://a{number}.org/feed" for number in range(20)]
    sources = PolledSources(PageIndex(), lambda _: NOW - HOUR, PollSettings(given_feeds=feeds), lambda _: True)
    sources.watch_given(NOW)
    subscriptions = Subscriptions(sources, "https://me.org/websub/", lambda: "secret", lambda _: None)
    victim = [subscriptions.subscribe(url, ["https://victim.org/"], None, NOW) for url in feeds[:10]]
    assert [request is not None for request in victim] == [True] + [False] * 9
    asked = [subscriptions.subscribe(url, [f"https://hub{at}.org/"], None, NOW) for at, url in enumerate(feeds[1:])]
    assert sum(request is not None for request in asked) == WEBSUB_LIMITS.max_unconfirmed - 1
    token = dict(victim[0].form)["hub.callback"].rpartition("/")[2] if victim[0] else ""
    query = {"hub.mode": "subscribe", "hub.topic": feeds[0], "hub.challenge": "c"}
    assert subscriptions.confirm(token, query, NOW) == (200, "c")
    assert subscriptions.subscribe(feeds[19], ["https://victim.org/other"], None, NOW) is not None  # it is a hub


def test_the_feeds_of_a_host_have_one_hub() -> None:
    """A host whose feeds name several hubs has the first of them asked, until that has been silent for a day."""
    feeds = [f"https://a.org/{number}" for number in range(4)]
    sources = PolledSources(PageIndex(), lambda _: NOW - HOUR, PollSettings(given_feeds=feeds), lambda _: True)
    sources.watch_given(NOW)
    subscriptions = Subscriptions(sources, "https://me.org/websub/", lambda: "secret", lambda _: None)
    asked = [subscriptions.subscribe(url, [f"https://hub{at}.org/"], None, NOW) for at, url in enumerate(feeds)]
    assert [request is not None for request in asked] == [True, False, False, False]
    assert subscriptions.subscribe(feeds[1], ["https://hub1.org/"], None, NOW + WEBSUB_LIMITS.ask_again + 1) is not None
