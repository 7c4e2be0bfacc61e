"""Endpoints that steer the daemon: each is an action in the asker's name, logged and kept."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from crawld.model.errors import InputError
from crawld.model.host import host_name
from crawld.model.page import BY_HAND
from crawld.model.url import normalise
from crawld.show.actions import Steered
from crawld.show.api.access import actor_of
from crawld.show.api.endpoints import PARTS
from crawld.show.api.models import (
    ActionAnswer,
    AddAnswer,
    AddPages,
    AskRefresh,
    AskRules,
    AskUndo,
    HostAnswer,
    Nothing,
    ReadAnswer,
    RefreshAnswer,
    RulesAnswer,
    SetBandwidth,
    SetHost,
    SetRead,
    SetRules,
    SetUrls,
    UrlsAnswer,
)
from crawld.show.api.reading import action_answer, status
from crawld.show.api.reading import read as read_marks
from crawld.show.api.reading import rules as read_rules
from crawld.show.report import Status
from crawld.store.settings import Action


@dataclass(frozen=True)
class ApiSteeringLimits:
    """Numbers that bound and tune this module."""

    urls_at_once: int = 200
    """Addresses read before others get their turn: some 5 ms."""
    max_told: int = 100
    """Pages that an answer tells of."""


LIMITS = ApiSteeringLimits()


async def _act(request: web.Request, verb: str, **what: object) -> Action:
    return await request.app[PARTS].control.actions.act(actor_of(request), verb, what)


async def bandwidth(request: web.Request, asked: SetBandwidth) -> Status:
    """Change the request rate."""
    await _act(request, "bandwidth", rate=float(asked.rate))
    return await status(request, Nothing())


async def pause(request: web.Request, _: Nothing) -> Status:
    """Stop crawling until told to go on."""
    await _act(request, "pause")
    return await status(request, Nothing())


async def resume(request: web.Request, _: Nothing) -> Status:
    """Go on crawling."""
    await _act(request, "resume")
    return await status(request, Nothing())


async def host(request: web.Request, asked: SetHost) -> HostAnswer:
    """Block or unblock a host, give it a delay of its own or drop that."""
    drop = "delay" in asked.model_fields_set and asked.delay is None
    delay = None if asked.delay is None else float(asked.delay)
    name = host_name(asked.host)
    done = await _act(request, "host", host=name, blocked=asked.blocked, delay=delay, drop_delay=drop)
    return host_answer(done.result)


def host_answer(steered: Steered) -> HostAnswer:
    """A host after it was steered."""
    state = steered.state
    return HostAnswer(state.name, state.blocked, state.delay, state.blocked_until, steered.spacing, steered.kept)


async def urls(request: web.Request, asked: SetUrls) -> UrlsAnswer:
    """Add pages, and remove others."""
    added, reweighted, removed = 0, 0, ()
    wanted = [(url, one.importance) for url, one in zip(await _spelt([w.url for w in asked.add]), asked.add)]
    unwanted = await _spelt(asked.remove)
    if unwanted:
        removed = (await _act(request, "remove", urls=unwanted, keep_out=asked.keep_out)).result
    origins: Mapping[str, str] = await request.app[PARTS].control.origins(removed) if removed else {}
    if wanted:
        adoption = (await _act(request, "add", wanted=wanted)).result
        added, reweighted = len(adoption.added) + len(adoption.returned), len(adoption.reweighted)
    returning = [url for url, origin in origins.items() if origin != BY_HAND]
    return UrlsAnswer(added, reweighted, list(removed), returning)


async def add_pages(request: web.Request, asked: AddPages) -> AddAnswer:
    """Keep pages; the answer comes when they have their first copies, or after `wait` seconds."""
    parts, chosen = request.app[PARTS], asked.wanted
    if not chosen:
        raise InputError('give {"url": "https://…"}, {"urls": […]} or {"add": [{"url": …, "importance": …}]}')
    spelt = await _spelt([one.url for one in chosen])
    wanted = [(url, one.importance) for url, one in zip(spelt, chosen)]
    adoption = (await _act(request, "add", wanted=wanted)).result
    if asked.wait:
        await parts.fresh.first_copies(spelt, asked.wait)
    views = [await parts.read.page(url, crawls=0, signals=0, changes=0) for url in spelt[: LIMITS.max_told]]
    added = len(adoption.added) + len(adoption.returned)
    return AddAnswer(added, len(adoption.reweighted), [view.page for view in views if view is not None])


async def refresh(request: web.Request, asked: AskRefresh) -> RefreshAnswer:
    """Crawl pages before all others; the answer comes when they are crawled, or after `wait` seconds."""
    return RefreshAnswer((await _act(request, "refresh", urls=list(asked.urls), wait=asked.wait)).result)


async def rules(request: web.Request, asked: SetRules) -> RulesAnswer:
    """Ignore parts of pages, and compare others again."""
    if asked.compare:
        await _act(request, "compare", marks=list(asked.compare))
    for one in asked.ignore:
        await _act(request, "ignore", url=one.url, selectors=list(one.selectors), host=one.host)
    return await read_rules(request, AskRules(url=asked.ignore[0].url if asked.ignore else None))


async def mark_read(request: web.Request, asked: SetRead) -> ReadAnswer:
    """Mark changes as read."""
    await _act(request, "read", until=asked.until)
    return await read_marks(request, Nothing())


async def undo(request: web.Request, asked: AskUndo) -> ActionAnswer:
    """Undo an action; the action that did so."""
    return action_answer(await request.app[PARTS].control.actions.undo(actor_of(request), asked.action))


async def _spelt(urls: Sequence[str]) -> list[str]:
    """URLs as they are asked for; others get their turn between them."""
    found = []
    for number, url in enumerate(urls):
        if number % LIMITS.urls_at_once == 0:
            await asyncio.sleep(0)
        found.append(normalise(url))
    return found
