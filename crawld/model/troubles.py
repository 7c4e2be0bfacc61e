"""Everything that is wrong with a crawl, one sentence each, the worst first: what people are told before figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crawld.model.units import format_duration, format_moment, format_rate
from crawld.model.units import many as _many
from crawld.model.why import IDLE, Why


@dataclass(frozen=True)
class TroublesLimits:
    """Numbers that bound and tune this module."""

    idle_share: float = 0.1
    skipped_share: float = 0.01
    """Shares of the slots of the last minutes from which on idle and skipped slots are mentioned."""
    min_slots: int = 5
    min_skipped_spans: int = 2
    """Spans of some seconds that slots must have been skipped in: one pause of the machine is not a busy machine."""
    long_ago: float = 600.0
    """Seconds without a crawl that are too many, whatever the rate."""
    hook_seconds: float = 60.0
    """For which a hook must have failed: now and then a receiver is restarted."""


LIMITS = TroublesLimits()


Facts = Mapping[str, Any]

TURNED_AWAY_SENTENCES = {
    "bot_wall": (
        "keeps bots out with a challenge",
        "sign requests and tell the site who you are (docs/identity.md), or take its pages off the list",
    ),
    "payment_required": ("asks to be paid (402)", "agree with its owner, or take its pages off the list"),
    "login_required": ("asks for a login", "give or renew its `credentials` and `crawld reload` (docs/credentials.md)"),
    "forbidden": ("forbids its pages (403)", "ask its owner to let your user agent in, or take its pages off the list"),
    "geo_blocked": (
        "refuses its pages here for legal reasons (451)",
        "take them off the list, or crawl where it may be",
    ),
}
"""By trouble, what a site does that turns us away, and what to do about it."""


@dataclass(frozen=True, slots=True)
class TroubleReport:
    """Something that is wrong: a word for programs, a sentence for people."""

    kind: str
    sentence: str

    @property
    def severe(self) -> bool:
        """Whether crawling has stopped or something is lost."""
        return self.kind in {
            "not_running", "not_answering", "store", "lost", "internal_errors", "no_crawls", "no_worker", "no_round"
        }  # fmt: skip


def troubles(overall: Facts, now: float) -> list[TroubleReport]:
    """Everything that is wrong, from what the database and, where it answers, the daemon say."""
    return [
        *_daemon(overall, now), *_hosts(overall, now), *_turned_away(overall), *_pages(overall, now), *_slots(overall),
        *_hooks(overall, now),
    ]  # fmt: skip


def who_runs(status: Facts) -> str:
    """What serves the slots: a process, or the workers of a fleet."""
    return _many(status["workers"], "worker") if "workers" in status else f"pid {status['pid']}"


def _daemon(overall: Facts, now: float) -> Iterator[TroubleReport]:
    daemon, state = overall["daemon"], overall["daemon_state"]
    if state["state"] == "not_running":
        yield TroubleReport("not_running", f"crawld is not running; {_last_crawl(overall, now)}")
    elif state["state"] == "not_answering":
        process = "" if state["pid"] is None else f" (pid {state['pid']})"
        text = f"the daemon does not answer{process}; figures are from the database"
        yield TroubleReport("not_answering", f"{text}; {_last_crawl(overall, now)}")
    if daemon is None:
        return
    for kind, sentence in daemon.get("fleet_troubles", ()):
        yield TroubleReport(kind, sentence)
    store = daemon["store"]
    if not store["healthy"]:
        since = "" if store["since"] is None else f" since {format_moment(store['since'], now)}"
        why = store["trouble"] or "its queue is full"
        waiting = f"{_many(store['backlog'], 'record waits', 'records wait')} in memory"
        yield TroubleReport("store", f"the store cannot write{since}: {why}; {waiting} and no page is crawled")
    if store["lost"]:
        yield TroubleReport(
            "lost", f"{_many(store['lost'], 'record was', 'records were')} lost: the database refused them, see the log"
        )
    if faults := daemon.get("faults"):
        yield TroubleReport("internal_errors", f"{_many(faults, 'crawl')} ended in an internal error; see the log")
    if closed := (daemon.get("listener") or {}).get("trouble"):
        yield TroubleReport("no_listener", closed)
    if held_back := daemon.get("list_held_back"):
        yield TroubleReport("list_held_back", held_back)
    if refused := daemon.get("reload_refused"):
        yield TroubleReport("reload_refused", refused)
    if daemon["paused"]:
        yield TroubleReport("paused", "crawld is paused; `crawld resume` resumes crawling")
    elif daemon["bandwidth"] == 0:
        yield TroubleReport("no_bandwidth", "the bandwidth is 0: nothing is crawled")
    elif overall["pages"] and _long_ago(overall, daemon, now):
        late = "" if overall["last_crawl_at"] is None else "no page was crawled of late; "
        yield TroubleReport("no_crawls", f"{late}{_last_crawl(overall, now)}")


def _last_crawl(overall: Facts, now: float) -> str:
    at = overall["last_crawl_at"]
    return "no page has been crawled yet" if at is None else f"the last crawl was {format_moment(at, now)}"


def _long_ago(overall: Facts, daemon: Facts, now: float) -> bool:
    at, patience = (
        overall["last_crawl_at"],
        max(LIMITS.long_ago, 20 / daemon["bandwidth"], 2 * daemon["min_interval_seconds"]),
    )
    return bool(daemon["uptime_seconds"] > patience and (at is None or now - at > patience))


def _hosts(overall: Facts, now: float) -> Iterator[TroubleReport]:
    hosts = (overall["daemon"] or {}).get("hosts") or overall["hosts_in_trouble"]
    if (backoff := hosts["backoff"])["count"]:
        worst = backoff["worst"][0]
        until = format_moment(worst["until"], now)
        named = _named(worst["host"], f"{_many(worst['pages'], 'page')}, until {until}", backoff["count"])
        yield TroubleReport("host_backoff", f"{_many(backoff['count'], 'host')} in back-off: {named}")
    if (asked := hosts["asked_to_wait"])["count"]:
        worst = asked["worst"][0]
        until = format_moment(worst["until"], now)
        named = _named(worst["host"], f"{_many(worst['pages'], 'page')}, until {until}", asked["count"])
        yield TroubleReport(
            "host_asked_to_wait", f"{_many(asked['count'], 'host')} asked us to wait (Retry-After): {named}"
        )
    if (blocked := hosts["blocked"])["count"]:
        worst = blocked["worst"][0]
        named = _named(worst["host"], _many(worst["pages"], "page"), blocked["count"])
        yield TroubleReport("host_blocked", f"{_many(blocked['count'], 'host')} blocked by the operator: {named}")
    robots = (overall["daemon"] or {}).get("robots_unavailable")
    if robots and robots["count"]:
        worst = robots["worst"][0]
        until = format_moment(worst["until"], now) if worst["until"] > now else "as soon as its host may be asked"
        named = _named(worst["origin"], f"{worst['reason']}, tried again {until}", robots["count"])
        yield TroubleReport(
            "robots_unavailable", f"robots.txt of {_many(robots['count'], 'site')} unavailable: {named}"
        )


def _turned_away(overall: Facts) -> Iterator[TroubleReport]:
    """One sentence for each origin that turns us away, with what to do about it."""
    daemon = overall["daemon"]
    told = overall.get("turned_away") if daemon is None or "turned_away" not in daemon else daemon["turned_away"]
    for kind, found in (told or {}).items():
        says, advice = TURNED_AWAY_SENTENCES.get(kind, ("turns us away", "`crawld stats --pages` names the pages"))
        for worst in found["worst"]:
            yield TroubleReport(kind, f"{worst['origin']} {says} ({_many(worst['pages'], 'page')}): {advice}")
        if (more := found["count"] - len(found["worst"])) > 0:
            yield TroubleReport(kind, f"{_many(more, 'more site')} {'does' if more == 1 else 'do'} the same ({kind})")


def _named(worst: str, facts: str, count: int) -> str:
    return f"{worst} ({facts})" + (f" and {count - 1} more" if count > 1 else "")


def _pages(overall: Facts, now: float) -> Iterator[TroubleReport]:
    overdue = overall["overdue"]
    if overdue["count"]:
        pages, longest = _many(overdue["count"], "page"), format_duration(overall["max_interval_seconds"])
        oldest = format_moment(overdue["oldest_crawl_at"], now)
        yield TroubleReport("overdue", f"{pages} overdue beyond max_interval {longest}; the oldest copy is of {oldest}")
    if failing := overall["states"]["failing"]:
        yield TroubleReport("failing", f"{_many(failing, 'page')} failing: `crawld stats --pages` names them")


def _slots(overall: Facts) -> Iterator[TroubleReport]:
    daemon = overall["daemon"]
    if daemon is None or daemon["slots"]["slots"] < LIMITS.min_slots:
        return
    slots = daemon["slots"]
    many_idle = slots["idle"] >= LIMITS.idle_share * slots["slots"]
    # Slots that are idle for these reasons are not needed: every page is as fresh as the settings allow.
    if many_idle and Why(next(iter(slots["idle_because"]))) not in {Why.MIN_INTERVAL, Why.NOT_WORTH_IT}:
        yield TroubleReport("idle_slots", idle(daemon))
    lasting = (
        slots.get("skipped_spans", LIMITS.min_skipped_spans) >= LIMITS.min_skipped_spans
    )  # an earlier release does not say
    if slots["skipped"] > LIMITS.skipped_share * slots["slots"] and lasting:
        text = f"{_many(slots['skipped'], 'slot')} skipped in the last {format_duration(slots['seconds'])}"
        yield TroubleReport("skipped_slots", f"{text}: the machine is too busy for {format_rate(daemon['bandwidth'])}")


def _hooks(overall: Facts, now: float) -> Iterator[TroubleReport]:
    for hook in (overall["daemon"] or {}).get("hooks", ()):
        if hook["trouble"] is not None and now - hook["trouble_since"] > LIMITS.hook_seconds:
            waiting = f"{_many(hook['waiting'], 'change waits', 'changes wait')}, `crawld hooks` shows them"
            since = format_moment(hook["trouble_since"], now)
            yield TroubleReport(
                "hook_failing", f"hook {hook['name']} fails since {since}: {hook['trouble']}; {waiting}"
            )


def idle(daemon: Facts) -> str:
    """The share of slots that were idle of late, and why: the most frequent reason, and what sets the limit."""
    slots = daemon["slots"]
    if not slots["slots"]:
        return "none in the last minutes"
    share = f"{slots['idle'] / slots['slots']:.0%} of slots idle in the last {format_duration(slots['seconds'])}"
    if not slots["idle"]:
        return share
    why = Why(next(iter(slots["idle_because"])))
    limits = why in {Why.HOST_BUSY, Why.MIN_INTERVAL, Why.ROBOTS_UNKNOWN, Why.CRAWLING}
    return f"{share}: {slots['bottleneck'] if limits and slots['bottleneck'] else IDLE[why]}"
