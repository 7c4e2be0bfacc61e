"""The stylesheet of charts: every colour is a variable with a value for light and one for dark."""

LIGHT = (
    "--chart-paper:#fff;--chart-ink:#1d2733;--chart-soft:#5a6675;--chart-grid:#e3e7ec;"
    "--series-1:#1f6fb2;--series-2:#c2410c;--series-3:#2b7a4b;--series-4:#7c4dbd;--series-5:#a16207;"
    "--series-6:#0f7c86;--series-7:#be185d;--series-8:#57606d"
)
DARK = (
    "--chart-paper:#11161d;--chart-ink:#e6ebf1;--chart-soft:#9aa7b5;--chart-grid:#2a333e;"
    "--series-1:#62aef0;--series-2:#f08b5c;--series-3:#64c38a;--series-4:#b596f0;--series-5:#d9ac45;"
    "--series-6:#4fc1cc;--series-7:#f07fb1;--series-8:#9aa7b5"
)
COLOURS = 8
_SERIES = "".join(
    f".line.s{n}{{stroke:var(--series-{n})}}.mark.s{n},.band.s{n},.bar.s{n}{{fill:var(--series-{n})}}"
    for n in range(1, COLOURS + 1)
)
RULES = (
    ".chart text{font:12px system-ui,sans-serif;fill:var(--chart-soft)}.chart .title{font-size:15px;font-weight:600;"
    "fill:var(--chart-ink)}.chart .paper{fill:var(--chart-paper)}.chart line,.chart polyline,.key line"
    "{vector-effect:non-scaling-stroke}.chart .grid{stroke:var(--chart-grid)}.line{fill:none;stroke-width:2;"
    "stroke-linejoin:round}.error{stroke-width:1}.dashed{stroke-dasharray:5 4}.band{opacity:.16}.bar{opacity:.85}"
    ".line.quiet{stroke:var(--chart-soft);stroke-width:1.5;stroke-dasharray:2 4}.bar.quiet{fill:var(--chart-grid)}"
    ".bar.unfinished{opacity:.35;stroke:var(--chart-soft);stroke-dasharray:2 2}"
    ".marker{stroke:var(--chart-soft);stroke-dasharray:3 3}.event{stroke:var(--chart-soft);stroke-width:1.5;"
    "opacity:.7}.event.strong{stroke:var(--series-2);stroke-width:2.5;opacity:1}"
) + _SERIES
STANDALONE = f":root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}{RULES}"
"""What a file of its own needs."""
