"""Moments as a person reads them: a date and how far away it is, never bare seconds."""

import math
from datetime import UTC, datetime

from crawld.model.slot import format_duration


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
