"""One page: its timeline, what is believed of it and why, and whether it is next."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from crawld.dashboard.rendering import View
from crawld.dashboard.sources import Sources
from crawld.dashboard.timeline import kappa_of, timeline
from crawld.dashboard.words import age, duration, figure, share, words_of
from crawld.interfaces.read_model import EstimateLine, PageView
from crawld.model.change_rate import format_rate_of_change
from crawld.model.page import BY_HAND, FROM_LIST, Mark
from crawld.model.signal import SOURCES
from crawld.model.units import many
from crawld.model.url import identity, normalise_given

PATH = "/page"
CRAWLS_SHOWN = 20
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
        "crawls": view.crawls[:CRAWLS_SHOWN],
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
    """What of the page counts as a change, by the rule of the settings that fits it."""
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


def _why(view: PageView, held: Mapping[str, Any] | None) -> list[str]:
    """Why the page is not crawled now, or that it is next."""
    if held is not None:
        return [str(reason["sentence"]) for reason in held["reasons"]]
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
        uses = [f"{use}: {page.usage[use] or 'open'}" for use in ("search", "ai-input", "ai-train")]
        uses += [name for name in ("noarchive", "nosnippet") if page.usage[name]]
        yield "May be used", ", ".join(uses)
        yield "As said in", "; ".join(f"{one['where']}: {one['text']}" for one in page.usage["said"])
    if view.linked_from.depth is not None:
        others = view.linked_from.count - len(view.linked_from.sources)
        named = [*view.linked_from.sources, *([f"{others} others"] if others > 0 else [])]
        yield "Linked from", ", ".join(named) or "no page"
    if view.successive_failures:
        yield "Failing", f"{many(view.successive_failures, 'attempt')} in a row"


def _beliefs(estimate: EstimateLine | None) -> Iterator[Fact]:
    """What is believed of how the page changes, and the evidence."""
    if estimate is None:
        yield "Changes", "not known yet: it takes two crawls to see a difference"
        return
    alpha = estimate.shape / estimate.rate
    precision = {source: -math.expm1(-kappa_of(estimate, source)) for source in SOURCES}
    true = {source: estimate.gamma[source] * precision[source] for source in SOURCES}
    total = alpha + math.fsum(true.values())
    known = {"shape": estimate.shape, "rate": estimate.rate, "evidence": estimate.crawls}
    yield "Changes", format_rate_of_change({"change_rate": total} | known)
    yield "Unannounced", format_rate_of_change({"change_rate": alpha} | known)
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


def _worth(held: Mapping[str, Any] | None, now: float) -> Iterator[Fact]:
    """What a request to the page is worth now, against the others."""
    if held is None:
        return
    yield "Fresh now", share(held["freshness"])
    yield "Crawl value", f"{figure(held['value'])} against a level of {figure(held['level'])}"
    expected = held["expected_in_seconds"]
    yield "Next crawl", "nobody can say" if expected is None else f"expected {age(now + expected, now)}"
    if held["host_ready_in_seconds"]:
        yield "Host", f"may be asked in {duration(held['host_ready_in_seconds'])}"
