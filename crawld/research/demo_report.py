"""What the demo shows at its end."""

import shlex
from typing import Any

from rich.console import Console

from crawld.cli.tables import fitted, name, number, word

QUERY = "SELECT url, importance, crawls, changes, freshness FROM page_stats ORDER BY freshness LIMIT 5;"
CRAWLERS = (
    name("crawler"),
    number("true", 90, "true freshness"),
    number("predicted", 60),
    number("requests", 80),
)
PAGES = (
    name("url"),
    number("freshness_true", 90, "fresh"),
    number("changes", 80),
    number("crawls", 70),
    number("importance", 60),
    word("sitemap", 50),
)


def print_report(report: dict[str, Any], console: Console) -> None:
    """Who held more of the truth, where it went well and where not, and where to look further."""
    true, uniform = report["freshness_true"], report["freshness_uniform"]
    console.print()
    rows = [
        {"crawler": "crawld", "true": true, "predicted": report["freshness_predicted"], "requests": report["requests"]},
        {"crawler": "round robin", "true": uniform, "predicted": "", "requests": report["requests_uniform"]},
    ]
    title = f"{report['pages']} pages, {report['bandwidth_text']} each, {report['seconds']:.0f} s"
    console.print(fitted(rows, CRAWLERS, console.width, title))
    console.print(
        f"True freshness is what the site itself knows: the share of importance held in its current version, over the "
        f"last {report['judged_seconds']:.0f} s.\n{_verdict(true, uniform)}\n"
    )
    for which in ("freshest", "stalest"):
        console.print(fitted([_short(row) for row in report[which]], PAGES, console.width, f"The {which} pages"))
    console.print(f"\nThe course of both is drawn in {report['chart']}", highlight=False, soft_wrap=True)
    run = f"crawld run --urls {shlex.quote(report['urls'])} --database {shlex.quote(report['database_url'])}"
    look = f"crawld dashboard --database {shlex.quote(report['database_url'])}"
    console.print("\nIn the browser: `crawld demo --open`; or serve this result, in two terminals:\n", highlight=False)
    for line in (f"{run} --bandwidth 0", look):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print("\nEverything crawld knows is in SQLite; try:\n")
    console.print(f"  sqlite3 -box {shlex.quote(report['database'])} '{QUERY}'", highlight=False, soft_wrap=True)


def _verdict(true: float, uniform: float) -> str:
    if true >= uniform:
        stale, before = 1 - true, 1 - uniform
        less = f" ({1 - stale / before:.0%} less staleness)" if before > 0 else ""
        return f"With the same requests crawld held {true - uniform:+.3f} more of the site than round robin{less}."
    return f"This time round robin held {uniform - true:.3f} more: too little to learn from. Try --seconds 120."


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"url": row["url"].removeprefix("http://")}
