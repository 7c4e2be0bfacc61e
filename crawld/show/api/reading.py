"""Endpoints that read."""

from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from crawld.model.errors import TooCostlyError
from crawld.model.page import PagePart
from crawld.model.units import parse_rate
from crawld.read.page.blocks import unified
from crawld.show.api import models
from crawld.show.api.access import RefusedError, use_denied
from crawld.show.api.endpoints import PARTS
from crawld.show.api.listener import LISTENER
from crawld.show.report import ForecastReport, Status
from crawld.store.batch import FreshnessPoint
from crawld.store.settings import Action
from crawld.store.views import (
    CalibrationLine,
    HostLine,
    PageLines,
    PageQuery,
    SlotLine,
    SourceLine,
    Version,
    VersionBody,
)


async def status(request: web.Request, _: models.Nothing) -> Status:
    """Returns what the daemon is doing now, and where its dashboard is."""
    return replace(await request.app[PARTS].control.status(), listener=request.app[LISTENER].standing())


async def pages(request: web.Request, asked: models.AskPages) -> PageLines:
    """A part of the list of pages."""
    return await request.app[PARTS].read.pages(PageQuery(**asked.model_dump()))


async def page(request: web.Request, asked: models.AskPage) -> models.ExplainedPage:
    """One page with its timeline, and why it is not crawled just now."""
    parts = request.app[PARTS]
    view = await parts.read.page(asked.url, crawls=asked.crawls, signals=asked.signals, changes=asked.changes)
    if view is None:
        raise _unknown(asked.url)
    return models.ExplainedPage(view, await parts.control.explain(view.page.id))


async def versions(request: web.Request, asked: models.AskUrl) -> models.Versions:
    """The kept versions of a page."""
    found = await request.app[PARTS].read.versions(asked.url)
    if found is None:
        raise _unknown(asked.url)
    return models.Versions(found)


async def diff(request: web.Request, asked: models.AskDiff) -> models.Difference | web.Response:
    """The difference between two versions."""
    parts = request.app[PARTS]
    kept = await parts.read.versions(asked.url)
    if kept is None:
        raise _unknown(asked.url)
    if asked.use is not None:
        view = await parts.read.page(asked.url, crawls=0, signals=0, changes=0)
        if view is not None and (view.page.usage or {}).get(asked.use.value) == "no":
            raise use_denied(asked.use)
    before, after = [await _version(request, asked.url, number) for number in pair_of(kept, asked.before, asked.after)]
    try:
        blocks = await parts.texts.difference(before, after)
    except TooCostlyError as error:
        raise RefusedError(422, f"these versions cannot be compared: {error}") from None
    if blocks is None:
        raise RefusedError(422, "these versions have no text to compare; GET /v1/copy gives their bytes")
    if asked.format == "unified":
        names = (f"{asked.url} version {before.version.id}", f"{asked.url} version {after.version.id}")
        return web.Response(text=unified(blocks, names), content_type="text/plain", charset="utf-8")
    return models.Difference(before.version, after.version, blocks)


def pair_of(kept: Sequence[Version], before: int | None, after: int | None) -> tuple[int, int]:
    """The numbers of the versions to compare; RefusedError where there are no two."""
    newest = [version.id for version in kept]
    later = after if after is not None else next(iter(newest), None)
    earlier = before if before is not None else next((number for number in newest if later and number < later), None)
    if later is None or earlier is None:
        raise RefusedError(404, "there are no two versions to compare: `keep_bodies: changes` keeps them from then on")
    return earlier, later


async def _version(request: web.Request, url: str, number: int) -> VersionBody:
    found = await request.app[PARTS].read.version(url, number)
    if found is None:
        raise RefusedError(404, f"version {number} of {url} is not kept")
    return found


async def search(request: web.Request, asked: models.AskSearch) -> models.SearchAnswer:
    """Pages whose text holds the words."""
    return models.SearchAnswer(
        await request.app[PARTS].read.search(asked.q, limit=asked.limit, host=asked.host, use=asked.use)
    )


async def hosts(request: web.Request, asked: models.AskHosts) -> Sequence[HostLine]:
    """Hosts that have pages."""
    return await request.app[PARTS].read.hosts(limit=asked.limit)


async def signals(request: web.Request, asked: models.AskSignals) -> Sequence[SourceLine]:
    """Returns what signals were worth, by host and source."""
    return await request.app[PARTS].read.sources(host=asked.host, limit=asked.limit)


async def freshness(request: web.Request, asked: models.AskHistory) -> Sequence[FreshnessPoint]:
    """Freshness over time."""
    return await request.app[PARTS].read.freshness_history(asked.since, limit=asked.limit)


async def calibration(request: web.Request, _: models.Nothing) -> Sequence[CalibrationLine]:
    """Predicted against seen freshness."""
    return await request.app[PARTS].read.calibration()


async def slots(request: web.Request, asked: models.AskSlots) -> Sequence[SlotLine]:
    """Returns what slots were spent on."""
    return await request.app[PARTS].read.slots(asked.since, asked.bucket)


async def forecast(request: web.Request, asked: models.AskForecast) -> ForecastReport:
    """Returns what bandwidths buy."""
    return await request.app[PARTS].control.forecast(rates_of(asked.bandwidth))


def rates_of(given: str) -> list[float]:
    """Reads rates with commas between."""
    return [_rate(one) for one in given.split(",") if one.strip()]


def _rate(given: str) -> float:
    """Reads a rate with its unit, or a number of requests per second."""
    try:
        return parse_rate(float(given))
    except ValueError:
        return parse_rate(given)


async def page_parts(request: web.Request, asked: models.AskUrl) -> Sequence[PagePart]:
    """The parts of a page's latest copy that can be left out of what is compared."""
    found = await request.app[PARTS].read.version(asked.url)
    if found is None:
        raise RefusedError(404, f"there is no copy of {asked.url}")
    try:
        return await request.app[PARTS].texts.parts(found)
    except TooCostlyError as error:
        raise RefusedError(422, f"the copy cannot be read: {error}") from None


async def rules(request: web.Request, asked: models.AskRules) -> models.RulesAnswer:
    """Returns what operators have marked, and the settings' rule for a page."""
    control = request.app[PARTS].control
    return models.RulesAnswer(await control.marks(), None if asked.url is None else dict(control.rule_of(asked.url)))


async def read(request: web.Request, _: models.Nothing) -> models.ReadAnswer:
    """The newest change that was read, and how many have come since."""
    parts = request.app[PARTS]
    until, found = await parts.control.actions.read_until(), await parts.read.latest_changes(limit=1)
    return models.ReadAnswer(until, found.unread(until))


async def actions(request: web.Request, asked: models.AskActions) -> Sequence[models.ActionAnswer]:
    """Returns what was done to the crawl, newest first."""
    return [action_answer(one) for one in await request.app[PARTS].control.actions.latest(asked.limit)]


def action_answer(action: Action) -> models.ActionAnswer:
    """An action as it is told."""
    return models.ActionAnswer(
        action.id, action.at, action.who, action.verb, action.sentence, action.undoable, action.undone_at
    )


def _unknown(url: str) -> RefusedError:
    return RefusedError(404, f"{url} is not a page of the list")
