"""Changes as they are committed: by cursor with a wait, and as a stream of events.

Both go by the same cursor, the number of a change: whoever goes on from the last number they have seen misses nothing
that is kept and sees nothing twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from crawld.api.refusals import RefusedError
from crawld.api.v1.endpoints import PARTS, adapter
from crawld.api.v1.models import LARGEST, AskChanges, AskEvents
from crawld.errors import InputError
from crawld.interfaces.read_model import Change, Changes
from crawld.model.usage import PageUse

GATHER_SECONDS = 0.2
"""Between a commit and the look at it: many followers then read one part each instead of one for every commit."""
BEAT_SECONDS = 15.0
"""Between two signs of life in a stream without changes: proxies close what is silent for a minute."""
LOOK_SECONDS = 1.0
"""Between two looks whether the asker is still there: one that left gives its place to another."""
EVENTS_AT_ONCE = 100
MOST_FOLLOWERS = 32
"""Requests that wait for changes at once."""
log = logging.getLogger(__name__)
FOLLOWERS = web.AppKey("followers", asyncio.Semaphore)


async def changes(request: web.Request, asked: AskChanges) -> Changes:
    """The changes after a cursor; where there is none yet, it waits for one."""
    parts = request.app[PARTS]
    after = await _cursor(request, asked.after)
    until = parts.clock.monotonic() + asked.wait
    found = await parts.read.changes(after, asked.limit, url=asked.url, use=asked.use)
    if found.changes or found.missed or not asked.wait:
        return found
    async with _following(request):
        while True:
            committed = parts.events.next()  # before looking: what is committed meanwhile sets it
            found = await parts.read.changes(found.cursor, asked.limit, url=asked.url, use=asked.use)
            left = until - parts.clock.monotonic()
            if found.changes or left <= 0:
                return found
            if not await _wait(request, committed, left):
                return found


async def events(request: web.Request, asked: AskEvents) -> web.StreamResponse:
    """Every change after a cursor as it comes, as server-sent events; each has its number as its id."""
    parts = request.app[PARTS]
    cursor = await _cursor(request, _last_event(request) if "Last-Event-ID" in request.headers else asked.after)
    async with _following(request):
        found = await parts.read.changes(cursor, EVENTS_AT_ONCE)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            await response.write(_missed(found) if found.missed else b": changes follow\n\n")
            await _stream(request, response, cursor, asked.use)
        except ConnectionResetError:
            log.debug("a follower of the changes left")
    return response


async def _stream(request: web.Request, response: web.StreamResponse, cursor: int, use: PageUse | None) -> None:
    """Write changes until the follower leaves."""
    parts = request.app[PARTS]
    while True:
        committed = parts.events.next()
        found = await parts.read.changes(cursor, EVENTS_AT_ONCE, use=use)
        if found.changes:
            await response.write(b"".join(map(_event, found.changes)))
        cursor = found.cursor
        if len(found.changes) < EVENTS_AT_ONCE and not await _wait(request, committed, BEAT_SECONDS):
            await response.write(b": still here\n\n")


def _missed(found: Changes) -> bytes:
    return b'event: missed\ndata: {"first": %d}\n\n' % found.first


def _event(change: Change) -> bytes:
    return b"id: %d\nevent: change\ndata: %b\n\n" % (change.id, adapter(Change).dump_json(change))


def _last_event(request: web.Request) -> int:
    given = request.headers["Last-Event-ID"].strip()
    if not (given.isascii() and given.isdecimal() and int(given[:20]) <= LARGEST):
        raise InputError("Last-Event-ID: must be the number of a change")
    return int(given)


async def _cursor(request: web.Request, given: int | str) -> int:
    if isinstance(given, int):
        return given
    return (await request.app[PARTS].read.latest_changes(limit=1)).cursor


async def _wait(request: web.Request, committed: asyncio.Event, seconds: float) -> bool:
    """Wait for a commit, and a moment for those that follow it; False after so long, or where the asker has left."""
    clock = request.app[PARTS].clock
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0 and request.transport is not None:
        if request.transport.is_closing():
            return False
        try:
            async with asyncio.timeout(min(left, LOOK_SECONDS)):
                await committed.wait()
        except TimeoutError:
            continue
        await asyncio.sleep(GATHER_SECONDS)
        return True
    return False


@asynccontextmanager
async def _following(request: web.Request) -> AsyncIterator[None]:
    """One of a few places to wait in."""
    places = request.app[FOLLOWERS]
    if places.locked():
        sentence = f"{MOST_FOLLOWERS} requests wait for changes already: try again later"
        raise RefusedError(503, sentence, Retry_After="10")
    async with places:
        yield
