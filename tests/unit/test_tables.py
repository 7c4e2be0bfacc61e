"""Every table at 60 and at 80 columns: no line is too long, and what a row is about is still there."""

import re
import time
from dataclasses import asdict, replace
from typing import Any

import pytest
from rich.console import Console

from crawld.cli import explain, host, stats, tables
from crawld.cli.explain import explain_facts, last_trouble
from crawld.cli.remote import Answer
from crawld.model.host import HostsInTrouble, RobotsFailure
from crawld.model.metrics import HookStanding
from crawld.model.page import OverduePages
from crawld.model.signal import Source
from crawld.research.demo import print_report
from crawld.research.trial import Experiment, Outcome, Trial, conclude, print_list, print_tables, run_trials
from crawld.show.report import RobotsUnavailable, StoreStatus, Summary, troubles
from crawld.store.views import (
    FollowedLine,
    HostWaits,
    Linked,
    PageFacts,
    PastCrawl,
    RememberedCopy,
    SignalLine,
    StoredEstimate,
    TrustLine,
)

NOW = 1_795_000_000.0
LONG = "https://www.a-rather-long-host-name.example.org/archive/2026/11/a-very-long-name-of-an-article/page-17.html"
PAGE: dict[str, Any] = {
    "url": LONG, "host": "www.a-rather-long-host-name.example.org:8443", "importance": 1234567.0, "state": "disallowed",
    "crawls": 123456, "changes": 12345, "failures": 1234, "signals": 99, "copies": 5, "pages": 1000000,
    "last_crawl_at": NOW - 200, "last_change_at": NOW - 5e7, "change_rate": 1 / 324, "alpha": 1 / 400, "freshness": 0.5,
    "staleness": 0.7, "shape": 4.0, "rate": 1600.0, "evidence": 12, "blocked": False, "blocked_until": NOW + 5e9,
    "source": "sitemap", "polls": 123456, "stale": 5, "site_events": 7, "precision": 0.5, "recall": 0.25,
    "confirmed": 123, "in_vain": 45, "saved": 12345.6, "freshness_gain": 0.04,
    "heard": False, "heard_since": None, "why": "predictions with it fell behind those without it by 12.3",
    "bin": 3, "predicted_low": 0.3, "predicted_high": 0.4, "predicted": 0.35, "seen": 0.4,
    "at": NOW - 1e6, "verdict": "unchanged", "status": 304, "trouble": "too_many_redirects", "tau": 1e7,
    "magnitude": 0.123, "bytes": 10_000_000, "duration": 12.3, "seen_at": NOW - 5, "claimed_at": NOW - 9e8,
}  # fmt: skip
CRAWL = PastCrawl(
    NOW - 1e6, "unchanged", 304, "too_many_redirects", "a long detail of what went wrong " * 3, 1e7, 10_000_000, 12.3,
    0.123, 0.35, conditional=True, audit=False, reverted=False, signals={},
)  # fmt: skip
FACTS = PageFacts(
    url=LONG, host=PAGE["host"], importance=1234567.0, state="gone", crawls=123456, changes=12345, failures=1234,
    signals=99, last_crawl_at=NOW - 200, last_change_at=NOW - 5e7, change_rate=1 / 324, alpha=1 / 400,
    beta_seconds=None, kappa=None, gamma=None, precision=0.5, recall=0.25, staleness=0.7, freshness=0.5, weight=1.0,
    gone_since=NOW - 4e6, id=1, origin="list", added_at=NOW, retired_at=None, last_attempt=None,
    successive_failures=0, alias_why=None, alias_of=None, aliases=[LONG], linked_from=Linked(12, [LONG], 2),
    memory=RememberedCopy(NOW, None, None, None, 40, 3, 12, 0, 0),
    usage={"search": "yes", "ai-input": None, "ai-train": "no", "noarchive": True, "nosnippet": False,
           "said": [{"where": "robots.txt Content-Signal", "text": LONG}]},
    host_in_trouble=HostWaits(True, NOW + 1e9, 0.0, 9), pending_signals={},
    signal_trust=[TrustLine("sitemap_bulk", False, None, None, 3, "predictions with it fell behind by 12.3")],
    estimate=StoredEstimate(
        NOW, 4.0, 1600.0, None, 12, 3, {"sitemap": 0.5}, {"sitemap": 1e-4}, {"sitemap": None}, {"sitemap": 9}
    ),
    last_crawls=[CRAWL] * 3, last_signals=[SignalLine(Source.SITEMAP, NOW - 5, NOW - 9e8, stale=True)],
)  # fmt: skip
VIEWS = {**stats.VIEWS, "crawls": explain.CRAWLS, "signals of a page": explain.SIGNALS}
MUST_STAY = {
    "pages": ["https://www.", "page-17.html"], "hosts": ["www.a-rather", ":8443"], "crawls": ["unchanged"],
    "signals": ["www.a-rather", ":8443"], "calibration": ["0.3-0.4"], "signals of a page": ["sitemap"],
}  # fmt: skip


def rendered(table: object, width: int) -> list[str]:
    """The lines of a table in a terminal of that width."""
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def check(shown: list[str], width: int) -> str:
    """No line is too long, and no time or figure is in exponent form."""
    assert [line for line in shown if len(line) > width] == []
    text = "\n".join(shown)
    assert not re.search(r"\d[eE][+-]?\d", text), text
    return text


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("view", VIEWS)
def test_tables_fit_and_keep_what_a_row_is_about(view: str, width: int) -> None:
    """Figures go first; URL, host and verdict stay, a long URL with its host and the end of its path."""
    text = check(rendered(tables.fitted([PAGE, PAGE], VIEWS[view], width), width), width)
    assert [words for words in MUST_STAY[view] if words not in text] == []


@pytest.mark.parametrize("width", [60, 80])
def test_a_url_that_fits_is_not_shortened(width: int) -> None:
    """A URL of three quarters of the width stays whole; columns that still have room stay beside it."""
    url = "http://127.0.0.1:45123/".ljust(width * 3 // 4, "x")
    text = check(rendered(tables.fitted([PAGE | {"url": url}], stats.VIEWS["pages"], width), width), width)
    assert url in text
    assert "0.500" in text


def test_without_a_limit_nothing_is_left_out() -> None:
    """A pipe gets every column, each URL whole, and times as dates with their age."""
    text = "\n".join(rendered(tables.fitted([PAGE], stats.VIEWS["pages"], tables.LIMITS.widest), tables.LIMITS.widest))
    assert all(column.heading in text for column in stats.VIEWS["pages"])
    assert LONG in text
    assert "2026-11-18 11:03 UTC (" in text
    assert "every 5.4 min, likely " in text


def overall() -> Summary:
    """A summary with every trouble there is."""
    worst = {"host": PAGE["host"], "pages": 1000000, "until": NOW + 1e6, "failures": 7}
    hosts = {"count": 3, "pages": 1200000, "worst": [worst]}
    robots = {"origin": "https://" + PAGE["host"], "reason": "status 503", "failures": 2, "until": NOW + 100}
    daemon = {
        "pid": 4242, "paused": False, "bandwidth": 10.0, "requests": 1234567, "uptime_seconds": 1e6,
        "min_interval_seconds": 60.0, "max_interval_seconds": 86400.0,
        "hosts": {"blocked": hosts, "asked_to_wait": hosts, "backoff": hosts},
        "measured_freshness": {"mean": 0.5, "low": 0.4, "high": 0.6},
        "store": {"healthy": False, "trouble": "database or disk is full", "since": NOW - 99, "backlog": 7, "lost": 2},
        "robots_unavailable": {"count": 1, "worst": [robots]},
        "slots": {"seconds": 120.0, "slots": 1200, "idle": 1080, "skipped": 100, "skipped_spans": 9,
                  "idle_because": {"host_busy": 1080},
                  "bottleneck": "one host, politeness.delay 1s allows 1/s of 10/s"},
    }  # fmt: skip
    return Summary.of({
        "daemon": daemon, "daemon_state": {"state": "running", "pid": 4242}, "pages": 1000000, "hosts": 3,
        "states": {"waiting": 1, "live": 2, "failing": 3, "disallowed": 4, "gone": 5, "retired": 6},
        "freshness": 0.5, "latest": None, "crawls": 5, "changes": 3, "failures": 2, "last_crawl_at": NOW - 9e6,
        "database_bytes": 123456789, "max_interval_seconds": 86400.0, "hosts_in_trouble": daemon["hosts"],
        "overdue": {"count": 12, "oldest_crawl_at": NOW - 1e7},
        "followed_sites": [FollowedLine(LONG, 7, 7, 2, 1, 1, 2)],
        "audits": {"count": 40, "first_at": NOW - 1e5, "last_at": NOW - 10},
    })  # fmt: skip


def but(summary: Summary, **changes: Any) -> Summary:
    """The same with a daemon that says something else."""
    assert summary.daemon is not None
    return replace(summary, daemon=replace(summary.daemon, **changes))


@pytest.mark.parametrize("width", [60, 80])
def test_the_summary_fits_and_shows_trouble_first(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of trouble is a sentence before the first figure, the store before all else."""
    monkeypatch.setenv("COLUMNS", str(width))
    hook = HookStanding("index", 3, NOW - 99.0, 0, 0, 1, "connection refused", NOW - 99.0)
    facts = but(overall(), hooks=[hook], faults=3, reload_refused="reload refused at noon: no; old settings kept")
    found = troubles(facts, NOW)
    assert [one.kind for one in found] == [
        "store", "lost", "internal_errors", "reload_refused", "no_crawls", "host_backoff", "host_asked_to_wait",
        "host_blocked", "robots_unavailable", "overdue", "failing", "idle_slots", "skipped_slots", "hook_failing",
    ]  # fmt: skip
    tables.print_lines(stats.summary_lines(replace(facts, trouble=found)))
    text = " ".join(check(capsys.readouterr().out.splitlines(), width).split())
    assert text.startswith("trouble the store cannot write since")
    assert "90% of slots idle in the last 2 min: one host, politeness.delay 1s allows 1/s of 10/s" in text
    assert "3 crawls ended in an internal error; see the log" in text
    assert "12 pages overdue beyond max_interval 24 h" in text
    assert "0.500 measured (95 %: 0.400 to 0.600) of the pages held, by 40 audits since" in text


def test_robots_txt_is_never_tried_again_in_the_past() -> None:
    """Where the time is over, it waits for its host."""
    facts = but(overall(), robots_unavailable=RobotsUnavailable(1, [RobotsFailure("x", "status 503", 2, NOW - 43.0)]))
    (found,) = (one.sentence for one in troubles(facts, NOW) if one.kind == "robots_unavailable")
    assert found.endswith("(status 503, tried again as soon as its host may be asked)")


def test_a_daemon_that_has_crawled_nothing_says_so() -> None:
    """There is no last crawl to tell of, and one is not many."""
    facts = but(replace(overall(), last_crawl_at=None), store=StoreStatus(healthy=False, backlog=1))
    found = {one.kind: one.sentence for one in troubles(facts, NOW)}
    assert found["no_crawls"] == "no page has been crawled yet"
    assert "; 1 record waits in memory" in found["store"]


def test_recall_is_unknown_where_nothing_was_announced() -> None:
    """A source of which no signal counted has no recall."""
    (recall,) = (column for column in stats.VIEWS["signals"] if column.heading == "recall")
    assert [recall.full(PAGE | {"signals": count, "stale": 5}) for count in (6, 5)] == ["0.250", "–"]


@pytest.mark.parametrize(("detail", "said"), [("status 503", "status 503"), ("", "status"), ("5xx", "status: 5xx")])
def test_the_last_trouble_is_not_named_twice(detail: str, said: str) -> None:
    """The kind stands before a detail that does not begin with it."""
    found = last_trouble([replace(CRAWL, trouble="status", detail=detail, at=NOW)], NOW)
    assert str(found).startswith(f"{said}, 20")


@pytest.mark.parametrize(
    ("asked", "reason", "said"), [(9e6, "host_asked_to_wait", "asked us to wait"), (0, "host_backoff", "back-off")]
)
def test_a_host_that_asked_us_to_wait_is_not_in_backoff(asked: float, reason: str, said: str) -> None:
    """The database tells Retry-After from back-off, to `explain` and to `host`."""
    waits = HostWaits(blocked=False, blocked_until=time.time() + 9e6, asked_until=time.time() + asked, failures=1)
    page = replace(FACTS, state="live", host_in_trouble=waits, last_crawls=[], gone_since=None)
    found = explain_facts(page, Answer(state="not_running"), time.time())
    assert [one.reason for one in found.reasons] == ["not_running", reason]
    row: dict[str, Any] = asdict(waits) | {
        "host": "h", "pages": 1, "backoff_seconds": 9e6, "successive_failures": 1, "delay_seconds": None,
        "crawl_delay_seconds": None, "turned_away": {},
    }  # fmt: skip
    assert host.host_line(row) == f"h        1 page   {said} for 104 d, failed once"


def test_a_quiet_daemon_is_well() -> None:
    """Slots that nobody needs are no trouble."""
    facts = overall()
    assert facts.daemon is not None
    slots = replace(facts.daemon.slots, skipped=0, idle_because={"min_interval": 1080})
    well = {"store": StoreStatus(), "hosts": HostsInTrouble(), "robots_unavailable": RobotsUnavailable()}
    facts = but(facts, slots=slots, **well)
    facts = replace(facts, overdue=OverduePages(0, None), last_crawl_at=NOW, states={"failing": 0})
    assert troubles(facts, NOW) == []


@pytest.mark.parametrize("width", [60, 80])
def test_an_explanation_fits(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of it, tables included; the URL is folded, not cut."""
    monkeypatch.setenv("COLUMNS", str(width))
    found = replace(explain_facts(FACTS, Answer(state="not_running"), NOW), compared={"mode": "raw", "bytes": 12345})
    assert {one.reason for one in found.reasons} == {"not_running", "host_blocked", "gone"}
    assert found.document()["reason"] == "not_running"
    explain.print_explanation(found)
    text = check(capsys.readouterr().out.splitlines(), width)
    assert LONG in re.sub(r"\n +", "", text)
    assert "crawld is not running" in text
    assert "unchanged" in text


@pytest.mark.parametrize("width", [60, 80])
def test_the_demos_report_fits(width: int) -> None:
    """Its tables keep the URL; only lines that are to be copied may be longer."""
    row = {"url": LONG, "sitemap": "honest", "importance": 9.5, "changes": 3, "crawls": 44, "freshness_true": 0.7511}
    report = {
        "freshness_true": 0.775, "freshness_predicted": 0.784, "freshness_uniform": 0.691, "requests": 589,
        "requests_uniform": 588, "bandwidth_text": "10/s", "seconds": 60.0, "judged_seconds": 40.0, "pages": 60,
        "freshest": [row] * 5, "stalest": [row] * 5, "database": "x.db", "chart": "x.svg",
        "urls": "urls.txt", "database_url": "sqlite:///x.db",
    }  # fmt: skip
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        print_report(report, console)
    text = check([line for line in captured.get().splitlines() if "sqlite" not in line], width)
    assert text.count("page-17.html") == 10
    assert "round robin" in text


def outcome() -> Outcome:
    """An experiment with long names and many measures."""

    def measure(trial: Trial) -> dict[str, float]:
        return {"accuracy": 0.5 + trial.repeat / 10} | {f"measure_number_{i}": 12345.6789 for i in range(8)}

    names = ("binary-lambdacrawl", "lambdacrawl-approximate")
    experiment = Experiment(
        name="a-long-name-of-one", shows="what it shows " * 8, pages=(1000,), repeats=2, contestants=names,
        measure=measure, pairs=(names,), settings={"bandwidth": 1},
    )  # fmt: skip
    trials = experiment.trials(experiment.pages, experiment.repeats, 1)
    return conclude(experiment, dict(run_trials(experiment, trials, 1)), 1)


@pytest.mark.parametrize("width", [60, 80])
def test_the_simulators_tables_fit(width: int) -> None:
    """Measures that find no room stand in further tables, each with its policy; nothing is cut."""
    found, console = outcome(), Console(width=width, color_system=None)
    with console.capture() as captured:
        print_tables(found, console)
        print_list([found.experiment], console)
    text = check(captured.get().splitlines(), width)
    assert all(f"measure_number_{i}" in text for i in range(8))
    assert "…" not in text
    assert text.count("binary-lambdacrawl") >= 3
