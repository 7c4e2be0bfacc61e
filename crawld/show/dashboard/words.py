"""Figures as people read them on a page."""

import math
from datetime import UTC, datetime
from urllib.parse import urlencode

from crawld.model.signal import Source
from crawld.model.units import format_date, format_number, format_rate, unit_of

NOTHING = "–"


def share(value: float | None) -> str:
    """`87 %`; one decimal where a whole number would hide the last stale pages."""
    if value is None:
        return NOTHING
    digits = 1 if 0.99 <= value < 0.9995 or 0.0005 <= value < 0.01 else 0
    return f"{100 * value:.{digits}f} %"


def count(value: int | None) -> str:
    """`1,000,000`."""
    return NOTHING if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """`2/s`."""
    return NOTHING if value is None else format_rate(float(f"{value:.3g}"))


def duration(value: float | None) -> str:
    """`3.2 h`, `37 min`: two digits are enough to read in passing."""
    if value is None or not math.isfinite(value):
        return NOTHING if value is None else "never"
    unit, length = unit_of(value)
    number = value / length
    return f"{number:.0f} {unit}" if number >= 9.95 else f"{number:.2g} {unit}"


def age(at: float | None, now: float) -> str:
    """`3 min ago`, or `in 3 min` for a moment to come."""
    if at is None or not math.isfinite(at):
        return NOTHING if at is None else "never"
    if abs(now - at) < 1:
        return "now"
    return f"{duration(now - at)} ago" if at <= now else f"in {duration(at - now)}"


def date(at: float | None) -> str:
    """`2026-11-17 02:40 UTC`."""
    return NOTHING if at is None else f"{format_date(at)} UTC"


def iso(at: float) -> str:
    """The time as programs read it; a time that no calendar has is the end of the last year that one has."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T23:59:59+00:00"


def figure(value: float | None) -> str:
    """Three digits that matter; very small ones with an exponent."""
    if value is None:
        return NOTHING
    return format_number(value) if value == 0 or abs(value) >= 1e-3 else f"{value:.2e}"


def size(value: int) -> str:
    """`12.3 kB`."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= bytes_of:
            return f"{value / bytes_of:.3g} {unit}"
    return f"{value} B"


def split_url(url: str) -> tuple[str, str]:
    """The scheme and host of a URL, which repeat in a list, and the rest, which tells pages apart."""
    start = url.find("/", url.find("://") + 3)
    return (url, "/") if start < 0 else (url[:start], url[start:])


def words_of(source: Source) -> str:
    """A source as people call it."""
    return {Source.SITEMAP_FEW: "sitemap, a few at once", Source.SITEMAP_BULK: "sitemap, in bulk"}.get(
        source, source.value
    )


def stamp(at: float) -> str:
    """`2026-11-17 02:40:12`: apart even where several are of one minute."""
    return iso(at).replace("T", " ").removesuffix("+00:00")


def link(path: str, **query: object) -> str:
    """A path with its query; what is None or empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given)}" if given else path
