"""Changes as they are committed: by cursor with a wait, and as a stream of events.

Both go by the same cursor, the number of a change: a reader that goes on from its last number misses nothing
that is kept and sees nothing twice.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.sax.saxutils import escape, quoteattr

from aiohttp import web

from crawld.model.crawl import ChangeVerdict
from crawld.model.errors import InputError
from crawld.model.page import Document
from crawld.show.api.access import RefusedError
from crawld.show.api.endpoints import PARTS
from crawld.show.api.models import LIMITS as MODELS_LIMITS
from crawld.show.api.models import AskChanges, AskEvents, AskFeed
from crawld.show.report import adapter
from crawld.store.views import Change, Changes


@dataclass(frozen=True)
class FollowingLimits:
    """Numbers that bound and tune this module."""

    gather_seconds: float = 0.2
    """Between a commit and the look at it: many followers then read one part each instead of one for every commit."""
    beat_seconds: float = 15.0
    """Between two signs of life in a stream without changes: proxies close what is silent for a minute."""
    look_seconds: float = 1.0
    """Between two looks whether the asker is still there: one that left gives its place to another."""
    events_at_once: int = 100
    texts_at_once: int = 20
    read_at_once: int = 20
    """Changes whose texts are looked for at once, and copies that are read for them where no text was kept."""
    far: int = 10_000
    """Changes passed over after which those that follow are looked at before an answer waits."""
    max_followers: int = 32
    """Requests that wait for changes at once."""
    answer_bytes: int = 1 << 20
    """Bytes of texts after which an answer ends."""


LIMITS = FollowingLimits()


XML_BANNED = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
"""Characters that XML cannot hold."""


async def feed(request: web.Request, asked: AskFeed) -> web.Response:
    """The feed; what opens it is checked before (`crawld.show.api.access`)."""
    read = request.app[PARTS].read
    chosen = [verdict for verdict in ChangeVerdict if asked.first or verdict is not ChangeVerdict.NEW]
    if asked.url is None:
        changes: Sequence[Change] = (await read.latest_changes(limit=asked.limit, verdicts=chosen)).changes
    else:
        view = await read.page(asked.url, crawls=0, signals=0, changes=asked.limit)
        if view is None:
            raise RefusedError(404, f"{asked.url} is not a page of the list")
        changes = [change for change in view.changes if change.verdict in chosen]
    at = changes[0].at if changes else request.app[PARTS].clock.now()
    body = atom(changes, f"{request.scheme}://{request.host}", asked.url, at)
    return web.Response(text=body, content_type="application/atom+xml", headers={"Cache-Control": "no-store"})


def atom(changes: Sequence[Change], base: str, url: str | None, at: float) -> str:
    """The document; links to the dashboard begin with `base`."""
    name = "crawld: changes" + (f" of {url}" if url else "")
    head = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_text(name)}</title><id>{uuid.uuid5(uuid.NAMESPACE_URL, f'{base} {url}').urn}</id>",
        f"<updated>{_time(at)}</updated><author><name>crawld</name></author>",
        f'<link rel="alternate" href={_attribute(f"{base}/changes")}/>',
    ]
    return "\n".join([*head, *(line for change in changes for line in _entry(change, base)), "</feed>", ""])


def _entry(change: Change, base: str) -> Iterator[str]:
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"{change.url} {change.id} {change.at}").urn
    shown = f"{change.verdict.value}: {change.title or change.url}"
    much = "" if change.magnitude is None else f", {100 * change.magnitude:.0f} % of the text"
    yield f"<entry><title>{_text(shown)}</title><id>{number}</id><updated>{_time(change.at)}</updated>"
    yield f'<link rel="alternate" href={_attribute(change.url)}/>'
    if change.version is not None and change.previous is not None:
        asked = urlencode({"url": change.url, "from": change.previous, "to": change.version})
        yield f'<link rel="related" title="difference" href={_attribute(f"{base}/diff?{asked}")}/>'
    yield f"<summary>{_text(f'{change.verdict.value}{much}: {change.url}')}</summary></entry>"


def _text(text: str) -> str:
    return escape(text.translate(XML_BANNED))


def _attribute(text: str) -> str:
    return quoteattr(text.translate(XML_BANNED))


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


log = logging.getLogger(__name__)
FOLLOWERS = web.AppKey("followers", asyncio.Semaphore)


async def changes(request: web.Request, asked: AskChanges) -> Changes | web.Response:
    """The changes after a cursor, with the texts that are asked for; where there is none yet, it waits for one."""
    found = await _changes(request, asked)
    return found if asked.include is None else await _with_texts(request, found, asked.include)


async def _changes(request: web.Request, asked: AskChanges) -> Changes:
    parts = request.app[PARTS]
    after = await _cursor(request, asked.after)
    until = parts.clock.monotonic() + asked.wait
    found = await _read(request, after, asked.limit, asked, asked.url)
    if found.changes or found.missed or not asked.wait:
        return found
    async with _following(request):
        while True:
            committed = parts.events.next()  # before looking: what is committed meanwhile sets it
            found = await _read(request, found.cursor, asked.limit, asked, asked.url)
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
        found = await parts.read.changes(cursor, LIMITS.events_at_once)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            await response.write(_missed(found) if found.missed else b": changes follow\n\n")
            await _stream(request, response, cursor, asked)
        except ConnectionResetError:
            log.debug("a follower of the changes left")
    return response


async def _read(
    request: web.Request, after: int, limit: int, asked: AskChanges | AskEvents, url: str | None = None
) -> Changes:
    """Changes after a cursor, of some kinds: those that are not told are passed over part by part."""
    read, missed = request.app[PARTS].read, False
    while True:
        found = await read.changes(after, limit, url=url, kinds=asked.kinds, use=asked.use)
        missed = missed or found.missed
        if found.changes or not asked.kinds or found.cursor - after < LIMITS.far:
            return replace(found, missed=missed)
        after = found.cursor


async def _stream(request: web.Request, response: web.StreamResponse, cursor: int, asked: AskEvents) -> None:
    """Write changes, with their texts where these are included, until the follower leaves."""
    parts = request.app[PARTS]
    while True:
        committed = parts.events.next()
        found = await _read(request, cursor, LIMITS.events_at_once, asked)
        for start in range(0, len(found.changes), LIMITS.texts_at_once):
            some = found.changes[start : start + LIMITS.texts_at_once]
            if asked.include is not None:
                some = await _texts(request, some, asked.include)
            await response.write(b"".join(map(_event, some)))
        cursor = found.cursor
        if len(found.changes) < LIMITS.events_at_once and not await _wait(request, committed, LIMITS.beat_seconds):
            await response.write(b": still here\n\n")


async def _with_texts(request: web.Request, found: Changes, include: str) -> web.Response:
    """An answer with texts, written change by change: all at once would stop the loop for as long.

    It ends early where texts are large; its cursor goes on from there.
    """
    told: list[bytes] = []
    size, cursor = 0, found.cursor
    for start in range(0, len(found.changes), LIMITS.texts_at_once):
        for change in await _texts(request, found.changes[start : start + LIMITS.texts_at_once], include):
            told.append(adapter(Change).dump_json(change))
            size += len(told[-1])
        if size > LIMITS.answer_bytes and start + LIMITS.texts_at_once < len(found.changes):
            cursor = found.changes[start + LIMITS.texts_at_once - 1].id
            break
        await asyncio.sleep(0)
    rest = adapter(Changes).dump_json(replace(found, changes=(), cursor=cursor))
    body = rest.replace(b'"changes":[]', b'"changes":[%b]' % b",".join(told), 1)
    return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})


async def _texts(request: web.Request, changes: Sequence[Change], include: str) -> Sequence[Change]:
    """Changes with the texts of their versions: those that are kept, and the others read now."""
    parts = request.app[PARTS]
    versions = [change.version for change in changes if change.version is not None]
    found: dict[int, Document | None] = dict(await parts.read.documents(versions)) if versions else {}
    missing = [version for version in versions if version not in found]
    for start in range(0, len(missing), LIMITS.read_at_once):
        bodies = list((await parts.read.version_bodies(missing[start : start + LIMITS.read_at_once])).values())
        found |= dict(zip((one.version.id for one in bodies), await parts.texts.documents(bodies)))
    told = []
    for change in changes:
        document = None if change.version is None else found.get(change.version)
        text = None if document is None else document.markdown if include == "markdown" else document.text
        told.append(replace(change, markdown=text) if include == "markdown" else replace(change, text=text))
    return told


def _missed(found: Changes) -> bytes:
    return b'event: missed\ndata: {"first": %d}\n\n' % found.first


def _event(change: Change) -> bytes:
    return b"id: %d\nevent: change\ndata: %b\n\n" % (change.id, adapter(Change).dump_json(change))


def _last_event(request: web.Request) -> int:
    given = request.headers["Last-Event-ID"].strip()
    if not (given.isascii() and given.isdecimal() and int(given[:20]) <= MODELS_LIMITS.largest):
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
            async with asyncio.timeout(min(left, LIMITS.look_seconds)):
                await committed.wait()
        except TimeoutError:
            continue
        await asyncio.sleep(LIMITS.gather_seconds)
        return True
    return False


@asynccontextmanager
async def _following(request: web.Request) -> AsyncIterator[None]:
    """One of a few places to wait in."""
    places = request.app[FOLLOWERS]
    if places.locked():
        sentence = f"{LIMITS.max_followers} requests wait for changes already: try again later"
        raise RefusedError(503, sentence, Retry_After="10")
    async with places:
        yield
