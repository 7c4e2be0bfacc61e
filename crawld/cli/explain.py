"""`crawld explain`: what is believed of a page, from what evidence, and why it is not crawled just now."""

import json
import math
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from crawld.cli.reading import print_rows, read, show
from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, NotRunningError, ask
from crawld.errors import CrawldError
from crawld.model.url import normalise


@click.command()
@click.argument("url")
@CONFIG
@DATABASE
@AS_JSON
def command(url: str, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Say what is believed of a page and from what evidence, and why it is not crawled just now.

    Works on a stopped daemon's database too; what only a running one knows is then left out.
    """
    wanted = normalise(url)
    page = read(config_file, database, lambda reader: reader.page(wanted))
    if page is None:
        raise CrawldError(f"{wanted} is not known here. `crawld urls list` shows what is, `crawld urls add` adds it.")
    page["now"] = _now(config_file, database, page["id"])
    if as_json:
        click.echo(json.dumps(page, indent=2, default=str))
    else:
        _print(page)


def _now(config_file: Path | None, database: str | None, page_id: int) -> dict[str, Any] | None:
    try:
        return ask(config_file, database, "GET", f"/explain?id={page_id}")
    except NotRunningError:
        return None
    except CrawldError:
        return None  # retired: the daemon does not hold it any more


def _print(page: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for label, text in _lines(page):
        table.add_row(label, text)
    Console().print(table)
    crawls = ("at", "verdict", "status", "trouble", "tau", "magnitude", "predicted", "bytes", "duration")
    print_rows("Last crawls", page["last_crawls"], crawls)
    if page["last_signals"]:
        print_rows("Last signals", page["last_signals"], ("source", "seen_at", "claimed_at", "stale"))


def _lines(page: dict[str, Any]) -> list[tuple[str, str]]:
    estimate, now = page["estimate"], page["now"]
    lines = [
        ("url", page["url"]),
        ("state", f"{page['state']}, importance {page['importance']:g}{_by_requests(page)}"),
        ("freshness", f"{show(page['freshness'])} (log-staleness {show(page['staleness'])})"),
        ("evidence", ", ".join(f"{page[what]} {what}" for what in ("crawls", "changes", "failures", "signals"))),
        ("changes", _on_average(page["change_rate"])),
        ("last crawl", show(page["last_crawl_at"], "last_crawl_at")),
        ("last change", show(page["last_change_at"], "last_change_at")),
    ]  # fmt: skip
    if estimate:
        lines.append(("unannounced", f"{show(page['alpha'], 'alpha')} ± {estimate['alpha_se']:.2g}/s"))
        worth = [source for source, count in estimate["signals"].items() if count]
        lines += [(f"{source} signals", _worth(estimate, source)) for source in worth]
    memory = page["memory"]
    if memory and memory["volatile_places"]:
        lines.append(("noise", f"{memory['volatile_places']} places vary from visit to visit and are left out"))
    if memory and memory["frame_blocks"]:
        lines.append(("frame", f"{memory['frame_blocks']} of {memory['blocks']} blocks are the site's, and left out"))
    if now is None:
        lines.append(("just now", "no daemon is running on this database, or it does not hold the page"))
    else:
        lines.append(("crawl value", f"{show(now['value'])} against a level of {show(now['level'])}"))
        if now.get("expected_in_seconds") is not None:
            lines.append(("next crawl", f"expected in {show(now['expected_in_seconds'], 'x_seconds')}"))
        lines.append(("why not now", str(now["why_not_now"])))
    return lines


def _on_average(rate: float | None) -> str:
    return "not known yet" if rate is None else f"{show(rate, 'change_rate')} on average"


def _by_requests(page: dict[str, Any]) -> str:
    """What the daemon makes of the list's weight, where that follows requests for copies."""
    now = page["now"]
    if now is None or now["importance"] == page["importance"]:
        return ""
    return f" on the list, {now['importance']:.3g} by requests for its copy"


def _worth(estimate: dict[str, Any], source: str) -> str:
    kappa, gamma = estimate["kappa"][source], estimate["gamma"][source]
    precision = -math.expm1(-kappa)
    seen = estimate["signals"][source]
    return f"{seen} seen, {show(gamma, 'gamma')}; true with probability {precision:.2f} (κ {kappa:.3g})"
