"""One page over time: its crawls, changes and signals, and how fresh its copy was by what is believed now."""

import math
from collections.abc import Iterable, Sequence

from crawld.charts import Axis, Chart, Event, Form, Lane, Line, Look, Point, saw_tooth
from crawld.dashboard.words import age, share, words_of
from crawld.interfaces.read_model import CrawlLine, EstimateLine, PageView, SignalLine
from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.signal import Source

MOST_CRAWLS = 30
"""Teeth that can be told apart."""
MOST_AHEAD = 0.35
"""Share of the time shown that may lie ahead, up to the next crawl."""


def timeline(view: PageView, now: float) -> Chart:
    """The chart; where nothing is believed yet, the events alone."""
    crawls = sorted(view.crawls, key=lambda crawl: crawl.at)[-MOST_CRAWLS:]
    since = crawls[0].at if crawls else 0.0
    signals = [signal for signal in view.signals if not signal.stale and signal.seen_at >= since]
    changes = [change for change in view.changes if change.at >= since and change.verdict is not ChangeVerdict.NEW]
    lines = [] if view.estimate is None else _saw_teeth(view, view.estimate, crawls, signals, now)
    lanes = [
        Lane("crawls", [Event(crawl.at, _crawl(crawl, now), crawl.verdict is Verdict.FAILED) for crawl in crawls]),
        Lane("changes", [Event(c.at, f"{c.verdict.value}, {age(c.at, now)}", strong=True) for c in changes]),
        Lane("signals", [Event(s.seen_at, f"{words_of(s.source)}, {age(s.seen_at, now)}") for s in signals]),
    ]
    title = "Freshness of the copy, as predicted now"
    y = Axis("fresh", Form.SHARE, 0.0, 1.0)
    return Chart(title, Axis("time", Form.TIME), y, lines, lanes=lanes, marker=(now, "now") if crawls else None)


def _saw_teeth(
    view: PageView, estimate: EstimateLine, crawls: Sequence[CrawlLine], signals: Sequence[SignalLine], now: float
) -> list[Line]:
    seen = [crawl for crawl in crawls if crawl.verdict is not Verdict.FAILED]
    if not seen:
        return []
    gone = {crawl.at for crawl in seen if crawl.verdict is Verdict.GONE}

    def course(start: float, at: float) -> float:
        return believed(estimate, at - start, signals_between(signals, start, at), gone=start in gone)

    times = [crawl.at for crawl in seen]
    lines = [Line("predicted", saw_tooth(times, now, course, [signal.seen_at for signal in signals]))]
    expected = view.page.next_crawl_at
    if expected is not None and expected > now:
        ahead = min(expected, now + MOST_AHEAD * max(now - times[0], 1.0))
        steps = [now + (ahead - now) * step / 12 for step in range(13)]
        lines.append(Line("until the next crawl", [Point(at, course(times[-1], at)) for at in steps], Look.QUIET))
    return lines


def believed(estimate: EstimateLine, seconds: float, signals: Iterable[SignalLine], *, gone: bool = False) -> float:
    """The probability that a copy so old is current, after these signals (docs/database.md, "Freshness")."""
    doubt = sum(kappa_of(estimate, signal.source) for signal in signals)
    unannounced = 0.0 if gone else estimate.shape * math.log1p(seconds / estimate.rate)
    return math.exp(-unannounced - doubt)


def kappa_of(estimate: EstimateLine, source: Source) -> float:
    """The log-staleness that a signal of the source adds: infinite where it is sure."""
    kappa = estimate.kappa.get(source, 0.0)
    return math.inf if kappa is None else kappa


def signals_between(signals: Sequence[SignalLine], start: float, end: float) -> list[SignalLine]:
    """The signals that were seen after one time and up to another."""
    return [signal for signal in signals if start < signal.seen_at <= end]


def _crawl(crawl: CrawlLine, now: float) -> str:
    predicted = "" if crawl.predicted is None else f", predicted {share(crawl.predicted)} fresh"
    trouble = f" ({crawl.trouble})" if crawl.trouble else ""
    return f"{crawl.verdict.value}{trouble}, {age(crawl.at, now)}{predicted}"
