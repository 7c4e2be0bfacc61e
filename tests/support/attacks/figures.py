"""What was seen of a run, to figures and a table."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.attacks.watch import Watched

CLOCKS_DIFFER = 0.05  # seconds between the site's note of a request and the daemon's of its beginning
COLUMNS = {
    "name": 22, "good_share": 10, "good_per_second": 15, "calm_per_second": 15, "hostile_per_second": 18,
    "longest_silence_ms": 18, "silence_p99_ms": 14, "oldest_uncommitted_ms": 21, "extra_memory_mb": 15,
    "machine_stall_ms": 16, "poisoned_signals": 16, "internal_errors": 15, "ended": 14,
}  # fmt: skip
"""Widths of the table's columns."""

Asked = Sequence[tuple[float, str]]


def oldest_uncommitted(asked: Asked, watched: Watched, end: float) -> float:
    """The longest time (seconds) from the end of a crawl to its row in the database.

    Requests without a crawl until `end` count from when they came: they may have waited all that time.
    """
    times: dict[str, list[float]] = {}
    for at, url in sorted(asked):
        times.setdefault(url, []).append(at)
    longest = 0.0
    covered: dict[str, list[tuple[int, int]]] = {}
    for url, at, duration, seen in watched.crawls:
        found = times.get(url, [])
        first = bisect_left(found, at - CLOCKS_DIFFER)
        behind = bisect_right(found, at + duration + CLOCKS_DIFFER)
        longest = max(longest, seen - at - duration)
        if first < behind:
            covered.setdefault(url, []).append((first, behind))
    for url, found in times.items():
        told = {number for first, behind in covered.get(url, []) for number in range(first, behind)}
        waiting = [at for number, at in enumerate(found) if number not in told]
        longest = max(longest, end - min(waiting, default=end))
    return longest


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else 0.0


def share_of(measured: Mapping[str, Any], calm: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of an attack beside the calm just before it, and its memory beside that of the calm run."""
    share = measured["good_per_second"] / max(measured["calm_per_second"], 1e-9)
    extra = measured["memory_mb"] - calm["memory_mb"]
    return dict(measured) | {"good_share": round(share, 3), "extra_memory_mb": round(extra, 1)}


def table(rows: Sequence[Mapping[str, Any]], *, heading: bool = True) -> str:
    """The rows under their names."""
    lines = [list(COLUMNS)] if heading else []
    lines += [[str(row.get(name, "")) for name in COLUMNS] for row in rows]
    widths = list(COLUMNS.values())
    return "\n".join(" ".join([one[0].ljust(widths[0]), *map(str.rjust, one[1:], widths[1:])]) for one in lines)
