"""What `crawld lab` reports: a table, JSON, and a chart of freshness over time."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from crawld.cli.tables import duration, fitted, name, number
from crawld.model.units import format_rate
from crawld.show.axis import Axis, Form
from crawld.show.chart import Chart, Line, Point
from crawld.show.charts import draw

if TYPE_CHECKING:
    from crawld.research.contest import Finish
    from crawld.research.score import Score
    from crawld.research.simulated import Simulated

COLUMNS = (
    name("crawler"),
    number("freshness", 100, "true freshness"),
    number("simulated", 90),
    number("simulated_spread", 85, "±"),
    number("predicted", 70),
    number("requests", 80),
    number("caught", 60, "changes caught"),
    number("changes", 50, "of"),
    duration("delay_mean", 65, "after"),
    number("errors", 30),
)


def score_row(crawler: str, score: "Score") -> dict[str, Any]:
    """A crawler's score as a row."""
    row = asdict(score) | {"crawler": crawler, "errors": score.answers.get("error", 0)}
    row["series"] = [{"at": at, "freshness": value} for at, value in score.series]
    return row


def finish_report(
    finish: "Finish", settings: Mapping[str, Any], simulated: "Mapping[str, Simulated]"
) -> dict[str, Any]:
    """Everything a comparison found, ready for JSON."""
    rows = []
    for crawler, score in finish.scores.items():
        row = score_row(crawler, score)
        row["predicted"] = finish.samples.mean_predicted(crawler, finish.judged_from)
        expected = simulated.get(crawler)
        row["simulated"] = expected and expected.freshness
        row["simulated_spread"] = expected and expected.spread
        rows.append(row)
    return {
        **settings,
        "seconds": round(finish.ended - finish.started, 2),
        "judged_seconds": round(finish.ended - finish.judged_from, 2),
        "crawlers": rows,
    }


def print_scores(rows: list[dict[str, Any]], title: str, console: Console) -> None:
    """The table; a column that is empty in every row is left out."""
    columns = [column for column in COLUMNS if any(column.full(row) != "–" for row in rows)]
    console.print(fitted(rows, columns, console.width, title))


def print_finish(report: Mapping[str, Any], console: Console) -> None:
    """The table of a comparison, and what its figures mean."""
    title = f"{report['pages']} pages, {format_rate(report['bandwidth'])} each, {report['seconds']:.0f} s"
    print_scores(report["crawlers"], title, console)
    console.print(
        "True freshness is the share of importance held in its current version, over the last "
        f"{report['judged_seconds']:.0f} s, as the site itself knows it."
    )


def chart(rows: list[dict[str, Any]]) -> str:
    """Freshness over time as SVG, a line for each crawler."""
    lines = [Line(row["crawler"], [Point(at["at"], at["freshness"]) for at in row["series"]]) for row in rows]
    y_axis = Axis("share of importance held in its current version", Form.SHARE, 0.0, 1.0)
    return draw(Chart("True freshness in the lab", Axis("time", Form.DURATION), y_axis, lines), standalone=True)
