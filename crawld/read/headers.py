"""Values of HTTP headers: when to come back, how long to keep, which type and charset."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from crawld.read.dates import parse_mail_date


@dataclass(frozen=True)
class HeadersLimits:
    """Numbers that bound and tune this module."""

    max_wait: float = 30 * 86400.0
    """No server makes us wait longer than this; what it asks beyond is cut."""
    max_value: int = 8_192
    """Characters kept of a header's value, repeated ones joined; honest servers refuse longer ones themselves."""
    max_field_name: int = 100
    """A header with a longer name is left out."""


LIMITS = HeadersLimits()


VALIDATORS = {"etag": 1_024, "last-modified": 128}
"""Characters that a validator may have: it is stored with its page and sent back, so a longer one is left out."""


def plain_headers(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name, repeated ones joined, short enough and with nothing but text that can be stored.

    An empty part ends a line of `X-Robots-Tag`: the name of a robot counts up to there.
    """
    plain: dict[str, str] = {}
    odd = False
    for spelt, value in fields:
        if len(spelt) <= LIMITS.max_field_name:
            name = spelt.lower()
            between = ", , " if name == "x-robots-tag" else ", "
            plain[name] = joined = value if name not in plain else f"{plain[name]}{between}{value}"
            longest = VALIDATORS.get(name, LIMITS.max_value)
            odd = odd or len(joined) > longest or not joined.isascii() or not joined.isprintable()
    return _kept(plain) if odd else plain


def _kept(values: Mapping[str, str]) -> dict[str, str]:
    """Headers of which some are long, or hold characters that are not stored."""
    plain, control = {}, re.compile("[\x00-\x1f\x7f-\x9f]+")
    for name, value in values.items():
        longest = VALIDATORS.get(name)
        text = _storable(value[: LIMITS.max_value if longest is None else longest + 1])
        if longest is None:
            plain[name] = control.sub(" ", text)
        elif len(text) <= longest and not control.search(text):
            plain[name] = text
    return plain


def _storable(value: str) -> str:
    """Header bytes that were not UTF-8 come as lone surrogates; they are Latin-1 by tradition."""
    if value.isascii():
        return value
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def http_date(text: str) -> float | None:
    """UTC seconds of an HTTP date in any of its three spellings; None where it is not one."""
    found = parse_mail_date(text)
    return None if found is None else found[0].timestamp()


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds from `now` that a Retry-After value asks for, cut to 0 … `max_wait`; None where it says nothing."""
    if value is None:
        return None
    value = value[:200].strip()
    if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,18})?", value):
        return min(float(value), LIMITS.max_wait)
    moment = http_date(value)
    return None if moment is None else min(max(0.0, moment - now), LIMITS.max_wait)


def if_none_match(etag: str) -> str:
    """The If-None-Match for an ETag: the tag as it came, and without the mark of a compressed answer.

    Apache adds `-gzip` to the tag of an answer it compresses, but compares with the tag before that.
    """
    if not etag.endswith(('gz"', 'br"', 'gzip"', 'zstd"', 'deflate"', 'df"')):
        return etag
    packed = re.fullmatch(  # mod_deflate, mod_brotli, Jetty, LiteSpeed and others mark the tag of a compressed answer
        r"((?:W/)?\"[\x21\x23-\x7e\x80-\xff]+?)(?:--?|[;:])(?:gzip|gz|br|zstd|deflate|df)\"", etag
    )
    return f'{etag}, {packed[1]}"' if packed else etag


def max_age(cache_control: str | None) -> float | None:
    """Seconds a copy may be kept by Cache-Control; 0 for no-store and no-cache, None where it says nothing."""
    if not cache_control:
        return None
    cache_control = cache_control[:1000]
    if re.search(r"(?:^|,)\s*no-(?:store|cache)\s*(?:,|$)", cache_control, re.IGNORECASE):
        return 0.0
    match = re.search(r"(?:^|,)\s*max-age\s*=\s*\"?([0-9]{1,18})", cache_control, re.IGNORECASE)
    return float(match[1]) if match else None


@lru_cache(256)
def media_type(content_type: str | None) -> str | None:
    """The bare type in lower case, such as `text/html`; None where the header is missing or empty."""
    bare = (content_type or "")[:200].partition(";")[0].strip().lower()
    return bare or None


@lru_cache(256)
def charset(content_type: str | None) -> str | None:
    """The charset a Content-Type declares, in lower case, whether or not it is known."""
    declared = r";\s*charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:+-]{1,40})"
    match = re.search(declared, (content_type or "")[:1000], re.IGNORECASE)
    return match[1].lower() if match else None
