"""Templates to HTML: everything is escaped but the charts, which escape themselves."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from crawld import __version__
from crawld.model.errors import CrawldError
from crawld.model.signal import Source
from crawld.pages.documents import StoredTexts
from crawld.show import report
from crawld.show.actions import Control
from crawld.show.charts import STYLESHEET, Chart, data_table, draw, key
from crawld.show.report import ForecastPoint, ForecastReport
from crawld.store.read_model import SqlReadModel
from crawld.store.settings import Action

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
FIGURES = ("share", "count", "rate", "duration", "age", "date", "iso", "figure", "size", "stamp")
"""Functions of `report` that templates write figures with."""
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class View:
    """A page for a browser: a template, which view it belongs to, and what the template needs."""

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
            body = STYLESHEET.encode() + b"\n" + body
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
        self._templates.filters |= {name: getattr(report, name) for name in FIGURES}
        self._templates.filters |= {"split_url": _split_url, "words_of": words_of}
        self._templates.filters |= {"svg": _svg, "table": data_table, "key": _key, "marked": _marked}
        self._templates.globals |= {
            "link": link,
            "static": lambda name: self.assets[name].path,
            "views": VIEWS,
            "version": __version__,
        }

    def html(self, view: View) -> str:
        """The whole page."""
        template = self._templates.get_template(view.template)
        given = {"title": view.title, "here": view.here, "now": view.now, "notice": view.notice, "back": view.back}
        return template.render(given | dict(view.context))


Question = tuple[float, ...]


class CachedForecasts:
    """Asks the daemon for forecasts, each question once a minute."""

    def __init__(self, control: Control, now: Callable[[], float]) -> None:
        self._control, self._now = control, now
        self._asked: dict[Question, tuple[float, asyncio.Task[ForecastReport]]] = {}
        self._last: ForecastPoint | None = None

    async def of(self, rates: Sequence[float]) -> ForecastReport:
        """Returns what the rate set and these rates buy; InputError where the policy has no forecast."""
        return await asyncio.shield(self._task(tuple(rates)))

    async def latest(self, bandwidth: float) -> ForecastPoint | None:
        """Returns what is expected at the rate set, as far as it is known already."""
        task = self._task((bandwidth,))
        if self._last is None:
            await asyncio.wait((task,), timeout=0.1)  # a view that only mentions a forecast goes without it then
        if task.done():
            self._last = _expected(task)
        return self._last

    def _task(self, question: Question) -> "asyncio.Task[ForecastReport]":
        """The answer to a question, under way or given; the oldest are forgotten."""
        at, task = self._asked.get(question, (float("-inf"), None))
        # Estimates move slowly, and a forecast of many pages takes seconds.
        if task is None or (task.done() and not 0 <= self._now() - at <= 60.0):
            self._asked.pop(question, None)
            task = asyncio.create_task(self._ask(question))
            self._asked[question] = self._now(), task
            for old in list(self._asked)[:-8]:
                del self._asked[old]
        return task

    async def _ask(self, question: Question) -> ForecastReport:
        return await self._control.forecast(list(question))


def _expected(task: "asyncio.Task[ForecastReport]") -> ForecastPoint | None:
    try:
        return task.result().expected
    except (CrawldError, asyncio.CancelledError):
        return None  # this policy has no forecast, or the daemon ends


class Sources:
    """The daemon, what it has committed, the texts of copies, the time, and what opens the feed of changes."""

    def __init__(
        self, control: Control, reading: SqlReadModel, texts: StoredTexts, now: Callable[[], float], feed_key: str = ""
    ) -> None:
        self.control, self.reading, self.texts, self.now, self.feed_key = control, reading, texts, now, feed_key
        self.forecasts = CachedForecasts(control, now)


def _split_url(url: str) -> tuple[str, str]:
    """The scheme and host of a URL, which repeat in a list, and the rest, which tells pages apart."""
    start = url.find("/", url.find("://") + 3)
    return (url, "/") if start < 0 else (url[:start], url[start:])


def words_of(source: Source) -> str:
    """A source as people call it."""
    return {Source.SITEMAP_FEW: "sitemap, a few at once", Source.SITEMAP_BULK: "sitemap, in bulk"}.get(
        source, source.value
    )


def link(path: str, **query: object) -> str:
    """A path with its query; what is None or empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given)}" if given else path
