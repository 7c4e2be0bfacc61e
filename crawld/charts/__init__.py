"""Charts as SVG, for everyone who draws one: the simulator, the demo, the dashboard.

A `Chart` (chart.py) says what is shown; `draw` (svg.py) gives the SVG, alone in a file or within a page; `data_table`
(chart.py) gives the same figures as a table for whoever cannot see it. Colours are CSS variables (style.py), so that
one stylesheet decides them for light and dark.
"""

from crawld.charts.axis import Axis, Form
from crawld.charts.chart import Chart, Column, Event, Lane, Line, Look, Point, Spread, Stack, data_table
from crawld.charts.saw_tooth import saw_tooth
from crawld.charts.svg import draw, draw_lines, key

__all__ = [
    "Axis",
    "Chart",
    "Column",
    "Event",
    "Form",
    "Lane",
    "Line",
    "Look",
    "Point",
    "Spread",
    "Stack",
    "data_table",
    "draw",
    "draw_lines",
    "key",
    "saw_tooth",
]
