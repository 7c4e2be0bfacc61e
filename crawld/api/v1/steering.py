"""Endpoints that steer the daemon."""

import asyncio
from collections.abc import Mapping, Sequence

from aiohttp import web

from crawld.api.v1.endpoints import PARTS
from crawld.api.v1.models import HostAnswer, Nothing, SetBandwidth, SetHost, SetUrls, UrlsAnswer
from crawld.interfaces import Steered
from crawld.model.host import host_name
from crawld.model.page import Wanted
from crawld.model.url import normalise

URLS_AT_ONCE = 200
"""Addresses read before others get their turn: some 5 ms."""


async def bandwidth(request: web.Request, asked: SetBandwidth) -> Mapping[str, object]:
    """Change the request rate."""
    control = request.app[PARTS].control
    await control.change_bandwidth(float(asked.rate))
    return await control.status()


async def pause(request: web.Request, _: Nothing) -> Mapping[str, object]:
    """Stop crawling until told to go on."""
    control = request.app[PARTS].control
    await control.pause(paused=True)
    return await control.status()


async def resume(request: web.Request, _: Nothing) -> Mapping[str, object]:
    """Go on crawling."""
    control = request.app[PARTS].control
    await control.pause(paused=False)
    return await control.status()


async def host(request: web.Request, asked: SetHost) -> HostAnswer:
    """Block or unblock a host, give it a delay of its own or drop that."""
    drop = "delay" in asked.model_fields_set and asked.delay is None
    delay = None if asked.delay is None else float(asked.delay)
    name = host_name(asked.host)
    steered = await request.app[PARTS].control.steer_host(name, blocked=asked.blocked, delay=delay, drop_delay=drop)
    return host_answer(steered)


def host_answer(steered: Steered) -> HostAnswer:
    """A host after it was steered."""
    state = steered.state
    return HostAnswer(state.name, state.blocked, state.delay, state.blocked_until, steered.spacing, steered.kept)


async def urls(request: web.Request, asked: SetUrls) -> UrlsAnswer:
    """Add pages, and remove others."""
    control, added, reweighted = request.app[PARTS].control, 0, 0
    wanted = [Wanted(url, one.importance) for url, one in zip(await _spelt([w.url for w in asked.add]), asked.add)]
    unwanted = await _spelt(asked.remove)
    removed = await control.remove_pages(unwanted) if unwanted else ()
    if wanted:
        adoption = await control.add_pages(wanted)
        added, reweighted = len(adoption.added) + len(adoption.returned), len(adoption.reweighted)
    return UrlsAnswer(added, reweighted, list(removed))


async def _spelt(urls: Sequence[str]) -> list[str]:
    """URLs as they are asked for; others get their turn between them."""
    found = []
    for number, url in enumerate(urls):
        if number % URLS_AT_ONCE == 0:
            await asyncio.sleep(0)
        found.append(normalise(url))
    return found
