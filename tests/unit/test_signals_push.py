"""Pings: what is accepted, what it leads to, and what is refused in a sentence."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.fetched import Fetched, FetchFailed, Purpose, Scope, Trouble
from crawld.model.page import Page
from crawld.model.signal import PushAnswer, Source
from crawld.read.workers.messages import pack, shape_of, unpack
from crawld.signals.pings import LIMITS as PINGS_LIMITS
from crawld.signals.pings import Ping, read_indexnow, read_signals
from crawld.signals.poll_signals import LIMITS as POLL_SIGNALS_LIMITS
from crawld.signals.poll_signals import Known, PageIndex, at_once
from crawld.signals.push_inbox import LIMITS as PUSH_INBOX_LIMITS
from crawld.signals.push_inbox import PushInbox

NOW = 1_790_000_000.0
HOUR = 3600.0
KEY = "0123456789abcdef"


def inbox(delay: float = 0.0) -> PushInbox:
    """An inbox for pages 1 to 5 of a.org; page 5 was never crawled, the others an hour ago."""
    pages = PageIndex()
    pages.put([Page(i, f"https://a.org/{i}", "a.org") for i in range(1, 6)])
    return PushInbox(Known(pages, lambda page_id: math.nan if page_id == 5 else NOW - HOUR, delay))


def posted_signals(box: PushInbox, body: bytes, now: float) -> PushAnswer:
    """Post a ping: read it and take it in."""
    return at_once(box.take(box.read_signals(body, now), now))


def posted_indexnow(box: PushInbox, body: bytes, now: float) -> PushAnswer:
    """Post an IndexNow submission: read it and take it in."""
    return at_once(box.take(box.read_indexnow(body), now))


def post(body: Any, box: PushInbox | None = None) -> PushAnswer:
    """Post a ping."""
    return posted_signals((box or inbox()), json.dumps(body).encode(), NOW)


def test_a_ping_signals_the_pages_it_names() -> None:
    """URLs and objects with a time are taken alike; what is not ours is named in the answer."""
    answer = post(["http://a.org/1/", {"url": "https://A.ORG/2", "at": NOW - 60}, {"url": "https://a.org/x"}])
    assert (answer.status, dict(answer.body)) == (
        200,
        {"signals": 2, "stale": 0, "unknown": 1, "unknown_urls": ["https://a.org/x"]},
    )
    assert [(s.page_id, s.source, s.seen_at, s.claimed_at) for s in answer.signals] == [
        (1, Source.PING, NOW, None),
        (2, Source.PING, NOW, NOW - 60),
    ]


def test_pings_follow_the_rules_of_signals() -> None:
    """A time before our last crawl is stale, a page never crawled gets none, the delay discards."""
    answer = post([{"url": "https://a.org/1", "at": NOW - 2 * HOUR}, "https://a.org/5"])
    assert [(s.page_id, s.stale) for s in answer.signals] == [(1, True)]
    assert not post(["https://a.org/1"], inbox(delay=2 * HOUR)).signals
    assert post({"url": "https://a.org/1", "at": "2026-09-21T12:00:00Z"}).status == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b'["ftp://a.org/"]', 400, "not a URL"),
        (b'[{"url": "https://a.org/1", "at": "soon"}]', 400, "cannot be used: garbled"),
        (b'[{"url": "https://a.org/1", "at": [1]}]', 400, "UTC seconds"),
        (b'[{"url": "https://a.org/1", "at": NaN}]', 400, "cannot be used"),
        (b"[7]", 400, "give a URL"),
        (b" " * (PINGS_LIMITS.max_bytes + 1), 413, "MB at most"),
        (json.dumps(["x"] * (PINGS_LIMITS.max_urls + 1)).encode(), 413, "URLs at most"),
    ],
)
def test_a_bad_ping_is_refused_in_a_sentence(body: bytes, status: int, words: str) -> None:
    """The answer says what was wrong and where."""
    answer = posted_signals(inbox(), body, NOW)
    assert (answer.status, answer.signals or []) == (status, [])
    assert words in json.dumps(dict(answer.body))


def test_one_bad_item_does_not_spoil_the_others() -> None:
    """Good items count, bad ones are named by their number."""
    answer = post(["https://a.org/1", "nonsense"])
    assert (answer.status, len(answer.signals)) == (200, 1)
    assert answer.body["errors"] == ["item 2: 'nonsense' is not a URL of http or https"]


def indexnow(box: PushInbox, urls: list[str], **extra: Any) -> PushAnswer:
    """Post as IndexNow's plug-ins do."""
    return posted_indexnow(box, json.dumps({"host": "a.org", "key": KEY, "urlList": urls, **extra}).encode(), NOW)


def test_indexnow_counts_once_the_host_vouches_for_the_key() -> None:
    """The first ping waits until the host serves the key; from then on pings count at once, for a day."""
    box = inbox()
    answer = indexnow(box, ["https://a.org/1", "https://a.org/9"])
    assert (answer.status, list(answer.signals)) == (202, [])
    assert answer.check is not None
    request = answer.check.request
    assert (request.url, request.purpose) == (f"https://a.org/{KEY}.txt", Purpose.PING)
    assert indexnow(box, ["https://a.org/2"]).check is None
    signals = box.key_checked(answer.check, Fetched(request.url, 200, f"{KEY}\n".encode()), NOW)
    assert [signal.page_id for signal in signals] == [1, 2]
    assert [s.page_id for s in box.get_indexnow({"url": "https://a.org/3", "key": KEY}, NOW + 1).signals] == [3]
    assert (
        box.get_indexnow({"url": "https://a.org/3", "key": KEY}, NOW + PUSH_INBOX_LIMITS.key_holds + 1).check
        is not None
    )


@pytest.mark.parametrize(
    "outcome",
    [
        Fetched("https://a.org/k.txt", 404),
        Fetched("https://a.org/k.txt", 200, b"another key"),
        Fetched("https://evil.example/k.txt", 200, KEY.encode()),
        FetchFailed("https://a.org/k.txt", Trouble.TIMEOUT, Scope.HOST),
    ],
)
def test_a_key_the_host_denies_counts_for_nothing(outcome: Fetched | FetchFailed) -> None:
    """Pings with a key that the host does not serve itself are answered alike and lead to nothing for an hour."""
    box = inbox()
    check = indexnow(box, ["https://a.org/1"]).check
    assert check is not None
    assert not box.key_checked(check, outcome, NOW)
    query = {"url": "https://a.org/1", "key": KEY}
    assert box.get_indexnow(query, NOW + 1) == PushAnswer(202, {"accepted": 1})
    assert box.get_indexnow(query, NOW + PUSH_INBOX_LIMITS.denial_holds + 1).check == check


def test_a_few_denials_pause_a_host_whatever_the_key() -> None:
    """A host is asked for one key at a time; after a few denials for none for an hour, but for one that it served."""
    box = inbox()
    own = box.get_indexnow({"url": "https://a.org/1", "key": KEY}, NOW).check
    assert own is not None
    assert box.key_checked(own, Fetched(own.location, 200, KEY.encode()), NOW)
    later = NOW + PUSH_INBOX_LIMITS.key_holds + 1
    for number in range(PUSH_INBOX_LIMITS.max_denials):
        check = box.get_indexnow({"url": "https://a.org/1", "key": f"{KEY}{number}"}, later).check
        assert check is not None
        assert box.get_indexnow({"url": "https://a.org/1", "key": f"{KEY}-more"}, later).check is None
        box.key_checked(check, Fetched(check.location, 404), later)
    for number in range(20):
        assert box.get_indexnow({"url": "https://a.org/2", "key": f"another-{number}"}, later + 1).check is None
    assert box.get_indexnow({"url": "https://a.org/1", "key": KEY}, later + 2).check == own
    box.key_checked(own, Fetched(own.location, 404), later + 3)
    assert (
        box.get_indexnow({"url": "https://a.org/1", "key": "a-new-one"}, later + PUSH_INBOX_LIMITS.denial_holds).check
        is None
    )
    assert (
        box.get_indexnow(
            {"url": "https://a.org/1", "key": "a-new-one"}, later + 2 * PUSH_INBOX_LIMITS.denial_holds
        ).check
        is not None
    )


def test_a_strangers_ping_causes_no_request() -> None:
    """Where no URL is ours no key is checked, and only so many at once."""
    box = inbox()
    answer = box.get_indexnow({"url": "https://victim.org/", "key": KEY}, NOW)
    assert (answer.status, answer.check) == (202, None)
    answers = [box.get_indexnow({"url": "https://a.org/1", "key": f"{KEY}{i}"}, NOW) for i in range(20)]
    assert [(answer.status, answer.body) for answer in answers] == [(202, {"accepted": 1})] * 20
    assert sum(answer.check is not None for answer in answers) == 1


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"key": "short"}, 400),
        ({"key": 3}, 400),
        ({"urlList": []}, 400),
        ({"urlList": "https://a.org/1"}, 400),
        ({"urlList": ["nonsense"]}, 400),
        ({"urlList": ["https://b.org/1"]}, 422),
        ({"host": "b.org"}, 422),
        ({"keyLocation": f"https://b.org/{KEY}.txt"}, 422),
        ({"keyLocation": f"https://a.org/folder/{KEY}.txt"}, 422),
        ({"keyLocation": f"https://a.org/{KEY}.txt"}, 202),
        ({"host": "A.org"}, 202),
    ],
)
def test_indexnow_is_checked_as_its_protocol_says(given: dict[str, Any], status: int) -> None:
    """Malformed pings are 400, URLs of another host or folder 422."""
    body = {"host": "a.org", "key": KEY, "urlList": ["https://a.org/1"]} | given
    assert posted_indexnow(inbox(), json.dumps(body).encode(), NOW).status == status


def test_indexnow_needs_its_parameters() -> None:
    """A GET without URL or key, or a POST that is no object, is told what to send."""
    box = inbox()
    answers = [
        box.get_indexnow({"url": "https://a.org/1"}, NOW),
        box.get_indexnow({"url": "nonsense", "key": KEY}, NOW),
        posted_indexnow(box, b"[]", NOW),
        posted_indexnow(box, b"{", NOW),
    ]
    assert [answer.status for answer in answers] == [400] * 4
    assert posted_indexnow(box, b" " * (PINGS_LIMITS.max_bytes + 1), NOW).status == 413
    assert all(answer.body["error"] for answer in answers)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.sampled_from(["https://a.org/1", KEY, "a.org"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "at", "host", "key", "urlList", "keyLocation"]), inner, max_size=5)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_is_posted_is_answered(given_value: Any) -> None:
    """No body raises; every answer has a status and a body for JSON."""
    box = inbox()
    body = json.dumps(given_value).encode()
    for answer in (posted_signals(box, body, NOW), posted_indexnow(box, body, NOW)):
        assert answer.status in {200, 202, 400, 413, 422}
        assert json.dumps(dict(answer.body))


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (
            partial(read_signals, now=NOW),
            ["https://a.org/1", {"url": "https://münchen.example/", "at": "2026-01-01"}, 7],
        ),
        (read_indexnow, {"host": "a.org", "key": KEY, "urlList": ["https://a.org/1", "https://a.org/2"]}),
        (read_indexnow, {"host": "a.org", "key": "short", "urlList": ["https://a.org/1"]}),
    ],
)
def test_what_is_read_of_a_ping_travels_between_processes(
    read: Callable[[bytes], Ping | PushAnswer], body: object
) -> None:
    """A ping is read by a function that a worker can run, and what it returns leads to the same answer."""
    shape = shape_of(Ping | PushAnswer)
    ping = shape.value(unpack(pack(shape.plain(read(json.dumps(body).encode())))))
    here = at_once(inbox().take(read(json.dumps(body).encode()), NOW))
    assert at_once(inbox().take(ping, NOW)) == here


def test_a_large_ping_is_taken_in_slices() -> None:
    """Taking a ping of ten thousand pages in lets others have their turn, and waiting ones are kept as keys."""
    pages = PageIndex()
    pages.put([Page(i, f"https://a.org/{i}", "a.org") for i in range(PINGS_LIMITS.max_urls)])
    box = PushInbox(Known(pages, lambda _: NOW - HOUR))
    urls = [f"https://a.org/{i}" for i in range(PINGS_LIMITS.max_urls)]
    slices = box.take(read_signals(json.dumps(urls).encode(), NOW), NOW)
    assert sum(1 for _ in slices) == PINGS_LIMITS.max_urls // POLL_SIGNALS_LIMITS.judged_at_once
    for _ in range(3):
        indexnow(box, urls)
    ((_, waiting),) = box.pending.values()
    assert waiting.nbytes == 8 * PINGS_LIMITS.max_urls


def test_json_that_unfolds_is_refused_before_it_is_parsed() -> None:
    """A ping of megabytes of tiny values is refused by their number; one that is not UTF-8 by name."""
    assert "values" in posted_signals(inbox(), b"[" + b"[]," * 1_000_000 + b"0]", NOW).body["error"]
    assert "UTF-8" in posted_indexnow(inbox(), '{"host": "a.org"}'.encode("utf-16"), NOW).body["error"]
