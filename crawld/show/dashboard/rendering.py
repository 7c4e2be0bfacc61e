"""Templates to HTML: everything is escaped but the charts, which escape themselves."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from crawld import __version__
from crawld.show.chart import Chart, data_table
from crawld.show.charts import draw, key
from crawld.show.dashboard import words
from crawld.show.style import DARK, LIGHT, RULES
from crawld.store.actions_of_interfaces import Action

VIEWS = (
    ("Overview", "/"),
    ("Pages", "/pages"),
    ("Search", "/search"),
    ("Changes", "/changes"),
    ("Hosts", "/hosts"),
    ("Forecast", "/forecast"),
    ("Calibration", "/calibration"),
    ("Log", "/actions"),
)
FILTERS = (
    "share", "count", "rate", "duration", "age", "date", "iso", "figure", "size", "split_url", "stamp", "words_of",
)  # fmt: skip
"""Of `words`, what templates use."""
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class View:
    """What a browser is shown: a template, which view it belongs to, and what the template needs."""

    template: str
    title: str
    here: str
    now: float
    context: Mapping[str, object] = field(default_factory=dict)
    status: int = 200
    notice: Action | None = None  # what was just done
    back: str = "/"  # the address of the view, where forms lead back to


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages link to, under a name that changes with its content."""

    path: str
    content_type: str
    body: bytes


def _assets() -> dict[str, Asset]:
    found = {}
    for name in ("dashboard.css", "dashboard.js", "icon.svg"):
        body = files("crawld.show.dashboard").joinpath("static", name).read_bytes()
        if name == "dashboard.css":  # charts bring their own rules; the browser is given one stylesheet
            charts = f":root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}{RULES}\n"
            body = charts.encode() + body
        digest = hashlib.sha256(body).hexdigest()[:12]
        stem, _, kind = name.rpartition(".")
        found[name] = Asset(f"/static/{stem}.{digest}.{kind}", TYPES[kind], body)
    return found


def _svg(chart: Chart, height: int = 250) -> Markup:
    return Markup(draw(chart, height=height))  # noqa: S704 - the charts escape what they are given


def _key(chart: Chart, at: int) -> Markup:
    return Markup(key(chart, at))  # noqa: S704 - made of numbers alone


def _marked(text: str) -> Markup:
    """Text in which what stands between backquotes is shown as code."""
    parts = text.split("`")
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


class Renderer:
    """Makes HTML of views; safe to be used in several threads."""

    def __init__(self) -> None:
        self.assets = _assets()
        self._templates = Environment(
            loader=PackageLoader("crawld.show.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        for name in FILTERS:
            self._templates.filters[name] = getattr(words, name)
        self._templates.filters |= {"svg": _svg, "table": data_table, "key": _key, "marked": _marked}
        self._templates.globals |= {
            "link": words.link,
            "static": lambda name: self.assets[name].path,
            "views": VIEWS,
            "version": __version__,
        }

    def html(self, view: View) -> str:
        """The whole page."""
        template = self._templates.get_template(view.template)
        given = {"title": view.title, "here": view.here, "now": view.now, "notice": view.notice, "back": view.back}
        return template.render(given | dict(view.context))
