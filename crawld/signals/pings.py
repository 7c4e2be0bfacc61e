"""Pings as they were sent, read: bytes to match keys and times, or a refusal. Pure, and runs in a worker."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawld.model.errors import InputError
from crawld.model.signal import KeyCheck, PushAnswer
from crawld.model.url import host_of_target, identity
from crawld.read.dates import Claim, DateReader
from crawld.read.listing import Addresses, load_json
from crawld.signals.poll_signals import Keys, keys_of


@dataclass(frozen=True)
class PingsLimits:
    """Numbers that bound and tune this module."""

    max_urls: int = 10_000  # in one ping, as IndexNow sets it
    max_bytes: int = 4 * 2**20
    max_values: int = 200_000
    """JSON values of a ping, counted by its brackets and commas, which URLs may hold as well."""
    max_errors: int = 20
    """Bad items that are named in an answer."""


LIMITS = PingsLimits()


_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ping:
    """The URLs of a ping as columns; nan where nothing is claimed."""

    keys: Keys
    at: Floats
    until: Floats
    urls: str = ""  # a line each
    errors: Sequence[str] = field(default=())
    check: KeyCheck | None = None  # IndexNow: the key that has to vouch for it

    def __post_init__(self) -> None:
        if len({len(self.keys), len(self.at), len(self.until)}) != 1:
            raise ValueError("columns of a ping differ in length")

    @classmethod
    def of_keys(cls, keys: Keys) -> "Ping":
        """A ping that claims no times."""
        nothing = np.full(len(keys), np.nan)
        return cls(keys, nothing, nothing)


def refusal(status: int, sentence: str) -> PushAnswer:
    """The answer to a ping that cannot be taken."""
    return PushAnswer(status, {"error": sentence})


def read_signals(body: bytes, now: float) -> Ping | PushAnswer:
    """Read a `POST /signals`, or refuse it."""
    if len(body) > LIMITS.max_bytes:
        return refusal(413, f"a ping may have {LIMITS.max_bytes // 2**20} MB at most: send it in parts")
    try:
        items = _json(body)
    except InputError as error:
        return refusal(400, str(error))
    items = items if isinstance(items, list) else [items]
    if len(items) > LIMITS.max_urls:
        return refusal(413, f"a ping may have {LIMITS.max_urls:,} URLs at most: send it in parts")
    claims: dict[str, Claim | None] = {}
    errors: list[str] = []
    addresses, dates = Addresses(""), DateReader(now)
    for number, item in enumerate(items, 1):
        try:
            url, claim = _pinged(item, addresses, dates)
            claims[url] = claim
        except InputError as error:
            errors.append(f"item {number}: {error}")
    usable = [claim if claim is not None and claim.usable else None for claim in claims.values()]
    return Ping(
        keys_of(claims),
        np.array([claim.at if claim else np.nan for claim in usable], dtype=np.float64),
        np.array([claim.until if claim else np.nan for claim in usable], dtype=np.float64),
        "\n".join(claims),
        [*errors[: LIMITS.max_errors], *(["…"] if len(errors) > LIMITS.max_errors else [])],
    )


def _json(body: bytes) -> Any:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not JSON: it is not in UTF-8") from None
    return load_json(text, LIMITS.max_values)


def _pinged(item: Any, addresses: Addresses, dates: DateReader) -> tuple[str, Claim | None]:
    """The URL and the time that one item of a ping means."""
    at = None
    if isinstance(item, dict):
        item, at = item.get("url"), item.get("at")
    if not isinstance(item, str):
        raise InputError('give a URL, or {"url": …, "at": …}')
    url = addresses.locate(item)
    if url is None:
        raise InputError(f"{item[:200]!r} is not a URL of http or https")
    if at is None:
        return url, None
    if isinstance(at, bool) or not isinstance(at, str | int | float):
        raise InputError("`at` is a time: UTC seconds, or a date like 2026-11-16T12:00:00Z")
    text = f"{at:.0f}" if isinstance(at, int | float) and math.isfinite(at) else str(at)
    claim = dates.read(text)
    if not claim.usable:
        raise InputError(f"`at` {text[:50]!r} cannot be used: {claim.reason}")
    return url, claim


def read_indexnow_query(query: Mapping[str, str]) -> Ping | PushAnswer:
    """Read IndexNow's GET: one URL and its key."""
    if "url" not in query or "key" not in query:
        return refusal(400, "give ?url=…&key=…")
    url = Addresses("").locate(query["url"])
    if url is None:
        return refusal(400, f"url: {query['url'][:200]!r} is not a URL of http or https")
    return _indexnow(host_of_target(url), query["key"], query.get("keyLocation"), [url])


def read_indexnow(body: bytes) -> Ping | PushAnswer:
    """Read IndexNow's POST: many URLs of one host."""
    if len(body) > LIMITS.max_bytes:
        return refusal(413, f"at most {LIMITS.max_bytes // 2**20} MB")
    try:
        given = _json(body)
    except InputError as error:
        return refusal(400, str(error))
    if not isinstance(given, dict):
        return refusal(400, 'send {"host": …, "key": …, "urlList": […]}')
    host, key, urls, location = (given.get(name) for name in ("host", "key", "urlList", "keyLocation"))
    if not isinstance(host, str) or not isinstance(key, str) or not isinstance(location, str | None):
        return refusal(400, "host, key and keyLocation are texts; host and key are needed")
    if not isinstance(urls, list) or not 0 < len(urls) <= LIMITS.max_urls or not all(isinstance(u, str) for u in urls):
        return refusal(400, f"urlList is a list of 1 to {LIMITS.max_urls:,} URLs")
    return _indexnow(host.lower(), key, location, urls)


def _indexnow(host: str, key: str, location: str | None, given: Sequence[str]) -> Ping | PushAnswer:
    if not _KEY.fullmatch(key):
        return refusal(400, "a key has 8 to 128 characters of a-z, A-Z, 0-9 and -")
    addresses = Addresses("")
    urls: dict[str, None] = {}
    for text in given:
        url = addresses.locate(text)
        if url is None:
            return refusal(400, f"{text[:200]!r} is not a URL of http or https")
        if host_of_target(url) != host:
            return refusal(422, f"every URL, and keyLocation, must be of the host {host[:300]}")
        urls[url] = None
    origin = "/".join(next(iter(urls)).split("/", 3)[:3])
    place = addresses.locate(location) if location else f"{origin}/{key}.txt"
    if place is None:
        return refusal(400, f"keyLocation: {(location or '')[:200]!r} is not a URL of http or https")
    if host_of_target(place) != host:
        return refusal(422, f"every URL, and keyLocation, must be of the host {host[:300]}")
    folder = identity(place).rpartition("/")[0] + "/"
    below = folder.partition("://")[2]
    if location and not all(identity(url).partition("://")[2].startswith(below) for url in urls):
        return refusal(422, f"a key at {place} speaks for URLs below {folder} only")
    return replace(Ping.of_keys(keys_of(urls)), urls="\n".join(urls), check=KeyCheck(host, key, place))
