"""Every endpoint of version 1, once."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from crawld.model.page import PagePart
from crawld.show.api import copies, following, models, reading, steering
from crawld.show.api.endpoints import Endpoint, Parts, add_routes
from crawld.show.api.feed import feed
from crawld.show.api.openapi import describe
from crawld.store.contract import FreshnessPoint
from crawld.store.views import CalibrationLine, Changes, HostLine, PageLines, SlotLine, SourceLine

NO_PAGE = {404: "The page is not on the list"}
NO_COPY = {
    304: "The copy is the one that was named",
    404: "There is no copy, or that version is not kept",
    406: "The copy has no form that was asked for",
    410: "The page is gone; the header X-Include-Gone: 1 asks for the last copy",
    422: "Its text takes too much to read",
}
NO_PARTS = {404: "There is no copy of the page", 422: "Its copy takes too much to read"}
NO_PAIR = {404: "The page is not on the list, or has no such versions", 422: "There is no text to compare"}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/status", "What the daemon is doing", reading.status, models.Nothing, models.Status),
    Endpoint("GET", "/v1/pages", "Pages, part by part", reading.pages, models.AskPages, PageLines),
    Endpoint(
        "GET", "/v1/page", "One page, its timeline, and why it is not crawled now", reading.page, models.AskPage,
        models.ExplainedPage, statuses=NO_PAGE,
    ),
    Endpoint(
        "GET", "/v1/versions", "The kept versions of a page", reading.versions, models.AskUrl, models.Versions,
        statuses=NO_PAGE,
    ),
    Endpoint(
        "GET", "/v1/diff", "The difference between two versions", reading.diff, models.AskDiff, models.Difference,
        media=("application/json", "text/plain"), statuses=NO_PAIR,
    ),
    Endpoint(
        "GET", "/v1/search", "Pages whose text holds words, best first", reading.search, models.AskSearch,
        models.SearchAnswer,
    ),
    Endpoint(
        "GET", "/v1/copy", "The copy of a page, its text or its Markdown", copies.copy, models.AskCopy, None,
        media=("*/*",), statuses=NO_COPY,
    ),
    Endpoint("GET", "/v1/changes", "Changes after a cursor", following.changes, models.AskChanges, Changes),
    Endpoint(
        "GET", "/v1/events", "Changes as they come, as server-sent events", following.events, models.AskEvents, None,
        media=("text/event-stream",),
    ),
    Endpoint("GET", "/v1/hosts", "How hosts are asked", reading.hosts, models.AskHosts, Sequence[HostLine]),
    Endpoint(
        "GET", "/v1/signals", "What signals were worth", reading.signals, models.AskSignals, Sequence[SourceLine]
    ),
    Endpoint(
        "GET", "/v1/freshness", "Freshness over time", reading.freshness, models.AskHistory, Sequence[FreshnessPoint]
    ),
    Endpoint(
        "GET", "/v1/calibration", "Predicted against seen freshness", reading.calibration, models.Nothing,
        Sequence[CalibrationLine],
    ),
    Endpoint("GET", "/v1/slots", "What slots were spent on", reading.slots, models.AskSlots, Sequence[SlotLine]),
    Endpoint("GET", "/v1/forecast", "What bandwidths buy", reading.forecast, models.AskForecast, dict[str, Any]),
    Endpoint(
        "POST", "/v1/bandwidth", "Change the request rate", steering.bandwidth, models.SetBandwidth, models.Status
    ),
    Endpoint("POST", "/v1/pause", "Pause", steering.pause, models.Nothing, models.Status),
    Endpoint("POST", "/v1/resume", "Go on", steering.resume, models.Nothing, models.Status),
    Endpoint("POST", "/v1/host", "Block or slow down a host", steering.host, models.SetHost, models.HostAnswer),
    Endpoint("POST", "/v1/urls", "Add and remove pages", steering.urls, models.SetUrls, models.UrlsAnswer),
    Endpoint(
        "POST", "/v1/pages", "Keep pages, and wait for their first copies", steering.add_pages, models.AddPages,
        models.AddAnswer,
    ),
    Endpoint(
        "POST", "/v1/refresh", "Crawl pages now, before all others", steering.refresh, models.AskRefresh,
        models.RefreshAnswer,
    ),
    Endpoint(
        "GET", "/v1/parts", "The parts of a page that can be ignored", reading.page_parts, models.AskUrl,
        Sequence[PagePart], statuses=NO_PARTS,
    ),
    Endpoint("GET", "/v1/rules", "What of pages is compared", reading.rules, models.AskRules, models.RulesAnswer),
    Endpoint(
        "POST", "/v1/rules", "Ignore parts of pages, or compare them again", steering.rules, models.SetRules,
        models.RulesAnswer,
    ),
    Endpoint("GET", "/v1/read", "Which changes were read", reading.read, models.Nothing, models.ReadAnswer),
    Endpoint("POST", "/v1/read", "Mark changes as read", steering.mark_read, models.SetRead, models.ReadAnswer),
    Endpoint(
        "GET", "/v1/actions", "What was done to the crawl, and by whom", reading.actions, models.AskActions,
        Sequence[models.ActionAnswer],
    ),
    Endpoint("POST", "/v1/undo", "Undo an action", steering.undo, models.AskUndo, models.ActionAnswer),
    Endpoint(
        "GET", "/v1/feed", "The newest changes as an Atom feed", feed, models.AskFeed, None,
        media=("application/atom+xml",), statuses=NO_PAGE,
    ),
)  # fmt: skip


def add_v1(app: web.Application, parts: Parts) -> None:
    """Let an application answer version 1, with its description."""
    app[following.FOLLOWERS] = asyncio.Semaphore(following.MOST_FOLLOWERS)
    app[copies.SERVED] = asyncio.Semaphore(copies.MOST_COPIES)
    add_routes(app, ENDPOINTS, parts)
    described = web.json_response(describe(ENDPOINTS)).body

    async def openapi(_: web.Request) -> web.Response:
        return web.Response(body=described, content_type="application/json")

    app.router.add_get("/v1/openapi.json", openapi)
