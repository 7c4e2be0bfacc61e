"""One page: its timeline, what is believed of it and why, and whether it is next."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.estimate import format_rate_of_change
from crawld.model.page import BY_HAND, FROM_LIST, Mark
from crawld.model.signal import SOURCES, Source
from crawld.model.units import many
from crawld.model.url import identity, normalise_given
from crawld.show.charts import Axis, Chart, ChartPoint, Event, Form, Lane, Line, Look, saw_tooth
from crawld.show.dashboard.rendering import Sources, View, words_of
from crawld.show.report import Explanation, age, duration, figure, linkers_in_words, share, uses_in_words
from crawld.store.views import CrawlLine, EstimateLine, PageView, SignalLine


def timeline(view: PageView, now: float) -> Chart:
    """The chart; where nothing is believed yet, the events alone."""
    crawls = sorted(view.crawls, key=lambda crawl: crawl.at)[-30:]  # teeth that can be told apart
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
        # Of the time shown no more than so much lies ahead.
        ahead = min(expected, now + 0.35 * max(now - times[0], 1.0))
        steps = [now + (ahead - now) * step / 12 for step in range(13)]
        lines.append(Line("until the next crawl", [ChartPoint(at, course(times[-1], at)) for at in steps], Look.QUIET))
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


PATH = "/page"
Fact = tuple[str, str]


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """Everything known of the page that `?url=` names."""
    now, url = sources.now(), normalise_given(query.get("url", ""))
    view = await sources.reading.page(url)
    if view is None:
        unknown = {
            "sentence": f"{url} is not on the list.",
            "hint": "Add it under Pages, or with `crawld urls add URL`.",
        }
        return View("message.html", "Unknown page", "/pages", now, unknown, status=404)
    held = await sources.control.explain(view.page.id)
    rule, marks = sources.control.rule_of(url), await sources.control.marks()
    hosts = await sources.reading.hosts(search=view.page.host, limit=100)
    context = {
        "view": view,
        "page": view.page,
        "chart": timeline(view, now),
        "why": _why(view, held),
        "facts": list(_facts(view, now)),
        "beliefs": list(_beliefs(view.estimate)),
        "worth": list(_worth(held, now)),
        "crawls": view.crawls[:20],
        "versions": view.versions,
        "retired": view.retired_at is not None,
        "named_by": None if view.origin == BY_HAND else "The URL list" if view.origin == FROM_LIST else "Its site",
        "host_paused": any(line.blocked for line in hosts if line.host == view.page.host),
        "rule": rule,
        "compared": list(_compared(rule)),
        "marks": [mark for mark in marks if _concerns(mark, view.page.url, view.page.host)],
    }
    return View("page.html", view.page.url, "/pages", now, context)


def _concerns(mark: Mark, url: str, host: str) -> bool:
    return mark.host == host if mark.url is None else identity(mark.url) == identity(url)


def _compared(rule: Mapping[str, Any]) -> Iterator[Fact]:
    """Yields what of the page counts as a change, by the rule of the settings that fits it."""
    modes = {"main": "the main text", "text": "all of the visible text", "raw": "every byte"}
    yield "Compared", modes[rule["mode"]]
    yield "By the rule", "the usual one" if rule["pattern"] == "*" else f"{rule['pattern']} of the settings"
    if rule["only"]:
        yield "Only", rule["only"]
    for name, key in (("Ignored", "ignore"), ("Ignored text", "ignore_text")):
        if rule[key]:
            yield name, ", ".join(rule[key])
    if rule["min_change"]:
        yield "At least", f"{share(rule['min_change'])} of it must differ"


def _why(view: PageView, held: Explanation | None) -> list[str]:
    """Returns why the page is not crawled now, or that it is next."""
    if held is not None:
        return [reason.sentence for reason in held.reasons]
    return ["it was taken off the list" if view.retired_at is not None else "the daemon has not loaded it yet"]


def _facts(view: PageView, now: float) -> Iterator[Fact]:
    page = view.page
    yield "State", page.state.value + ("" if page.gone_since is None else f" since {age(page.gone_since, now)}")
    yield "Importance", figure(page.importance)
    yield "On the list since", f"{age(page.added_at, now)}, from {view.origin}"
    counted = ((page.crawls, "crawl"), (page.changes, "change"), (page.failures, "failure"))
    yield "History", ", ".join(many(number, what) for number, what in counted)
    yield "Last crawl", age(page.last_crawl_at, now)
    yield "Last change", age(page.last_change_at, now)
    if page.usage is not None:
        yield "May be used", uses_in_words(page.usage)
        yield "As said in", "; ".join(f"{one['where']}: {one['text']}" for one in page.usage["said"])
    if view.linked_from.depth is not None:
        yield "Linked from", linkers_in_words(view.linked_from)
    if view.successive_failures:
        yield "Failing", f"{many(view.successive_failures, 'attempt')} in a row"


def _beliefs(estimate: EstimateLine | None) -> Iterator[Fact]:
    """Yields what is believed of how the page changes, and the evidence."""
    if estimate is None:
        yield "Changes", "not known yet: it takes two crawls to see a difference"
        return
    alpha = estimate.shape / estimate.rate
    precision = {source: -math.expm1(-kappa_of(estimate, source)) for source in SOURCES}
    true = {source: estimate.gamma[source] * precision[source] for source in SOURCES}
    total = alpha + math.fsum(true.values())
    posterior = (estimate.shape, estimate.rate, estimate.crawls)
    yield "Changes", format_rate_of_change(total, *posterior)
    yield "Unannounced", format_rate_of_change(alpha, *posterior)
    for source in SOURCES:
        if estimate.signals[source]:
            recall = true[source] / total if total > 0 else 0.0
            seen = many(estimate.signals[source], "signal")
            yield (
                words_of(source).capitalize(),
                f"{seen}; {share(precision[source])} true, told of {share(recall)} of changes before a crawl did",
            )
    seen = f"{many(estimate.crawls, 'revisit')}, {estimate.changes} of which found a change"
    yield "Evidence", f"{seen}, and what the other pages of the host do"


def _worth(held: Explanation | None, now: float) -> Iterator[Fact]:
    """Yields what a request to the page is worth now, against the others."""
    if held is None:
        return
    yield "Fresh now", share(held.freshness)
    yield "Crawl value", f"{figure(held.value)} against a level of {figure(held.level)}"
    expected = held.expected_in_seconds
    yield "Next crawl", "not known" if expected is None else f"expected {age(now + expected, now)}"
    if held.host_ready_in_seconds:
        yield "Host", f"may be asked in {duration(held.host_ready_in_seconds)}"
