"""`crawld explain`: what is believed of a page, from what evidence, and why it is not crawled just now."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from crawld.cli.compared import compared_figures, compared_sentence
from crawld.cli.remote import AS_JSON, Answer, CommandTarget, targeted
from crawld.cli.tables import duration, figure, moment, number, print_lines, print_rows, weight, word
from crawld.model.errors import CrawldError
from crawld.model.estimate import format_rate_of_change
from crawld.model.page import PageState
from crawld.model.units import format_duration, format_moment, many
from crawld.model.url import normalise_given
from crawld.model.why import Reason, ToldReason, Why, most_decisive_first, stored_reasons
from crawld.show.report import Explanation, linkers_in_words, uses_in_words
from crawld.store.views import Linked, PageFacts, PastCrawl, StoredEstimate

TROUBLED = frozenset({Why.FAILING, Why.HOST_BACKOFF, Why.HOST_ASKED_TO_WAIT})
"""Reasons that the trouble of the last attempt explains."""


def unknown_page(url: str) -> CrawldError:
    """Says that nothing is known of a page, and what to do about it."""
    return CrawldError(f"{url} is not known here. `crawld urls list` shows what is, `crawld urls add` adds it.")


@dataclass(frozen=True, slots=True)
class ExplainedFacts:
    """A page with why it is not crawled just now, the most decisive reason first."""

    page: PageFacts
    said: dict[str, Any] | None  # by the daemon
    reasons: Sequence[ToldReason]
    trouble: str | None  # of the last attempt
    compared: dict[str, Any] | None = None  # what of the copy is compared, in figures

    @property
    def held(self) -> Explanation | None:
        """The daemon's explanation of the page."""
        return None if self.said is None else Explanation.of(self.said)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self.page) | {
            "now": self.said,
            "reason": self.reasons[0].reason,
            "why_not_now": self.reasons[0].sentence,
            "reasons": [asdict(one) for one in self.reasons],
            "trouble": self.trouble,
            "compared": self.compared,
        }


def explain_facts(page: PageFacts, answer: Answer, now: float) -> ExplainedFacts:
    """Tells why a page is not crawled, by what the daemon says or, without it, the database."""
    trouble = last_trouble(page.last_crawls, now)
    if answer.said is None:
        given = [reason.told(now) for reason in most_decisive_first(_from_database(page, answer, now))]
    else:
        given = list(Explanation.of(answer.said).reasons)
    found = [replace(one, sentence=one.sentence + _evidence(page, one.reason, trouble, now)) for one in given]
    return ExplainedFacts(page, answer.said, found, trouble)


def _from_database(page: PageFacts, answer: Answer, now: float) -> Iterator[Reason]:
    """Yields what can be told without the daemon; there is always a reason."""
    if page.state == PageState.RETIRED.value:
        at = page.retired_at
        yield Reason(Why.RETIRED, detail="" if at is None else f" at {format_moment(at, now)}")
    if answer.state == "not_running":
        yield Reason(Why.NOT_RUNNING)
    elif answer.state == "not_answering":
        yield Reason(Why.NOT_ANSWERING, detail="" if answer.pid is None else f" (pid {answer.pid})")
    elif page.state != PageState.RETIRED.value:
        yield Reason(Why.NOT_LOADED)
    host = page.host_in_trouble
    yield from stored_reasons(
        PageState(page.state),
        now,
        blocked=host.blocked,
        asked_until=host.asked_until,
        blocked_until=host.blocked_until,
    )


def last_trouble(crawls: Sequence[PastCrawl], now: float) -> str | None:
    """Returns how the last attempt went wrong, None where it did not."""
    latest = crawls[0] if crawls else None
    if latest is None or latest.trouble is None:
        return None
    kind, detail = latest.trouble, latest.detail or ""
    said = detail if detail.startswith(kind) else f"{kind}: {detail}" if detail else kind
    return f"{said}, {format_moment(latest.at, now)}"


def _evidence(page: PageFacts, why: Why, trouble: str | None, now: float) -> str:
    """Returns what the database adds to a reason."""
    since = page.gone_since or page.last_change_at
    if why is Why.GONE and since is not None:
        return f"; gone since {format_moment(since, now)}"
    if why is Why.ALIAS and page.alias_why is not None:
        return f": {page.alias_why}"
    return f" (last trouble: {trouble})" if why in TROUBLED and trouble is not None else ""


CRAWLS = (
    moment("at", 90),
    word("verdict", 100),
    word("trouble", 95),
    number("status", 80),
    duration("tau", 70, "since last"),
    number("predicted", 60),
    number("magnitude", 50),
    number("bytes", 40),
    duration("duration", 30, "took"),
)
SIGNALS = (word("source", 100), moment("seen_at", 90), moment("claimed_at", 80), word("stale", 70))


@click.command()
@click.argument("url")
@targeted
@AS_JSON
def command(url: str, target: CommandTarget, as_json: bool) -> None:
    """Say what is believed of a page and from what evidence, and why it is not crawled just now.

    Works on a stopped daemon's database too; what only a running one knows is then left out. With --json, `reason` is
    one word for programs and `why_not_now` the sentence.
    """
    wanted = normalise_given(url)
    page = target.read(lambda reader: reader.page(wanted))
    if page is None:
        raise unknown_page(wanted)
    answer = target.look(f"/explain?id={page.id}")
    copy = target.read(lambda reader: reader.copy(wanted))
    figures = compared_figures(copy, target)
    found = replace(explain_facts(page, answer, time.time()), compared=figures)
    if as_json:
        click.echo(json.dumps(found.document(), indent=2, default=str))
    else:
        print_explanation(found)


def print_explanation(found: ExplainedFacts) -> None:
    """Print the sentences and the tables."""
    print_lines(_lines(found, time.time()))
    print_rows("Last crawls", found.page.last_crawls, CRAWLS)
    if found.page.last_signals:
        print_rows("Last signals", found.page.last_signals, SIGNALS)


def _lines(explained: ExplainedFacts, now: float) -> list[tuple[str, str]]:
    page, estimate, held = explained.page, explained.page.estimate, explained.held
    posterior = (None, None, None) if estimate is None else (estimate.shape, estimate.rate, estimate.crawls)
    why, *further = explained.reasons
    counts = ((page.crawls, "crawl"), (page.changes, "change"), (page.failures, "failure"), (page.signals, "signal"))
    found = [
        ("url", page.url),
        ("why not now", why.sentence),
        *(("besides", reason.sentence) for reason in further),
        ("state", f"{page.state}, importance {weight(page.importance)}{_by_requests(page, held)}{_significance(held)}"),
        ("freshness", f"{figure(page.freshness)} (log-staleness {figure(page.staleness)})"),
        ("evidence", ", ".join(many(count, what) for count, what in counts)),
        ("changes", format_rate_of_change(page.change_rate, *posterior)),
        ("last crawl", _moment(page.last_crawl_at, now)),
        ("last change", _moment(page.last_change_at, now)),
    ]
    if page.alias_of is not None:
        found.append(("same page", f"{page.alias_of}: {page.alias_why}"))
    if page.aliases:
        found.append(("also at", ", ".join(page.aliases)))
    found += _links(page.linked_from)
    found += _usage(page.usage)
    if page.gone_since is not None:
        found.append(("gone since", _moment(page.gone_since, now)))
    if explained.trouble:
        found.append(("last trouble", explained.trouble))
    if estimate:
        found.append(("unannounced", format_rate_of_change(page.alpha, *posterior)))
        worth = [source for source, count in estimate.signals.items() if count]
        found += [(f"{source} signals", _worth(estimate, source)) for source in worth]
    found += [("heard" if one.heard else "not heard", f"{one.source}: {one.why}") for one in page.signal_trust]
    memory = page.memory
    if memory and memory.volatile_places:
        found.append(("noise", f"left out, as they vary from visit to visit: {many(memory.volatile_places, 'place')}"))
    if memory and memory.frame_blocks:
        found.append(("frame", f"{memory.frame_blocks} of {memory.blocks} blocks are the site's, and left out"))
    if explained.compared:
        found.append(("compared", compared_sentence(explained.compared)))
    if held is not None:
        found.append(("crawl value", f"{_value(held.value)} against a level of {_value(held.level)}"))
        if held.expected_in_seconds is not None:
            found.append(("next crawl", f"expected in {format_duration(held.expected_in_seconds)}"))
    return found


def _usage(usage: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Returns what the page may be used for, and where that is said."""
    if usage is None:
        return []
    return [("may be used", uses_in_words(usage)), *(("", f"{one['where']}: {one['text']}") for one in usage["said"])]


def _links(linked: Linked) -> list[tuple[str, str]]:
    """Returns who links to a page of a site that is followed."""
    if linked.depth is None:
        return []
    depth = f"{many(linked.depth, 'link')} from a listed page" if linked.depth else "where its site begins"
    found = [("linked from", f"{linkers_in_words(linked)} ({depth})")]
    return found if linked.refused is None else [*found, ("not kept", f"links lead to it, but: {linked.refused}")]


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _moment(at: float | None, now: float) -> str:
    return "–" if at is None else format_moment(at, now)


def _by_requests(page: PageFacts, held: Explanation | None) -> str:
    """Returns what the daemon makes of the list's weight, where that follows requests for copies."""
    if held is None or held.importance == page.importance or page.alias_of is not None:
        return ""
    if page.aliases:
        return f" on the list, {held.importance:.3g} with its other addresses"
    return f" on the list, {held.importance:.3g} by requests for its copy"


def _significance(held: Explanation | None) -> str:
    """Returns what a change of the page counts by its size, where the daemon weighs that."""
    counts = 1.0 if held is None or held.significance is None else held.significance
    return "" if counts == 1.0 else f", a change counts {counts:.2g} times"


def _worth(estimate: StoredEstimate, source: str) -> str:
    kappa, gamma = estimate.kappa[source], estimate.gamma[source]
    precision = -math.expm1(-kappa)
    often = f"every {format_duration(1 / gamma)}" if gamma > 0 else "never"
    return f"{estimate.signals[source]} seen, {often}; true with probability {precision:.2f} (κ {kappa:.3g})"
