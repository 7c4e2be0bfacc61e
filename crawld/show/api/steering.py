"""Endpoints that steer the daemon: each is an action in the asker's name, logged and kept."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from crawld.model.errors import InputError
from crawld.model.host import host_name
from crawld.model.page import BY_HAND
from crawld.model.url import normalise
from crawld.show.actions import Steered
from crawld.show.api import models
from crawld.show.api.access import actor_of
from crawld.show.api.endpoints import PARTS
from crawld.show.api.reading import action_answer, status
from crawld.show.api.reading import read as read_marks
from crawld.show.api.reading import rules as read_rules
from crawld.show.report import Status
from crawld.store.settings import Action


async def act(request: web.Request, verb: str, **what: object) -> Action:
    """Does something in the asker's name."""
    return await request.app[PARTS].control.actions.act(actor_of(request), verb, what)


async def bandwidth(request: web.Request, asked: models.SetBandwidth) -> Status:
    """Change the request rate."""
    await act(request, "bandwidth", rate=float(asked.rate))
    return await status(request, models.Nothing())


async def pause(request: web.Request, _: models.Nothing) -> Status:
    """Stop crawling until told to go on."""
    await act(request, "pause")
    return await status(request, models.Nothing())


async def resume(request: web.Request, _: models.Nothing) -> Status:
    """Go on crawling."""
    await act(request, "resume")
    return await status(request, models.Nothing())


async def host(request: web.Request, asked: models.SetHost) -> models.HostAnswer:
    """Block or unblock a host, give it a delay of its own or drop that."""
    return host_answer((await act(request, "host", **host_order(asked))).result)


def host_order(asked: models.SetHost) -> Mapping[str, Any]:
    """What is asked of a host, as the action takes it."""
    drop = "delay" in asked.model_fields_set and asked.delay is None
    delay = None if asked.delay is None else float(asked.delay)
    return {"host": host_name(asked.host), "blocked": asked.blocked, "delay": delay, "drop_delay": drop}


def host_answer(steered: Steered) -> models.HostAnswer:
    """A host after it was steered."""
    state = steered.state
    return models.HostAnswer(state.name, state.blocked, state.delay, state.blocked_until, steered.spacing, steered.kept)


async def urls(request: web.Request, asked: models.SetUrls) -> models.UrlsAnswer:
    """Add pages, and remove others."""
    added, reweighted, removed = 0, 0, ()
    wanted = [(url, one.importance) for url, one in zip(await spelt([w.url for w in asked.add]), asked.add)]
    unwanted = await spelt(asked.remove)
    if unwanted:
        removed = (await act(request, "remove", urls=unwanted, keep_out=asked.keep_out)).result
    origins: Mapping[str, str] = await request.app[PARTS].control.origins(removed) if removed else {}
    if wanted:
        adoption = (await act(request, "add", wanted=wanted)).result
        added, reweighted = len(adoption.added) + len(adoption.returned), len(adoption.reweighted)
    returning = [url for url, origin in origins.items() if origin != BY_HAND]
    return models.UrlsAnswer(added, reweighted, list(removed), returning)


async def add_pages(request: web.Request, asked: models.AddPages) -> models.AddAnswer:
    """Keep pages; the answer comes when they have their first copies, or after `wait` seconds."""
    parts, chosen = request.app[PARTS], asked.wanted
    if not chosen:
        raise InputError('give {"url": "https://…"}, {"urls": […]} or {"add": [{"url": …, "importance": …}]}')
    named = await spelt([one.url for one in chosen])
    wanted = [(url, one.importance) for url, one in zip(named, chosen)]
    adoption = (await act(request, "add", wanted=wanted)).result
    if asked.wait:
        await parts.fresh.first_copies(named, asked.wait)
    views = [await parts.read.page(url, crawls=0, signals=0, changes=0) for url in named[:100]]
    added = len(adoption.added) + len(adoption.returned)
    return models.AddAnswer(added, len(adoption.reweighted), [view.page for view in views if view is not None])


async def refresh(request: web.Request, asked: models.AskRefresh) -> models.RefreshAnswer:
    """Crawl pages before all others; the answer comes when they are crawled, or after `wait` seconds."""
    return models.RefreshAnswer((await act(request, "refresh", urls=list(asked.urls), wait=asked.wait)).result)


async def rules(request: web.Request, asked: models.SetRules) -> models.RulesAnswer:
    """Ignore parts of pages, and compare others again."""
    if asked.compare:
        await act(request, "compare", marks=list(asked.compare))
    for one in asked.ignore:
        await act(request, "ignore", url=one.url, selectors=list(one.selectors), host=one.host)
    return await read_rules(request, models.AskRules(url=asked.ignore[0].url if asked.ignore else None))


async def mark_read(request: web.Request, asked: models.SetRead) -> models.ReadAnswer:
    """Mark changes as read."""
    await act(request, "read", until=asked.until)
    return await read_marks(request, models.Nothing())


async def undo(request: web.Request, asked: models.AskUndo) -> models.ActionAnswer:
    """Undo an action; the action that did so."""
    return action_answer(await request.app[PARTS].control.actions.undo(actor_of(request), asked.action))


async def spelt(urls: Sequence[str]) -> list[str]:
    """URLs as they are asked for; others get their turn between them."""
    found = []
    for number, url in enumerate(urls):
        if number % 200 == 0:  # some 5 ms
            await asyncio.sleep(0)
        found.append(normalise(url))
    return found
