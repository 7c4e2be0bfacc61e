"""What the dashboard says: figures, the headline, a page's saw-tooth, what slots were spent on."""

import math

import pytest

from crawld.charts import data_table
from crawld.dashboard import words
from crawld.dashboard.calibration import curve, verdict
from crawld.dashboard.forecasts import Expected
from crawld.dashboard.headline import headline
from crawld.dashboard.hosts import worth_polling
from crawld.dashboard.rendering import Renderer, View
from crawld.dashboard.slot_uses import Stretch, bucket, slots_chart
from crawld.dashboard.timeline import believed
from crawld.interfaces.read_model import (
    CalibrationLine,
    EstimateLine,
    Overview,
    SignalLine,
    SlotLine,
    SourceFileLine,
    SourceLine,
)
from crawld.model.page import PageState
from crawld.model.signal import SOURCES, Source


def _overview(**states: int) -> Overview:
    counted = {state: states.get(state.value, 0) for state in PageState}
    return Overview(counted, hosts=1, latest=None, last_change=0, last_crawl_at=None, database_bytes=0)


@pytest.mark.parametrize(
    ("states", "fresh", "expected", "said"),
    [
        ({}, None, None, "There are no pages yet."),
        ({"waiting": 3}, 0.0, None, "Nothing is fetched yet."),
        ({"waiting": 600, "live": 400}, 0.3, None, "400 of 1,000 pages are fetched."),
        ({"live": 10}, 0.868, Expected(0.88, 0.79), "87 % of what you care about is current; round robin would hold"),
        ({"live": 10}, 0.7, Expected(0.88, 0.79), "70 % of what you care about is current."),
        ({"live": 10}, 0.7, None, "70 % of what you care about is current."),
    ],
)
def test_the_headline_says_how_fresh_the_copy_is(
    states: dict[str, int], fresh: float | None, expected: Expected | None, said: str
) -> None:
    """It claims a lead over round robin only where there is one."""
    assert headline(fresh, _overview(**states), expected)[0].startswith(said)


@pytest.mark.parametrize(
    ("value", "text"), [(0.868, "87 %"), (0.996, "99.6 %"), (1.0, "100 %"), (0.0, "0 %"), (0.004, "0.4 %"), (None, "–")]
)
def test_shares_do_not_hide_the_last_stale_pages(value: float | None, text: str) -> None:
    """Near the ends there is a decimal."""
    assert words.share(value) == text


def test_times_are_short_and_never_fail() -> None:
    """Also times that no calendar has."""
    assert words.age(1000.0, 1000.0 + 37 * 60) == "37 min ago"
    assert words.age(1000.0 + 8000.0, 1000.0) == "in 2.2 h"
    assert words.age(math.inf, 0.0) == "never"
    assert words.iso(1e20).startswith("9999")


def test_links_escape_what_they_carry() -> None:
    """A URL with a query of its own is one parameter."""
    assert (
        words.link("/page", url="http://x/?a=1&b=<2>", none=None) == "/page?url=http%3A%2F%2Fx%2F%3Fa%3D1%26b%3D%3C2%3E"
    )


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


def test_slots_are_shown_as_rates_of_the_time_that_is_over() -> None:
    """The last column is cut off at now: what came in half of it is not halved."""
    lines = [SlotLine(0.0, "page", "ok", 60), SlotLine(60.0, "page", "ok", 30), SlotLine(60.0, "idle", "host_busy", 30)]
    chart = slots_chart(lines, Stretch(0.0, 90.0, 60.0))
    assert chart.names == ["pages", "idle"]
    assert [row[1:] for row in data_table(chart)[1]] == [["1/s", "0/s"], ["1/s", "1/s"]]
    assert bucket(86400.0) == 1800.0


def test_calibration_is_judged_once_there_is_enough() -> None:
    """Too few revisits are called that; the mean gap is in points."""
    few = [CalibrationLine(9, 0.9, 1.0, 20, 0.95, 0.9)]
    assert verdict(few).startswith("Too few revisits")
    many = [CalibrationLine(9, 0.9, 1.0, 1000, 0.95, 0.90), CalibrationLine(0, 0.0, 0.1, 0, 0.0, 0.0)]
    assert "5 % less fresh" in verdict(many)
    assert "5.0 points" in verdict(many)
    assert curve([]).empty


def test_what_stands_between_backquotes_is_code_and_stays_text() -> None:
    """Markup in a sentence is escaped within and around it."""
    context = {"sentence": "<b>run</b> `crawld <x>`", "hint": ""}
    shown = Renderer().html(View("message.html", "T", "", 0.0, context))
    assert "&lt;b&gt;run&lt;/b&gt; <code>crawld &lt;x&gt;</code>" in shown


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
