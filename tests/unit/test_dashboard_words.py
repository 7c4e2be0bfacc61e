"""What the dashboard says: figures, the headline, a page's saw-tooth, what slots were spent on."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from crawld.model.page import NOT_LISTED, PageState
from crawld.model.signal import SOURCES, Source
from crawld.show import report
from crawld.show.charts import Chart, Column, data_table
from crawld.show.dashboard.forecast import calibration_curve, verdict
from crawld.show.dashboard.hosts import host_row, worth, worth_polling
from crawld.show.dashboard.overview import Stretch, bucket, changes_chart, headline, slots_chart
from crawld.show.dashboard.page import believed
from crawld.show.dashboard.rendering import Renderer, View, link
from crawld.show.report import ForecastPoint, Status, StoreStatus, TroubleReport
from crawld.store.views import (
    CalibrationLine,
    EstimateLine,
    HostLine,
    Overview,
    SignalLine,
    SlotLine,
    SourceFileLine,
    SourceLine,
)

EXPECTED = ForecastPoint(
    bandwidth=1.0,
    freshness=0.88,
    round_robin=0.79,
    used=1.0,
    level=None,
    given_up=0,
    limited_hosts=0,
    lost_to_politeness=0.0,
    hosts=(),
)


def _status(fresh: float | None) -> Status:
    return Status(predicted_freshness=fresh, bandwidth=1.0)


def _overview(**states: int) -> Overview:
    counted = {state: states.get(state.value, 0) for state in PageState}
    pages = sum(count for state, count in counted.items() if state not in NOT_LISTED)
    return Overview(pages, counted, hosts=1, latest=None, last_change=0, last_crawl_at=None, database_bytes=0)


@pytest.mark.parametrize(
    ("states", "fresh", "expected", "said"),
    [
        ({}, None, None, "There are no pages yet."),
        ({"waiting": 3}, 0.0, None, "Nothing is fetched yet."),
        ({"waiting": 600, "live": 400}, 0.3, None, "400 of 1,000 pages are fetched."),
        ({"live": 10}, 0.868, EXPECTED, "87 % of what you care about is current."),
        ({"live": 10}, 0.7, None, "70 % of what you care about is current."),
    ],
)
def test_the_headline_says_how_fresh_the_copy_is(
    states: dict[str, int], fresh: float | None, expected: ForecastPoint | None, said: str
) -> None:
    """Freshness now is compared with nothing; the long run of crawld is compared with that of round robin."""
    found = headline(_status(fresh), _overview(**states), expected)
    assert (found.sentence, found.stopped) == (said, False)
    compared = "Expected in the long run at this rate: about 88 % with crawld, about 79 % with round robin."
    assert (found.more == compared) is (expected is not None)
    assert "robin" not in found.sentence


def test_the_headline_says_that_crawling_has_stopped() -> None:
    """A disk that is full comes before everything else, also before the first round; so does a pause."""
    waiting = _overview(waiting=600, live=400)
    full = replace(_status(0.3), store=StoreStatus(healthy=False))
    told = [TroubleReport("store", "the store cannot write since 2 min: database or disk is full")]
    found = headline(full, waiting, None, told)
    assert (found.sentence, found.stopped) == ("Crawling has stopped.", True)
    assert found.more == "The store cannot write since 2 min: database or disk is full."
    assert headline(replace(_status(0.3), paused=True), waiting, None).sentence == "Crawling is paused."
    assert headline(replace(_status(0.3), bandwidth=0.0), waiting, None).sentence.startswith("The bandwidth is 0")


@pytest.mark.parametrize(
    ("value", "text"), [(0.868, "87 %"), (0.996, "99.6 %"), (1.0, "100 %"), (0.0, "0 %"), (0.004, "0.4 %"), (None, "–")]
)
def test_shares_do_not_hide_the_last_stale_pages(value: float | None, text: str) -> None:
    """Near the ends there is a decimal."""
    assert report.share(value) == text


def test_times_are_short_and_never_fail() -> None:
    """Also times that no calendar has."""
    assert report.age(1000.0, 1000.0 + 37 * 60) == "37 min ago"
    assert report.age(1000.0 + 8000.0, 1000.0) == "in 2.2 h"
    assert report.age(math.inf, 0.0) == "never"
    assert report.iso(1e20).startswith("9999")


def test_links_escape_what_they_carry() -> None:
    """A URL with a query of its own is one parameter."""
    assert link("/page", url="http://x/?a=1&b=<2>", none=None) == "/page?url=http%3A%2F%2Fx%2F%3Fa%3D1%26b%3D%3C2%3E"


def _estimate(kappa: float) -> EstimateLine:
    by_source = dict.fromkeys(SOURCES, 0.0)
    return EstimateLine(
        0.0, 2.0, 100.0, None, 3, 1, by_source | {Source.FEED: kappa}, by_source, dict.fromkeys(SOURCES, 0)
    )


def test_a_copy_ages_as_the_database_says() -> None:
    """(1 + t/rate)^−shape · e^−Σκn; a page that is gone does not age, and a sure signal leaves nothing."""
    signal = SignalLine(Source.FEED, 10.0, None, stale=False)
    assert believed(_estimate(0.5), 50.0, []) == pytest.approx(1.5**-2)
    assert believed(_estimate(0.5), 50.0, [signal]) == pytest.approx(1.5**-2 * math.exp(-0.5))
    assert believed(_estimate(0.5), 50.0, [], gone=True) == 1.0
    assert believed(_estimate(math.inf), 50.0, [signal]) == 0.0


def test_slots_are_shown_as_rates_of_the_time_that_they_were_counted_in() -> None:
    """A tick half-way through the last column is a minute of slots: no rate is above what was sent."""
    lines = [SlotLine(60.0, "page", "ok", 60), SlotLine(120.0, "page", "ok", 30), SlotLine(120.0, "idle", "x", 30)]
    stretch = Stretch.of(0.0, 151.0, [90.0, 150.0])
    chart = slots_chart(lines, stretch)
    assert chart.names == ["pages", "idle"]
    heading, *rows = zip(*data_table(chart)[1], strict=True)
    assert [time.endswith("(not over)") for time in heading] == [False, True]
    assert rows == [("1/s", "30/min"), ("0/s", "30/min")]
    assert bucket(86400.0) == 1800.0


def test_a_pause_of_the_daemon_does_not_count_as_time_of_slots() -> None:
    """The first tick after an hour without a daemon counts a minute, as the others do."""
    lines = [SlotLine(at, "page", "ok", 180) for at in (0.0, 3600.0)]
    stretch = Stretch.of(0.0, 7200.0, [30.0, 90.0, 150.0, 3690.0, 3750.0])
    assert [column.values for column in _columns(slots_chart(lines, stretch))] == [[1.0], [1.5]]
    assert [column.unfinished for column in _columns(changes_chart({0.0: 1, 7140.0: 1}, stretch))] == [False, True]


def _columns(chart: Chart) -> Sequence[Column]:
    return chart.stack.columns


def test_a_host_without_robots_txt_is_open_and_its_trouble_is_told_beside_it() -> None:
    """The word of the gate is never shown in the colour of another trouble."""
    line = HostLine("a.example", 3, False, 0.0, 0.0, 0, None, None)
    row = host_row(line, {"a.example": "unavailable: timeout"}, 100.0)
    assert (row.gate, row.kind, row.robots_trouble, row.well) == ("open", "good", "unavailable: timeout", False)


def test_calibration_is_judged_once_there_is_enough() -> None:
    """Too few revisits are called that; the mean gap is in points."""
    few = [CalibrationLine(9, 0.9, 1.0, 20, 0.95, 0.9)]
    assert verdict(few).startswith("Too few revisits")
    many = [CalibrationLine(9, 0.9, 1.0, 1000, 0.95, 0.90), CalibrationLine(0, 0.0, 0.1, 0, 0.0, 0.0)]
    assert "5 % less fresh" in verdict(many)
    assert "5.0 points" in verdict(many)
    assert calibration_curve([]).empty


def test_what_stands_between_backquotes_is_code_and_stays_text() -> None:
    """Markup in a sentence is escaped within and around it."""
    context = {"sentence": "<b>run</b> `crawld <x>`", "hint": ""}
    shown = Renderer().html(View("message.html", "T", "", 0.0, context))
    assert "&lt;b&gt;run&lt;/b&gt; <code>crawld &lt;x&gt;</code>" in shown


def test_a_source_is_told_with_how_long_it_has_been_heard() -> None:
    """Heard for so long, and by what evidence; one that is not heard has no such time."""
    line = SourceLine("a", Source.FEED, 1, 1, 0, 0, None, None, heard=True, heard_since=1e9, why="9 of 12")
    assert worth(line, 1e9 + 7200.0) == (f"heard for {report.duration(7200.0)}: 9 of 12", "good")
    assert worth(replace(line, heard=False, heard_since=None), 1e9) == ("not heard: 9 of 12", "warn")


@pytest.mark.parametrize(
    ("heard", "said"),
    [([True, False], "yes"), ([False, False], "hardly"), ([None, False], "not known"), ([], "not known")],
)
def test_a_sitemap_is_worth_polling_where_some_of_its_signals_are_heard(heard: list[bool | None], said: str) -> None:
    """Signals of other hosts and kinds say nothing about it."""
    kinds = (Source.SITEMAP, Source.SITEMAP_BULK)
    lines = [SourceLine("a", kind, 1, 1, 0, 0, None, None, one) for kind, one in zip(kinds, heard, strict=False)]
    others = (("a", Source.FEED), ("b", Source.SITEMAP))
    lines += [SourceLine(host, kind, 1, 1, 0, 0, None, None, True) for host, kind in others]
    assert worth_polling(SourceFileLine("http://a/sitemap.xml", Source.SITEMAP, "a", 0.0), lines)[0].startswith(said)
