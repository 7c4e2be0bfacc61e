"""What the database knows of trouble: hosts that may not be asked, pages overdue or failing, and the latest audits."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Select, case, func, or_, select, text

from crawld.model.crawl import Verdict
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.model.host import HostTrouble, sum_up, sum_up_turned_away
from crawld.model.page import NOT_LISTED, PageState
from crawld.store import tables

Row = dict[str, Any]
Ask = Callable[[Any], Awaitable[Sequence[Row]]]  # a Select of any columns
_page, _host, _crawl = tables.pages.c, tables.hosts.c, tables.crawls.c


async def hosts_in_trouble(ask: Ask, now: float) -> Row:
    """The hosts with pages that are blocked by the operator, asked us to wait, or are in back-off, largest first."""
    there = (
        select(func.count())
        .where(_page.host_id == _host.id, _page.state.not_in(NOT_LISTED))
        .scalar_subquery()
        .label("pages")
    )
    query = select(_host.name, _host.blocked, _host.blocked_until, _host.asked_until, _host.failures, there)
    rows = [row for row in await ask(query.where(or_(_host.blocked, _host.blocked_until > now))) if row["pages"]]
    split: dict[str, list[HostTrouble]] = {"blocked": [], "asked_to_wait": [], "backoff": []}
    for row in rows:
        found = HostTrouble(row["name"], row["pages"], row["blocked_until"], row["failures"])
        kind = "blocked" if row["blocked"] else "asked_to_wait" if row["asked_until"] > now else "backoff"
        split[kind].append(found)
    return {kind: sum_up(hosts) for kind, hosts in split.items()}


TURNED_AWAY_BY_HOST = (
    select(_page.host_id, _page.turned_away, func.count().label("pages"))
    .where(_page.turned_away.is_not(None), _page.state.not_in(NOT_LISTED))
    .group_by(_page.host_id, _page.turned_away)
)


def turned_away_by_host(rows: Iterable[Any]) -> dict[int, dict[str, int]]:
    """By host, how many of its pages turned us away, by trouble: from the rows of that query."""
    found: dict[int, dict[str, int]] = {}
    for row in rows:
        host, trouble, pages = row
        found.setdefault(host, {})[trouble] = pages
    return found


async def turned_away(ask: Ask) -> Row:
    """Pages whose site turned us away when they were last asked, by trouble and origin."""
    scheme = case((_page.url.like("https:%"), "https"), else_="http").label("scheme")
    query = (
        select(_host.name, _page.turned_away, scheme, func.count().label("pages"))
        .join_from(tables.pages, tables.hosts, _host.id == _page.host_id)
        .where(_page.turned_away.is_not(None), _page.state.not_in(NOT_LISTED))
        .group_by(_host.name, _page.turned_away, scheme)
    )
    rows = [row for row in await ask(query) if row["turned_away"] in TURNED_AWAY]
    return sum_up_turned_away(
        {(f"{row['scheme']}://{row['name']}", Trouble(row["turned_away"])): row["pages"] for row in rows}
    )


async def pages_overdue(ask: Ask, now: float, longest: float) -> Row:
    """Pages that could be asked but were not crawled with success for longer than so many seconds, and since when."""
    return (await ask(overdue_since(now - longest)))[0]


def overdue_since(before: float) -> Select[int, Any]:
    """The question for pages that could be asked but were not crawled with success since that time."""
    asked = _page.state.concat("").in_([PageState.LIVE.value, PageState.FAILING.value])  # by no index: most pages are
    late = (_page.last_success < before, asked)
    return select(func.count().label("count"), func.min(_page.last_success).label("oldest_crawl_at")).where(*late)


async def latest_audits(ask: Ask, most: int) -> Row:
    """How many audits the measured freshness rests on, and over which time."""
    audited = (
        select(_crawl.at).where(text("audit"), _crawl.verdict != Verdict.FAILED.value)  # as the index says it
        .order_by(_crawl.at.desc()).limit(most).subquery()
    )  # fmt: skip
    times = audited.c.at
    query = select(func.count().label("count"), func.min(times).label("first_at"), func.max(times).label("last_at"))
    return (await ask(query))[0]
