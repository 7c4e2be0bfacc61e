"""The times that sitemaps and feeds claim: what they say, how exactly, or why they cannot be used."""

import calendar
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import ClassVar

from crawld.model.units import DAY


@dataclass(frozen=True)
class DatesLimits:
    """Numbers that bound and tune this module."""

    max_date: int = 200
    earliest_zone: timedelta = timedelta(hours=-12)
    latest_zone: timedelta = timedelta(hours=14)
    """All zones of the world lie between these."""
    future_slack: float = 86_400.0
    """A date without a zone may be tomorrow's already where it was written."""
    web_began: float = datetime(1991, 1, 1, tzinfo=UTC).timestamp()
    """No page is older, so no honest claim is."""
    max_unusable: int = 10_000
    """Dates of one file that may turn out to be unusable before the rest is not read at all: trying them takes
    longest."""


LIMITS = DatesLimits()


_ZONE_HOURS = {
    "UT": 0, "UTC": 0, "GMT": 0, "Z": 0, "WET": 0,
    "WEST": 1, "CET": 1, "MEZ": 1, "MET": 1, "BST": 1, "WAT": 1,
    "CEST": 2, "MESZ": 2, "MEST": 2, "EET": 2, "CAT": 2, "SAST": 2,
    "EEST": 3, "IDT": 3, "MSK": 3, "EAT": 3, "TRT": 3, "FET": 3,
    "IRST": 3.5, "MSD": 4, "GST": 4, "SAMT": 4, "GET": 4, "AZT": 4, "IRDT": 4.5, "AFT": 4.5,
    "PKT": 5, "UZT": 5, "YEKT": 5, "IST": 5.5, "NPT": 5.75, "OMST": 6, "MMT": 6.5,
    "ICT": 7, "WIB": 7, "NOVT": 7, "KRAT": 7,
    "HKT": 8, "SGT": 8, "MYT": 8, "PHT": 8, "AWST": 8, "WITA": 8, "IRKT": 8, "ULAT": 8,
    "JST": 9, "KST": 9, "WIT": 9, "YAKT": 9, "ACST": 9.5,
    "AEST": 10, "CHST": 10, "VLAT": 10, "ACDT": 10.5, "AEDT": 11, "MAGT": 11,
    "NZST": 12, "PETT": 12, "FJT": 12, "NZDT": 13,
    "CVT": -1, "NDT": -2.5, "BRT": -3, "ART": -3, "UYT": -3, "CLST": -3, "ADT": -3, "NST": -3.5,
    "AST": -4, "EDT": -4, "CLT": -4, "BOT": -4, "VET": -4,
    "EST": -5, "CDT": -5, "COT": -5, "PET": -5,
    "CST": -6, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8, "AKDT": -8, "AKST": -9, "HDT": -9, "HST": -10,
}  # fmt: skip


def named_zone(name: str) -> timezone | None:
    """The zone of an abbreviation, in any case; None where it says nothing.

    A single letter is UTC: RFC 822 had the signs of the military zones wrong (RFC 5322, 4.3).
    """
    if len(name) == 1:
        return UTC if name.isascii() and name.isalpha() else None
    hours = _ZONE_HOURS.get(name.upper())
    return None if hours is None else timezone(timedelta(hours=hours))


class Precision(StrEnum):
    """Precision of a claimed time."""

    DATE = "date"  # a day, a month, a year, a time in some zone: `at` is its first moment, `until` the first after it
    SECOND = "second"


class Unusable(StrEnum):
    """Why a value claims no time."""

    EMPTY = "empty"
    PLACEHOLDER = "placeholder"  # NaN, Invalid Date, null: a generator that had no date
    TEMPLATE = "template"  # not rendered
    ZERO = "zero"  # 1970 or the year 1: means unknown
    ANCIENT = "ancient"  # before there was a web
    FUTURE = "future"  # more than a day ahead of us
    IMPOSSIBLE = "impossible"  # the 30th of February
    AMBIGUOUS = "ambiguous"  # 03/04/2026: the third of April, or the fourth of March
    GARBLED = "garbled"


SAYS_NOTHING = frozenset({Unusable.EMPTY, Unusable.PLACEHOLDER, Unusable.TEMPLATE, Unusable.ZERO})
"""Reasons for which even a change of the value means nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed time: `at` (UTC seconds) up to `until`, with its precision, or the reason why it cannot be used.

    A future time keeps its `at`, so that it stays the same value once that time has come.
    """

    raw: str
    at: float | None = None
    until: float | None = None
    precision: Precision | None = None
    reason: Unusable | None = None

    @property
    def usable(self) -> bool:
        """Tells whether the claimed time may be compared with ours."""
        return self.reason is None


class _Forms:
    """Patterns of the forms in which dates are written, and the numbers of months by the beginning of their names."""

    months: ClassVar[dict[str, int]] = {
        name[:3].lower(): month for month, name in enumerate(calendar.month_name) if month
    }
    zone = r"(?:(?P<zone>(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Z]{1,5})(?:\s*\([^()]{0,60}\))?)?"
    clock = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    iso = re.compile(
        rf"(?P<year>[0-9]{{4}})(?:-(?P<month>[0-9]{{1,2}})(?:-(?P<day>[0-9]{{1,2}})(?:[T ]\s*{clock}\s*{zone})?)?)?",
        re.IGNORECASE,
    )
    year_first = re.compile(
        r"(?P<year>[0-9]{4})(?P<sep>[/.])(?P<month>[0-9]{1,2})(?P=sep)(?P<day>[0-9]{1,2})"
        rf"(?:[T ]\s*{clock}\s*{zone})?",
        re.IGNORECASE,
    )
    basic = re.compile(
        r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"
        rf"(?:T?(?P<hour>[0-9]{{2}})(?P<minute>[0-9]{{2}})(?P<second>[0-9]{{2}})\s*{zone})?",
        re.IGNORECASE,
    )
    numeric = re.compile(
        rf"(?P<first>[0-9]{{1,2}})(?P<sep>[/.-])(?P<other>[0-9]{{1,2}})(?P=sep)(?P<year>[0-9]{{4}})"
        rf"(?:[ ,T]\s*{clock}\s*(?P<half>[ap]\.?m\.?)?\s*{zone})?",
        re.IGNORECASE,
    )
    javascript = re.compile(  # JavaScript's Date.toString, in whatever language the zone is named
        r"[A-Z][a-z]{2} (?P<name>[A-Z][a-z]{2}) (?P<day>[0-9]{1,2}) (?P<year>[0-9]{4}) "
        rf"{clock} (?P<zone>(?:GMT|UTC)(?:[+-][0-9]{{2}}:?[0-9]{{2}})?).*"
    )
    english = re.compile(
        r"(?:[a-z]{3,9},?\s+)?(?:(?P<name>[a-z]{3,9})\.?\s+(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
        r"|(?P<day2>[0-9]{1,2})(?:st|nd|rd|th)?\s+(?P<name2>[a-z]{3,9})\.?),?\s+(?P<year>[0-9]{4})"
        rf"(?:(?:,| at)?\s+{clock}\s*(?P<half>[ap]\.?m\.?)?\s*{zone})?",
        re.IGNORECASE,
    )
    zone_name = re.compile(  # at the end, or between clock and year as `date` writes it
        r"(?:(?<=[0-9]\s)(?=[A-Za-z]+(?:\s*\([^()]*\))?$)|(?<=:[0-9]{2}\s)(?=[A-Za-z]+\s[0-9]{4}$))[A-Za-z]{1,5}\b"
    )
    number = re.compile(r"(?<![0-9:+])(?:[0-9]{4}|[0-9]{2})(?![0-9:])")  # outside of clocks and zones
    placeholder = re.compile(r"(?:invalid\b.*|nan|null|none|undefined|n/?a|unknown|false|true|0|-+)", re.IGNORECASE)


def read_date(text: str, now: float) -> Claim:
    """Reads a lastmod, updated or pubDate, seen at `now`.

    A time without a zone is read as UTC, and one in an unknown zone as any moment it could be; midnight to the
    second is a date, as generators without a clock write it.
    """
    raw = " ".join(text[: LIMITS.max_date].split())
    if not raw:
        return Claim(raw, reason=Unusable.EMPTY)
    if "{{" in raw or "{%" in raw or "<%" in raw or "${" in raw:
        return Claim(raw, reason=Unusable.TEMPLATE)
    if _Forms.placeholder.fullmatch(raw):
        return Claim(raw, reason=Unusable.PLACEHOLDER)
    try:
        found = _read(raw)
    except _AmbiguousError:
        return Claim(raw, reason=Unusable.AMBIGUOUS)
    except (ValueError, OverflowError):
        zero = raw.startswith("0000")
        return Claim(raw, reason=Unusable.ZERO if zero else Unusable.IMPOSSIBLE)
    if found is None:
        return Claim(raw, reason=Unusable.GARBLED)
    at, span = found
    if abs(at) <= DAY or at < -60 * 365 * DAY:
        return Claim(raw, reason=Unusable.ZERO)
    reason = None
    if at + span <= LIMITS.web_began:
        reason = Unusable.ANCIENT
    elif at > now + LIMITS.future_slack:
        reason = Unusable.FUTURE
    return Claim(raw, at, at + span, Precision.DATE if span else Precision.SECOND, reason)


class DateReader:
    """Reads the dates of one file, seen at `now`. Where thousands cannot be used, the rest is compared as it is."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._unusable_left = LIMITS.max_unusable

    def read(self, text: str) -> Claim:
        """Reads a lastmod, updated or pubDate."""
        if self._unusable_left <= 0:
            return Claim(" ".join(text[: LIMITS.max_date].split()), reason=Unusable.GARBLED)
        claim = read_date(text, self._now)
        self._unusable_left -= not claim.usable
        return claim


class _AmbiguousError(Exception):
    """Day and month cannot be told apart."""


def _read(raw: str) -> tuple[float, float] | None:
    """The first moment meant and the length of what is meant; ValueError where there is no such day or hour."""
    if len(raw) >= 20 and raw[10] == "T" and raw[11:19] != "00:00:00":  # the commonest spelling, quickly
        with suppress(ValueError):
            exact = datetime.fromisoformat(raw)
            if exact.tzinfo:
                return exact.timestamp(), 0.0
    if match := _Forms.iso.fullmatch(raw) or _Forms.year_first.fullmatch(raw):
        return _moment(match, match["month"], match["day"])
    if raw.isdigit() and raw.isascii() and len(raw) in (9, 10, 13):
        return int(raw) / (1000.0 if len(raw) == 13 else 1.0), 0.0
    if match := _Forms.basic.fullmatch(raw):
        return _moment(match, match["month"], match["day"])
    if match := _Forms.numeric.fullmatch(raw):
        return _numeric(match)
    if match := _Forms.javascript.fullmatch(raw):
        return _moment(match, _month(match["name"]), match["day"])
    if (match := _Forms.english.fullmatch(raw)) and (month := _month(match["name"] or match["name2"])):
        return _moment(match, month, match["day"] or match["day2"])
    if (found := parse_mail_date(raw)) is None:
        return None
    moment, zone_known = found
    return (moment.timestamp(), 0.0) if zone_known else _anywhere(moment)


def _month(name: str) -> str | None:
    number = _Forms.months.get(name[:3].lower())
    return None if number is None else str(number)


def _numeric(match: re.Match[str]) -> tuple[float, float]:
    first, other = int(match["first"]), int(match["other"])
    if match["sep"] == ".":  # written so only where the day comes first
        return _moment(match, str(other), str(first))
    if first <= 12 and other <= 12 and first != other:
        raise _AmbiguousError
    month, day = (other, first) if first > 12 else (first, other)
    return _moment(match, str(month), str(day))


def _moment(match: re.Match[str], month: str | None, day: str | None) -> tuple[float, float]:
    named = match.groupdict()
    start = datetime(int(match["year"]), int(month or 1), int(day or 1), tzinfo=UTC)
    if named.get("hour") is None:
        days = 1 if day else calendar.monthrange(start.year, start.month)[1] if month else 365
        return start.timestamp(), days * DAY
    hour, half = int(match["hour"]), (named.get("half") or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError(f"hour {hour} {half}")
    if half:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    whole = timedelta(days=1) if hour == 24 else timedelta()  # 24:00 is the end of the day
    second = int(match["second"] or 0) - (match["second"] == "60")  # a leap second
    fraction = float(f"0.{named['fraction'][:9]}") if named.get("fraction") else 0.0
    clock = start.replace(hour=hour - 24 * whole.days, minute=int(match["minute"]), second=second) + whole
    zone = _zone(named.get("zone"))
    if zone is None:
        at, span = _anywhere(clock)
        return at + fraction, span
    midnight = not (hour % 24 or clock.minute or clock.second or fraction)  # a date in the dress of a time
    return clock.replace(tzinfo=zone).timestamp() + fraction, DAY if midnight else 0.0


def _zone(text: str | None) -> timezone | None:
    """The zone a date names, UTC where it names none; None where it is unknown."""
    if text is None:
        return UTC
    if text.isalpha():
        return named_zone(text)
    sign, digits = ("-" if "-" in text else "+"), re.sub(r"[^0-9]", "", text)
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def _anywhere(clock: datetime) -> tuple[float, float]:
    """The span of a clock in a zone that is unknown."""
    return (clock - LIMITS.latest_zone).timestamp(), (LIMITS.latest_zone - LIMITS.earliest_zone).total_seconds()


def parse_mail_date(text: str) -> tuple[datetime, bool] | None:
    """The moment of a date as in a mail or in HTTP, and whether its zone is known: one that is not is read as UTC."""
    text = re.sub(r"(:[0-9]{2}):60\b", r"\1:59", text.strip()[: LIMITS.max_date])
    if not re.search(r"[A-Za-z]{3}", text):
        return None
    name = _Forms.zone_name.search(text)
    zone = named_zone(name[0]) if name else UTC
    if name:  # the library knows American names alone
        text = f"{text[: name.start()]}{datetime.min.replace(tzinfo=zone or UTC):%z}{text[name.end() :]}"
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if not {f"{found.year:04}", f"{found.year % 100:02}"}.intersection(_Forms.number.findall(text)):
        return None  # the library takes a word in the place of the year for the year 2000
    return found if found.tzinfo else found.replace(tzinfo=UTC), zone is not None
