"""Pushed pings: `POST /signals` and IndexNow's protocol, to signals. Framework-free: bytes in, status and JSON out.

`POST /signals` takes a JSON list whose items are URLs or `{"url": …, "at": …}`; `at` is when the page changed, in UTC
seconds or as a date. IndexNow is taken as its site plug-ins send it: `GET ?url=…&key=…` or a POST of
`{"host": …, "key": …, "urlList": […]}`. A key is believed once the host itself serves it; only hosts of which we hold
a page are ever asked, so that a stranger's ping costs nothing.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawld.content.dates import Claim, read_date
from crawld.content.listing import locate
from crawld.errors import InputError
from crawld.model.fetched import Fetched, Outcome
from crawld.model.push import KeyCheck, PushAnswer
from crawld.model.signal import Signal, Source
from crawld.model.url import host_of, identity, normalise, origin_of
from crawld.signals.matching import keys_of
from crawld.signals.watcher import Known

MOST_URLS = 10_000  # in one ping, as IndexNow sets it
MOST_BYTES = 4 * 2**20
MOST_NAMED = 20  # bad or unknown URLs named in an answer
MOST_PENDING = 100  # keys being checked
MOST_KEYS = 10_000
KEY_HOLDS = 86_400.0
DENIAL_HOLDS = 3_600.0
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")


@dataclass(slots=True)
class PushInbox:
    """Takes pings for pages we hold."""

    known: Known
    _keys: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)  # verdict, and until when it holds
    _pending: dict[KeyCheck, dict[str, None]] = field(default_factory=dict)

    def post_signals(self, body: bytes, now: float) -> PushAnswer:
        """`POST /signals`: every page of ours that is named gets a signal."""
        if len(body) > MOST_BYTES:
            return _refusal(413, f"a ping may have {MOST_BYTES // 2**20} MB at most: send it in parts")
        try:
            items = _json(body)
        except InputError as error:
            return _refusal(400, str(error))
        items = items if isinstance(items, list) else [items]
        if len(items) > MOST_URLS:
            return _refusal(413, f"a ping may have {MOST_URLS:,} URLs at most: send it in parts")
        urls: dict[str, Claim | None] = {}
        errors: list[str] = []
        for number, item in enumerate(items, 1):
            try:
                url, claim = _pinged(item, now)
                urls[url] = claim
            except InputError as error:
                errors.append(f"item {number}: {error}")
        return self._answer(urls, errors, now)

    def _answer(self, urls: Mapping[str, Claim | None], errors: Sequence[str], now: float) -> PushAnswer:
        signals, unknown = self._signals(urls, now)
        answer: dict[str, Any] = {"signals": sum(not s.stale for s in signals), "stale": sum(s.stale for s in signals)}
        answer["unknown"] = len(unknown)
        if unknown:
            answer["unknown_urls"] = unknown[:MOST_NAMED]
        if errors:
            answer["errors"] = [*errors[:MOST_NAMED], *(["…"] if len(errors) > MOST_NAMED else [])]
        return PushAnswer(400 if errors and not urls else 200, answer, signals)

    def _signals(self, urls: Mapping[str, Claim | None], now: float) -> tuple[list[Signal], list[str]]:
        """A signal for each page of ours, by the same rules as for polls, and the URLs that are none of ours."""
        names = list(urls)
        positions, ids = self.known.pages.find(keys_of(names))
        signals: list[Signal] = []
        for position, page_id in zip(positions.tolist(), ids.tolist(), strict=True):
            last = self.known.last_success(page_id)
            if math.isnan(last) or now - last < self.known.delay:
                continue
            claim = urls[names[position]]
            usable = claim if claim is not None and claim.usable else None
            stale = usable is not None and usable.until is not None and usable.until <= last
            signals.append(Signal(page_id, Source.PING, now, usable.at if usable else None, stale))
        ours = set(positions.tolist())
        return signals, [name for position, name in enumerate(names) if position not in ours]

    # -- IndexNow ---------------------------------------------------------------------------------------------------

    def get_indexnow(self, query: Mapping[str, str], now: float) -> PushAnswer:
        """IndexNow's GET: one URL and its key."""
        if "url" not in query or "key" not in query:
            return _refusal(400, "give ?url=…&key=…")
        try:
            host = host_of(normalise(query["url"]))
        except InputError as error:
            return _refusal(400, f"url: {error}")
        return self._indexnow(host, query["key"], query.get("keyLocation"), [query["url"]], now)

    def post_indexnow(self, body: bytes, now: float) -> PushAnswer:
        """IndexNow's POST: many URLs of one host."""
        if len(body) > MOST_BYTES:
            return _refusal(413, f"at most {MOST_BYTES // 2**20} MB")
        try:
            given = _json(body)
        except InputError as error:
            return _refusal(400, str(error))
        if not isinstance(given, dict):
            return _refusal(400, 'send {"host": …, "key": …, "urlList": […]}')
        host, key, urls, location = (given.get(name) for name in ("host", "key", "urlList", "keyLocation"))
        if not isinstance(host, str) or not isinstance(key, str) or not isinstance(location, str | None):
            return _refusal(400, "host, key and keyLocation are texts; host and key are needed")
        if not isinstance(urls, list) or not 0 < len(urls) <= MOST_URLS or not all(isinstance(u, str) for u in urls):
            return _refusal(400, f"urlList is a list of 1 to {MOST_URLS:,} URLs")
        return self._indexnow(host.lower(), key, location, urls, now)

    def _indexnow(self, host: str, key: str, location: str | None, given: Sequence[str], now: float) -> PushAnswer:
        if not _KEY.fullmatch(key):
            return _refusal(400, "a key has 8 to 128 characters of a-z, A-Z, 0-9 and -")
        urls: dict[str, None] = {}
        try:
            for url in given:
                urls[normalise(url)] = None
            place = normalise(location) if location else f"{origin_of(next(iter(urls)))}/{key}.txt"
        except InputError as error:
            return _refusal(400, str(error))
        folder = identity(place).rpartition("/")[0] + "/"
        if host_of(place) != host or any(host_of(url) != host for url in urls):
            return _refusal(422, f"every URL, and keyLocation, must be of the host {host}")
        below = folder.partition("://")[2]
        if location and not all(identity(url).partition("://")[2].startswith(below) for url in urls):
            return _refusal(422, f"a key at {place} speaks for URLs below {folder} only")
        return self._judged(KeyCheck(host, key, place), urls, now)

    def _judged(self, check: KeyCheck, urls: dict[str, None], now: float) -> PushAnswer:
        if not len(self.known.pages.find(keys_of(urls))[1]):
            return PushAnswer(202, {"signals": 0, "unknown": len(urls)})
        valid, until = self._keys.get((check.location, check.key), (False, -math.inf))
        if now < until:
            return (
                self._answer(dict.fromkeys(urls), [], now)
                if valid
                else _refusal(403, f"{check.location} denies the key")
            )
        waiting = self._pending.get(check)
        if waiting is None and len(self._pending) >= MOST_PENDING:
            return _refusal(429, "too many keys are being checked: try again later")
        known = self._pending.setdefault(check, {})
        known.update(list(urls.items())[: MOST_URLS - len(known)])
        answer = {"pending": len(urls), "key": f"checked at {check.location} first"}
        return PushAnswer(202, answer, check=check if waiting is None else None)

    def key_checked(self, check: KeyCheck, outcome: Outcome, now: float) -> Sequence[Signal]:
        """Take over what asking the host for the key brought: the signals that waited for it, if it vouches."""
        urls = self._pending.pop(check, {})
        served = outcome.body.decode("utf-8-sig", "replace").strip() if isinstance(outcome, Fetched) else None
        valid = isinstance(outcome, Fetched) and outcome.status == 200 and served == check.key
        if len(self._keys) >= MOST_KEYS:
            self._keys.clear()
        self._keys[check.location, check.key] = (valid, now + (KEY_HOLDS if valid else DENIAL_HOLDS))
        return self._signals(dict.fromkeys(urls), now)[0] if valid else []


def _refusal(status: int, sentence: str) -> PushAnswer:
    return PushAnswer(status, {"error": sentence})


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {str(error)[:100]}") from None


def _pinged(item: Any, now: float) -> tuple[str, Claim | None]:
    """The URL and the time that one item of a ping means."""
    at = None
    if isinstance(item, dict):
        item, at = item.get("url"), item.get("at")
    if not isinstance(item, str):
        raise InputError('give a URL, or {"url": …, "at": …}')
    url = locate(item, "")
    if url is None:
        raise InputError(f"{item[:200]!r} is not a URL of http or https")
    if at is None:
        return url, None
    if isinstance(at, bool) or not isinstance(at, str | int | float):
        raise InputError("`at` is a time: UTC seconds, or a date like 2026-11-16T12:00:00Z")
    text = f"{at:.0f}" if isinstance(at, int | float) and math.isfinite(at) else str(at)
    claim = read_date(text, now)
    if not claim.usable:
        raise InputError(f"`at` {text[:50]!r} cannot be used: {claim.reason}")
    return url, claim
