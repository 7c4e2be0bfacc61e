"""Charts: what is drawn, where ticks are, and the table behind."""

import math
import xml.etree.ElementTree as ET

import pytest

from crawld.show.charts import (
    Axis,
    Chart,
    ChartPoint,
    Column,
    Event,
    Form,
    Lane,
    Line,
    Look,
    Spread,
    Stack,
    data_table,
    draw,
    draw_lines,
    saw_tooth,
    scale,
)

SVG = "{http://www.w3.org/2000/svg}"
NOON = 1_763_380_800.0  # 2025-11-17 12:00 UTC


def _parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


def _freshness(points: list[ChartPoint], **more: object) -> Chart:
    line = Line("predicted", points, spread=Spread.BAND)
    return Chart("Freshness", Axis("time", Form.TIME), Axis("fresh", Form.SHARE, 0.0, 1.0), [line], **more)  # type: ignore[arg-type]


def test_a_line_has_gaps_where_values_are_unknown() -> None:
    """Two stretches are two lines, and a band follows each."""
    points = [ChartPoint(NOON + i * 60, None if i == 3 else 0.5, 0.4, 0.6) for i in range(7)]
    root = _parsed(draw(_freshness(points)))
    assert len(root.findall(f".//{SVG}polyline")) == 2
    assert len(root.findall(f".//{SVG}polygon")) == 2


@pytest.mark.parametrize("count", [0, 1])
def test_a_chart_of_nothing_or_of_one_point_is_drawn(count: int) -> None:
    """There is something to see before there is a history."""
    chart = _freshness([ChartPoint(NOON, 0.5)] * count)
    root = _parsed(draw(chart))
    assert root.get("role") == "img"
    assert chart.empty is (count == 0)
    assert ("nothing to show" in (root.get("aria-label") or "")) is (count == 0)
    assert len(root.findall(f".//{SVG}circle")) == count


def test_times_are_labelled_as_people_read_them() -> None:
    """Ticks stand at round times; midnight shows its date, days show days."""
    axis = Axis("time", Form.TIME)
    day = [text for _, text in scale(axis, [NOON, NOON + 86400], 0, 1).ticks()]
    assert "18 Nov" in day
    assert "18:00" in day
    month = [text for _, text in scale(axis, [NOON, NOON + 30 * 86400], 0, 1).ticks()]
    assert all(" " in text and ":" not in text for text in month)
    minute = [text for _, text in scale(axis, [NOON, NOON + 60], 0, 1).ticks()]
    assert "12:00:30" in minute


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("span", [1e-6, 0.03, 1.0, 90.0, 5e4, 4e8])
def test_every_axis_has_a_few_ticks_within_its_ends(form: Form, span: float) -> None:
    """Neither none nor a crowd, whatever is shown; each is somewhere else."""
    found = scale(Axis("", form), [1e5, 1e5 + span], 0.0, 100.0).ticks()
    assert 1 <= len(found) <= 14
    assert all(1e5 * (1 - 1e-9) <= value <= (1e5 + span) * (1 + 1e-9) for value, _ in found)


def test_shares_are_written_with_as_many_digits_as_ticks_need() -> None:
    """A narrow axis does not repeat one percentage at every tick."""
    texts = [text for _, text in scale(Axis("", Form.SHARE), [0.842, 0.846], 0, 1).ticks()]
    assert len(set(texts)) == len(texts)


def test_a_logarithmic_axis_goes_by_ratios() -> None:
    """Equal ratios are equally far apart, and ticks are round."""
    axis = scale(Axis("", Form.RATE, logarithmic=True), [0.25, 4.0], 0.0, 100.0)
    assert axis.place(1.0) == pytest.approx(50.0)
    assert [value for value, _ in axis.ticks()] == pytest.approx([0.5, 1.0, 2.0])


def test_bars_stack_without_holes() -> None:
    """Each value stands on the one before it, and zero takes no room."""
    stack = Stack(("pages", "robots", "idle"), [Column(0, 60, (3.0, 0.0, 1.0)), Column(60, 120, (1.0, 1.0, 1.0))])
    root = _parsed(draw(Chart("Slots", Axis("time"), Axis("slots"), stack=stack)))
    bars = [rect for rect in root.findall(f".//{SVG}rect") if "bar" in (rect.get("class") or "")]
    assert len(bars) == 5
    first, second = bars[0], bars[1]
    top_of_first, foot_of_second = (
        float(first.get("y", "nan")),
        float(second.get("y", "nan")) + float(second.get("height", "nan")),
    )
    assert foot_of_second == pytest.approx(top_of_first, abs=0.11)


def test_a_saw_tooth_jumps_at_each_reset() -> None:
    """It falls along its course and is whole again at the next reset."""
    points = saw_tooth([0.0, 10.0], 15.0, lambda start, at: math.exp(start - at))
    at_reset = [point.y for point in points if point.x == 10.0]
    assert at_reset == pytest.approx([math.exp(-10.0), 1.0])
    assert points[-1].x == 15.0


def test_names_of_others_stay_text() -> None:
    """Markup and control characters in a name neither end the drawing nor become part of it."""
    evil = "<script>alert(1)</script>\x00\x1b\"'&"
    lane = Lane("crawls", [Event(1.0, evil, strong=True)])
    for standalone in (True, False):
        chart = Chart(evil, Axis(evil), Axis(evil), [Line(evil, [ChartPoint(0, 1), ChartPoint(1, 2)])], lanes=[lane])
        root = _parsed(draw(chart, standalone=standalone))
        assert not root.findall(f".//{SVG}script")
        assert "<script>" in (root.get("aria-label") or "")


def test_only_a_file_of_its_own_brings_style() -> None:
    """Within a page nothing is inline: its stylesheet has the colours."""
    chart = _freshness([ChartPoint(NOON, 0.5), ChartPoint(NOON + 60, 0.6)])
    assert "<style" in draw(chart, standalone=True)
    part = draw(chart)
    assert "<style" not in part
    assert "style=" not in part


def test_the_table_behind_has_the_figures_with_their_intervals() -> None:
    """Every x is a row; of many, evenly spaced ones and always the last."""
    points = [ChartPoint(NOON + 60 * i, 0.5 + i / 1000, 0.4, 0.6) for i in range(500)]
    heading, rows = data_table(_freshness(points))
    assert heading == ["time", "predicted"]
    assert len(rows) <= 40
    assert rows[-1] == ["2025-11-17 20:19:00", "100 % (40 % to 60 %)"]


def test_lines_to_compare_with_take_no_colour() -> None:
    """A quiet line is grey and leaves the first colour to the next one."""
    diagonal = Line("exact", [ChartPoint(0, 0), ChartPoint(1, 1)], Look.QUIET)
    seen = Line("seen", [ChartPoint(0, 0.1), ChartPoint(1, 0.9)])
    text = draw(Chart("Calibration", Axis(), Axis(), [diagonal, seen]))
    assert 'class="line quiet"' in text
    assert 'class="line s1"' in text


def test_more_lines_than_colours_are_told_apart() -> None:
    """Colours come again dashed."""
    text = draw_lines("many", "x", "y", {str(i): [ChartPoint(0, i), ChartPoint(1, i)] for i in range(10)})
    assert text.count('class="line s1"') == 2  # the line and its place in the legend
    assert text.count('class="line s1 dashed"') == 2
