"""docs/results.md, its CSV files, their picture and README's table, from what the benchmarks printed as JSON.

`python -m benchmarks.freshness_docs FILE...` takes runs of `benchmarks.freshness`, one or one for each part, and of
`benchmarks.signals`; of signals alone it renews their section. With --small it prints README's small table alone and
writes nothing.
"""

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from crawld.choose.policies import POLICIES
from crawld.research.contestants import LEARNERS, ROUND_ROBIN
from crawld.research.peers import PEERS
from crawld.show.charts import ChartPoint, draw_lines
from tests.support.freshness.runs import CRAWLD
from tests.support.freshness.worlds import DRAWN, EQUAL, HISTORY, HONEST, MIX, NCIS, WEBLIKE, ZIPF

ROOT = Path(__file__).parents[1]
RESULTS, PICTURE, README = ROOT / "docs" / "results.md", ROOT / "docs" / "freshness.svg", ROOT / "README.md"
EVERYTHING = ROOT / "docs" / "results.csv"
SIGNALS, TARGETS = ROOT / "docs" / "signals.csv", ROOT / "docs" / "signal_targets.csv"
RULES = ROOT / "docs" / "rules.csv"
BEGIN, END = "<!-- the table of docs/results.md -->", "<!-- its end -->"
COLUMNS = {
    (NCIS, DRAWN): "Busa-Fekete et al. 2025 worlds",
    (WEBLIKE, EQUAL): "weblike",
    (WEBLIKE, ZIPF): "weblike, Zipf",
    (HONEST, EQUAL): "weblike, honest sitemaps",
    (HISTORY, EQUAL): "real sites",
    (HISTORY, ZIPF): "real sites, Zipf",
    (MIX, EQUAL): "several sites",
    (MIX, ZIPF): "several sites, Zipf",
}
SHOWN = (
    ROUND_ROBIN, "nutch", "nutch-adaptive", "stormcrawler-adaptive", "news-crawl", "changedetection.io",
    "miniflux-frequency", "freshrss-autottl", "norconex", "marginalia",
)  # fmt: skip
"""In README's table and the picture: the others follow one of these rules with other constants."""

SMALL_COLUMNS = {
    (HISTORY, EQUAL): "real sites",
    (NCIS, DRAWN): "sites that announce their changes, not always rightly (drawn)",
    (HISTORY, ZIPF): "real sites, pages of unequal importance",
}
SMALL_ROWS = {
    CRAWLD: "**crawld**",
    ROUND_ROBIN: "all pages in turn",
    "changedetection.io": "changedetection.io",
    "nutch": "Apache Nutch",
}
SMALL_BEGIN, SMALL_END = "<!-- the small table of docs/results.md -->", "<!-- end of the small table -->"

SIGNALS_BEGIN, SIGNALS_END = "<!-- what benchmarks.signals measured -->", "<!-- end of what it measured -->"

FRESHNESS_OF = ("round_robin", "deaf", "crawld", "known")

Row = Mapping[str, Any]


def small_table(rows: Sequence[Row]) -> str:
    """The share of time in which copies were current, in plain words: crawld, round robin and two other crawlers."""
    by_place = {(row["contestant"], (row["kind"], row["weights"])): row for row in rows}
    kinds = [kind for kind in SMALL_COLUMNS if (CRAWLD, kind) in by_place]
    lines = [
        "| | " + " | ".join(SMALL_COLUMNS[kind] for kind in kinds) + " |",
        "|---|" + "---|" * len(kinds),
    ]
    for name, title in SMALL_ROWS.items():
        figures = [f"{100 * by_place[name, kind]['freshness']:.1f} %" for kind in kinds]
        lines.append(f"| {title} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def picture(rows: Sequence[Row]) -> str:
    """Freshness over the budget, as SVG: crawld and the peers that are shown, equally weighted pages."""
    weights = rows[0]["weights"]
    drawn = [row for row in rows if row["weights"] == weights and row["contestant"] in (CRAWLD, *SHOWN)]
    lines = {
        "crawld" if row["contestant"] == CRAWLD else row["contestant"]: [
            ChartPoint.measured(float(budget), fresh) for budget, fresh in row["by_budget"].items()
        ]
        for row in drawn
    }
    return draw_lines(f"{COLUMNS[rows[0]['kind'], weights]}: freshness", "crawls per change", "freshness", lines)


def head_table(rows: Sequence[Row]) -> str:
    """Crawld's lead over the peers that are shown, in every kind of world."""
    kinds = [kind for kind in COLUMNS if any((row["kind"], row["weights"]) == kind for row in rows)]
    by_place = {(row["contestant"], (row["kind"], row["weights"])): row for row in rows}
    lines = [
        "| crawld's lead over | " + " | ".join(COLUMNS[kind] for kind in kinds) + " |",
        "|---|" + "---|" * len(kinds),
    ]
    for name in SHOWN:
        leads = [_lead(by_place[name, kind]) for kind in kinds]
        lines.append(f"| {'round robin' if name == ROUND_ROBIN else name} | " + " | ".join(leads) + " |")
    ours = [f"{by_place[CRAWLD, kind]['freshness']:.3f}" for kind in kinds]
    return "\n".join([*lines, "| crawld's own freshness | " + " | ".join(ours) + " |"])


def _lead(row: Row) -> str:
    lead = f"{row['lead']:+.3f}".replace("-", "−")
    return lead if row["above"] or abs(row["lead"]) < 5e-5 else f"**{lead}**"


def whole_table(rows: Sequence[Row]) -> str:
    """Every contestant in every kind of world, as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ["world", "part", "worlds", "budgets", "contestant", "freshness", "lead", "stderr", "age_days", "delay_days",
         "missed", "slots_used", "crawld_is"]
    )  # fmt: skip
    for kind, title in COLUMNS.items():
        for row in (row for row in rows if (row["kind"], row["weights"]) == kind):
            other, own = row["others"], row["contestant"] == CRAWLD
            error = "" if own or row["stderr"] is None else f"{row['stderr']:.3f}"
            lead = ["" if own else f"{row['lead']:.3f}", error]
            figures = [_figure(other[name], digits) for name, digits in (("age", 2), ("delay", 2), ("missed", 3))]
            figures += [f"{other['used']:.0%}", _verdict(row)]
            about = [title, row["part"], row["worlds"], " ".join(row["by_budget"]), row["contestant"]]
            table.writerow([*about, f"{row['freshness']:.4f}", *lead, *figures])
    return out.getvalue()


def policies_table(rows: Sequence[Row]) -> str:
    """Crawld's lead over the five policies that come closest, in every kind of world they were run in."""
    kinds = [kind for kind in COLUMNS if any((row["kind"], row["weights"]) == kind for row in rows)]
    by_place = {(row["contestant"], (row["kind"], row["weights"])): row for row in rows}
    leads_of = {name: [row["lead"] for row in rows if row["contestant"] == name] for name in POLICIES if name != CRAWLD}
    closest = sorted((name for name in leads_of if leads_of[name]), key=lambda name: fmean(leads_of[name]))
    lines = [
        "| crawld's lead over | " + " | ".join(COLUMNS[kind] for kind in kinds) + " |",
        "|---|" + "---|" * len(kinds),
    ]
    for name in closest[:5]:
        leads = [_lead(by_place[name, kind]) if (name, kind) in by_place else "" for kind in kinds]
        lines.append(f"| {name} | " + " | ".join(leads) + " |")
    return "\n".join(lines)


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _verdict(row: Row) -> str:
    if row["contestant"] == CRAWLD:
        return ""
    words = "above" if row["above"] else "level" if row["lead"] == 0 else "below"
    losses = row["losses"]
    if not losses:
        return words
    worst = losses[0]
    where = "" if worst["where"] == "all" else f"{worst['where']} at "
    told = f"{where}{worst['budget']:g}: {worst['lead']:+.3f}"
    return f"{words}; loses {len(losses)} cell{'s' if len(losses) > 1 else ''}, worst {told}"


def signals_section(run: Mapping[str, Any]) -> str:
    """What signals are worth: the mean over worlds and budgets, and the targets that are missed."""
    cells = [row for row in run["rows"] if row["crawls_per_page"] is None]
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in cells:
        kinds.setdefault((row["signals"], row["weights"]), []).append(row)
    lines = ["| signals | weights | cells | round robin | deaf | crawld | known |", "|---|---|---|---|---|---|---|"]
    for (signals, weights), rows in kinds.items():
        fresh = [f"{sum(row[name] for row in rows) / len(rows):.3f}" for name in FRESHNESS_OF]
        lines.append("| " + " | ".join([signals, weights, str(len(rows)), *fresh]) + " |")
    missed = [one for one in run["figures"] if not one["reached"]]
    lines += ["", f"{len(run['figures']) - len(missed)} of {len(run['figures'])} targets are reached. Missed:", ""]
    lines += ["| figure | measured | target |", "|---|---|---|"]
    for one in missed:
        told = f"{one['value']:+.4f} | ≥ {one['target']:g}".replace("-", "−")
        lines.append(f"| {one['figure'].strip()} | {told} |")
    return "\n".join([SIGNALS_BEGIN, *lines, SIGNALS_END])


def write_signals(run: Mapping[str, Any]) -> None:
    """docs/signals.csv and docs/signal_targets.csv: every cell, and every figure beside its target."""
    with SIGNALS.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["world", "signals", "weights", "budget", *FRESHNESS_OF, "gain", "error", "draws"])
        for row in (row for row in run["rows"] if row["crawls_per_page"] is None):
            fresh = [f"{row[name]:.3f}" for name in FRESHNESS_OF]
            gain = [f"{row['crawld'] - row['deaf']:+.4f}", "" if row["draws"] < 2 else f"{row['error']:.4f}"]
            about = [row["world"], row["signals"], row["weights"], f"{row['budget']:g}"]
            table.writerow([*about, *fresh, *gain, row["draws"]])
    with TARGETS.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["figure", "measured", "target", "reached"])
        for one in run["figures"]:
            reached = "yes" if one["reached"] else "no"
            table.writerow([one["figure"].strip(), f"{one['value']:+.4f}", f"{one['target']:g}", reached])


def rules_table() -> str:
    """What every rule and policy does, as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["contestant", "kind", "rule"])
    table.writerows([name, "rule", one.rule] for every in (LEARNERS, PEERS) for name, one in every.items())
    table.writerows([one.name, "policy", one.summary] for one in POLICIES.values())
    return out.getvalue()


def document(runs: Sequence[Mapping[str, Any]], signals: Sequence[Mapping[str, Any]] = ()) -> str:
    """docs/results.md."""
    rows = [row for run in runs for row in run["rows"]]
    against = [row for row in rows if row["part"] == "peers"]
    parts = [
        "# Results",
        _INTRODUCTION,
        *(_made_by(run["settings"]) for run in runs),
        SMALL_BEGIN + "\n" + small_table(against) + "\n" + SMALL_END,
        *(part for run in signals for part in ("## What signals buy", _HEARD, signals_section(run))),
        "## crawld beside its peers",
        _EXPLAINED,
        BEGIN + "\n" + head_table(against) + "\n" + END,
        "![Freshness over the budget on recorded histories](freshness.svg)",
        _where_it_loses(against),
        _EVERYTHING,
    ]
    papers = [row for row in rows if row["part"] == "policies"]
    if papers:
        parts += ["## crawld beside the papers' policies", "The five that come closest:", policies_table(papers)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = (
    "How fresh crawld keeps its copies beside other crawlers' rules and the papers' policies, all in the same worlds "
    "with the same requests, learning from their own crawls alone. Written by `python -m benchmarks.freshness_docs`."
)
_HEARD = (
    "`python -m benchmarks.signals`: *deaf* is crawld without signals, *known* has every rate, recall and precision "
    "(of recorded histories in hindsight). Recorded histories count from the first crawl on, drawn worlds from a third "
    "of their time on. Every cell: [signals.csv](signals.csv); every target: [signal_targets.csv](signal_targets.csv)."
)
_EXPLAINED = (
    "Freshness is the share of time, weighted by importance, in which the copy was current. A lead is crawld's "
    "freshness minus the other's, the mean over budgets of .1, .3, 1 and 3 crawls per change; a bold one is a loss. "
    "Zipf: importance falls as one over the rank. A cell is one history, or all worlds of a drawn kind, at one budget; "
    "it is lost where the lead is below −.002. Single cells of histories are rough: another order of the pages moved "
    "one by .02. crawld runs without a maximum interval here."
)


_EVERYTHING = (
    "Every contestant in every world, with standard errors, age (time since the first change not seen yet), delay "
    "(from a change to the crawl that saw it), missed changes and slots used: [results.csv](results.csv). What each "
    "rule and policy does: [rules.csv](rules.csv). Common Crawl's generator and YaCy's autocrawl publish no constants."
)


def _made_by(settings: Mapping[str, Any]) -> str:
    seeds = "; ".join(f"{part}: {seeds[0]} to {seeds[-1]}" for part, seeds in settings["seeds"].items())
    sizes = "; ".join(
        f"{part}: at most {size['history_pages']} pages and about {size['most_slots']} crawls of a history, "
        f"{size['ncis_pages']} pages of a Busa-Fekete et al. 2025 world, "
        f"{size['weblike_pages']} of a weblike one"
        for part, size in settings["sizes"].items()
    )
    histories = f"{len(settings['histories'])} recorded histories" if settings["histories"] else "no recorded histories"
    return f"`{settings['command']}`, {settings['machine']}; seeds {seeds}; {sizes}; {histories}."


def _where_it_loses(rows: Sequence[Row]) -> str:
    others = [row for row in rows if row["contestant"] != CRAWLD]
    below = sorted((row for row in others if row["lead"] < 0), key=lambda row: float(row["lead"]))
    cells = [(loss["lead"], loss, row) for row in others for loss in row["losses"]]
    words = f"**Where crawld loses.** It is below on average in {len(below)} of {len(others)} comparisons with a rule"
    if below:
        words += ": " + "; ".join(f"{_place(row)}, {row['contestant']} {_lead(row)}" for row in below[:6])
    words += f". {len(cells)} cells are lost by more than .002"
    if cells:
        lead, loss, row = min(cells, key=lambda one: float(one[0]))
        where = _place(row) + ("" if loss["where"] == "all" else f", {loss['where']}")
        words += f", the worst to {row['contestant']} ({where}, at {loss['budget']:g}): −{abs(lead):.3f}"
    return words + "."


def _place(row: Row) -> str:
    return COLUMNS[row["kind"], row["weights"]]


def main() -> None:
    """Write everything, or print the small table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what a benchmark printed with --json")
    parser.add_argument("--small", action="store_true", help="print README's small table alone")
    options = parser.parse_args()
    read = [json.loads(file.read_text()) for file in options.files]
    signals = [run for run in read if run.get("benchmark") == "signals"]
    runs = [run for run in read if run.get("benchmark") != "signals"]
    if not runs:
        before, rest = RESULTS.read_text().split(SIGNALS_BEGIN)
        RESULTS.write_text(before + signals_section(signals[-1]) + rest.split(SIGNALS_END)[1])
        write_signals(signals[-1])
        return
    against = [row for run in runs for row in run["rows"] if row["part"] == "peers"]
    if options.small:
        print(small_table(against))
        return
    RESULTS.write_text(document(runs, signals))
    for run in signals:
        write_signals(run)
    EVERYTHING.write_text(whole_table([row for run in runs for row in run["rows"]]))
    RULES.write_text(rules_table())
    recorded = [row for row in against if row["kind"] == HISTORY]
    PICTURE.write_text(picture(recorded or against))
    readme = README.read_text()
    for begin, end, table in ((BEGIN, END, head_table(against)), (SMALL_BEGIN, SMALL_END, small_table(against))):
        if begin in readme:
            before, rest = readme.split(begin)
            readme = before + begin + "\n" + table + "\n" + end + rest.split(end)[1]
    README.write_text(readme)


if __name__ == "__main__":
    main()
