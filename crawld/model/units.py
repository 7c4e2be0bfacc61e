"""Rates, durations, moments, counts and foreign text: as the settings take them and as a person reads them."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from crawld.model.errors import InputError


@dataclass(frozen=True)
class UnitsLimits:
    """Numbers that bound and tune this module."""

    max_rate: float = 100_000.0
    """Requests per second: more than a process can send, and few enough to count slots one by one."""
    max_seconds: float = 10 * 365.25 * 86400.0
    """Of a duration: ten years, beyond which dates and timers end."""


LIMITS = UnitsLimits()


DAY = 86_400
"""Seconds of a day."""
SECONDS_OF = {
    "ms": 0.001, "msec": 0.001, "millisecond": 0.001,
    "s": 1.0, "sec": 1.0, "second": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0,
    "h": 3600.0, "hour": 3600.0,
    "d": 86400.0, "day": 86400.0,
    "w": 604800.0, "week": 604800.0,
}  # fmt: skip
_NUMBER = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*"

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of C0 and C1, but for tab and line feed
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # marks and letters that nothing shows
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"  # separators, and what changes the direction of writing
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
)


def _unit(word: str) -> float | None:
    word = word.lower()
    return SECONDS_OF.get(word) or (SECONDS_OF.get(word[:-1]) if word.endswith("s") and len(word) > 2 else None)


def parse_rate(text: str | float) -> float:
    """Requests per second from `2/s`, `90/min` or `5000/day`; `0` pauses."""
    if isinstance(text, str):
        if text.strip() == "0":
            return 0.0
        match = re.fullmatch(_NUMBER + r"(?:/\s*|per\s+)([a-z]+)\s*", text, re.IGNORECASE)
        seconds = _unit(match[2]) if match else None
        if match is None or seconds is None:
            raise InputError(f"{text!r} is not a rate: write it like 2/s, 90/min, 400/hour or 5000/day")
        rate = float(match[1]) / seconds
    else:
        rate = float(text)
    if not 0 <= rate <= LIMITS.max_rate:
        raise InputError(f"{text!r} is not a rate: it must be from 0 to {LIMITS.max_rate:.0f}/s")
    return rate


def format_rate(rate: float) -> str:
    """A rate as a person writes it: `2/s`, `90/min`, `5000/day`."""
    if rate == 0:
        return "0/s"
    for unit, seconds in (("s", 1.0), ("min", 60.0), ("hour", 3600.0), ("day", 86400.0)):
        if rate * seconds >= 1.0 or unit == "day":
            return f"{rate * seconds:.4g}/{unit}"
    raise AssertionError("unreachable")


def is_number(text: str) -> bool:
    """Tells whether a text is a whole number that the database can hold."""
    return text.isascii() and text.isdigit() and len(text) < 19


def parse_duration(text: str | float) -> float:
    """Seconds from `300ms`, `90s`, `5 min`, `12h`, `30 days`, or from a bare number of seconds."""
    if isinstance(text, str):
        match = re.fullmatch(_NUMBER + r"([a-z]+)\s*", text, re.IGNORECASE)
        if match is None and re.fullmatch(r"\s*[0-9]*\.?[0-9]+\s*", text):
            seconds = float(text)
        else:
            unit = _unit(match[2]) if match else None
            if match is None or unit is None:
                raise InputError(f"{text!r} is not a duration: write it like 90s, 5min, 12h or 30d")
            seconds = float(match[1]) * unit
    else:
        seconds = float(text)
    if not 0 <= seconds <= LIMITS.max_seconds:
        raise InputError(
            f"{text!r} is not a duration: it must be from 0 to 10 years ({LIMITS.max_seconds / 86400:.0f}d)"
        )
    return seconds


def spell_duration(seconds: float) -> str:
    """A duration as the settings take it: `3w`, `1.5h`, `300ms`; the largest unit that needs at most two decimals."""
    for unit in ("w", "d", "h", "min", "s"):
        count = seconds / SECONDS_OF[unit]
        if count >= 1 and math.isclose(count, round(count, 2), rel_tol=1e-12):
            return f"{round(count, 2):.12g}{unit}"
    return f"{seconds:.12g}s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.12g}ms"


def format_duration(seconds: float) -> str:
    """A duration as a person reads it: `45 s`, `12 min`, `3.2 h`, `9 d`."""
    if not math.isfinite(seconds):
        return "never"
    unit, length = unit_of(seconds)
    return f"{format_number(seconds / length)} {unit}"


def unit_of(seconds: float) -> tuple[str, float]:
    """The largest unit of which a duration has two or more, with its length in seconds."""
    for unit, length in (("y", 365.25 * 86400.0), ("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return unit, length
    return "s", 1.0


def format_number(value: float) -> str:
    """Three digits that matter, never in exponent form."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return "0" if abs(value) < 1e-4 else f"{value:.3g}"


def format_date(at: float) -> str:
    """`2026-11-17 02:40`, in UTC like the log."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "never"


def format_age(at: float, now: float) -> str:
    """`3 min ago`, or `in 3 min` for a moment to come."""
    if not math.isfinite(at):
        return "never"
    return f"{format_duration(now - at)} ago" if at <= now else f"in {format_duration(at - now)}"


def format_moment(at: float, now: float) -> str:
    """`2026-11-17 02:40 UTC (3 min ago)`; nothing more precise, because the age says the rest."""
    date, age = format_date(at), format_age(at, now)
    return age if date == "never" else f"{date} UTC ({age})"


def many(count: int, what: str, plural: str | None = None) -> str:
    """So many of something, with the plural where it is not one; the plural adds an s unless it is given."""
    return f"{count} {what if count == 1 else plural or f'{what}s'}"


def in_a_row(count: int) -> str:
    """`once`, `3 times in a row`."""
    return "once" if count == 1 else f"{count} times in a row"


def printable(text: str) -> str:
    r"""The text with every character that acts or hides written out, as \u001b; in JSON it means the same as before."""
    return _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"
