"""What the demo shows at its end."""

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table

QUERY = "SELECT url, importance, crawls, changes, freshness FROM page_stats ORDER BY freshness LIMIT 5;"


def print_report(report: dict[str, Any], console: Console) -> None:
    """Who held more of the truth, where it went well and where not, and where to look further."""
    true, uniform = report["freshness_true"], report["freshness_uniform"]
    console.print()
    table = Table(title=f"{report['pages']} pages, {report['bandwidth_text']} each, {report['seconds']:.0f} s")
    table.add_column("crawler")
    table.add_column("true freshness", justify="right")
    table.add_column("predicted", justify="right")
    table.add_column("requests", justify="right")
    table.add_row("crawld", f"[bold]{true:.3f}[/]", f"{report['freshness_predicted']:.3f}", str(report["requests"]))
    table.add_row("round robin", f"{uniform:.3f}", "", str(report["requests_uniform"]))
    console.print(table)
    console.print(
        f"True freshness is what the site itself knows: the share of importance held in its current version, over the "
        f"last {report['judged_seconds']:.0f} s.\n{_verdict(true, uniform)}\n"
    )
    pages = Table(title="The freshest and the stalest pages")
    for name in ("url", "sitemap", "importance", "changes", "crawls", "fresh"):
        pages.add_column(name, justify="left" if name in {"url", "sitemap"} else "right")
    for row in report["freshest"]:
        pages.add_row(*_cells(row))
    pages.add_section()
    for row in report["stalest"]:
        pages.add_row(*_cells(row))
    console.print(pages)
    console.print("\nEverything crawld knows is in SQLite; try:\n")
    console.print(f"  sqlite3 -box {shlex.quote(report['database'])} '{QUERY}'", highlight=False, soft_wrap=True)


def _verdict(true: float, uniform: float) -> str:
    if true >= uniform:
        stale, before = 1 - true, 1 - uniform
        less = f" ({1 - stale / before:.0%} less staleness)" if before > 0 else ""
        return f"With the same requests crawld held {true - uniform:+.3f} more of the site than round robin{less}."
    return f"This time round robin held {uniform - true:.3f} more: too little to learn from. Try --seconds 120."


def _cells(row: dict[str, Any]) -> list[str]:
    shown = (
        row["url"].removeprefix("http://"),
        row["sitemap"],
        row["importance"],
        row["changes"],
        row["crawls"],
        f"{row['freshness_true']:.2f}",
    )
    return [str(cell) for cell in shown]
