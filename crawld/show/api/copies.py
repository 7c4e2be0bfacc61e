"""Copies of pages over HTTP: as bytes, as text or as Markdown, with their age, and conditional requests answered."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import formatdate, parsedate_to_datetime
from enum import StrEnum

from aiohttp import web

from crawld.crawl.reads import Freshened
from crawld.model.errors import TooCostlyError
from crawld.model.page import Document
from crawld.model.usage import Usage
from crawld.show.api.access import RefusedError, use_denied
from crawld.show.api.endpoints import PARTS
from crawld.show.api.models import AskCopy
from crawld.store.views import Copy, Gone


@dataclass(frozen=True)
class CopiesLimits:
    """Numbers that bound and tune this module."""

    max_copies: int = 4
    """Copies served at once, each up to `fetch.max_bytes` in memory until its reader has it."""
    wait_seconds: float = 10.0
    """For which a request waits for its place among those; then it is told to come again."""
    copy_seconds: float = 60.0
    """In which a reader has to take a copy."""
    piece_bytes: int = 65_536
    """Written of a copy at once: the rest waits until the reader has taken it."""


LIMITS = CopiesLimits()


EVEN_GONE = "X-Include-Gone"
"""The request header that asks for the last copy of a page even where the page is gone."""
COPY_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept",
}
"""A copy is a foreign page: shown in a browser it runs nothing, loads nothing and has no origin."""
_TYPE = re.compile(
    r"[\w.+-]{1,100}/[\w.+-]{1,100}(\s*;\s*[\w.+-]{1,50}=(\"[\w .:/+-]{0,100}\"|[\w.:/+-]{1,100})){0,4}", re.ASCII
)
SERVED = web.AppKey("served", asyncio.Semaphore)


class CopyForm(StrEnum):
    """The forms of a copy."""

    OWN = "own"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"


@asynccontextmanager
async def place_among(places: asyncio.Semaphore) -> AsyncIterator[None]:
    """One of a few places; RefusedError where none becomes free in time."""
    try:
        async with asyncio.timeout(LIMITS.wait_seconds):
            await places.acquire()
    except TimeoutError:
        raise RefusedError(503, "too many requests at once: try again later", Retry_After="10") from None
    try:
        yield
    finally:
        places.release()


async def copy(request: web.Request, asked: AskCopy) -> web.StreamResponse:
    """The copy of a page: its bytes, or its text or Markdown where that is what is asked for."""
    parts = request.app[PARTS]
    even_gone = request.headers.get(EVEN_GONE, "").strip().lower() in {"1", "true", "yes"}
    through = Freshened("fresh")
    if asked.version is None:  # before it takes one of the few places: it may wait
        through = await parts.fresh.freshen(asked.url, asked.min_freshness, asked.wait)
    async with place_among(request.app[SERVED]):
        found = await parts.copies.copy(asked.url, even_gone=even_gone or asked.version is not None)
        if asked.version is not None and isinstance(found, Copy) and found.version != asked.version:
            found = await _earlier(request, asked.url, asked.version, found)
        if found is None:
            return web.json_response({"error": _no_copy(asked, through)}, status=404)
        if isinstance(found, Gone):
            return _gone(found)
        if asked.use is not None and not found.usage.allows(asked.use):
            raise use_denied(asked.use)
        return await _answer(request, found, through)


def _no_copy(asked: AskCopy, through: Freshened) -> str:
    """Returns why there is no copy, and what to do about it."""
    if asked.version is not None:
        return f"version {asked.version} of {asked.url} is not kept"
    if through.state == "unknown":
        how = """`crawld urls add URL`, or POST /v1/pages with {"url": "…", "wait": 10}"""
        return f"{asked.url} is not kept: add it with {how}"
    why = f" ({through.reason})" if through.reason else ""
    return f"there is no copy of {asked.url} yet{why}: `wait` waits for the first one"


async def _earlier(request: web.Request, url: str, number: int, latest: Copy) -> Copy | None:
    """Returns a kept version that is not the latest; its freshness is not known."""
    kept = await request.app[PARTS].read.version(url, number)
    if kept is None:
        return None
    about = kept.version
    return replace(
        latest,
        body=kept.body,
        content_type=about.content_type,
        fetched_at=about.at,
        checked_at=about.at,
        freshness=None,
        version=number,
    )


async def _answer(request: web.Request, found: Copy, through: Freshened) -> web.StreamResponse:
    own = plausible_type(found.content_type)
    form = chosen_form(request.headers.get("Accept", "*/*"), own)
    if form is None:
        raise RefusedError(406, f"the copy is available as {own.partition(';')[0]}, text/markdown or text/plain")
    headers = _headers(found, request.app[PARTS].clock.now()) | COPY_HEADERS | _through_headers(through)
    mark = "" if form == CopyForm.OWN else f"-{form.rpartition('/')[2]}"
    headers["ETag"] = f'"{found.version or 0:x}-{int(found.fetched_at * 1000):x}{mark}"'
    if unchanged(request.headers, headers["ETag"], found.fetched_at):
        return web.Response(status=304, headers=headers)
    if form == CopyForm.OWN:
        return await _send_whole(request, headers | {"Content-Type": own}, found.body)
    document = await document_of(request, found)
    if document is None:
        raise RefusedError(406, f"this copy has no text: it is available as {own.partition(';')[0]}")
    body = (document.markdown if form == CopyForm.MARKDOWN else document.text).encode("utf-8", "replace")
    headers |= {"Content-Type": f"{form}; charset=utf-8"}
    if document.language:
        headers["Content-Language"] = document.language
    return await _send_whole(request, headers, body)


async def document_of(request: web.Request, found: Copy) -> Document | None:
    """A copy as a reader has it: as it was kept, or else read now."""
    parts = request.app[PARTS]
    if found.version is not None:
        kept = await parts.read.documents([found.version])
        if found.version in kept:
            return kept[found.version]
    try:
        return await parts.texts.document(found)
    except TooCostlyError as error:
        raise RefusedError(422, f"the text of this copy cannot be read: {error}") from None


def _headers(found: Copy, now: float) -> dict[str, str]:
    seen = found.fetched_at if found.checked_at is None else found.checked_at
    headers = {
        "Age": str(max(int(now - seen), 0)),
        "Last-Modified": formatdate(found.fetched_at, usegmt=True),
        "X-Fetched-At": formatdate(found.fetched_at, usegmt=True),
    }
    if found.version is not None:
        headers["X-Version"] = str(found.version)
    headers |= _usage_headers(found.usage)
    if found.gone is not None:
        return headers | {"X-Gone-Since": formatdate(found.gone.since, usegmt=True)}
    if found.checked_at is not None:
        headers["X-Checked-At"] = formatdate(found.checked_at, usegmt=True)
    if found.freshness is not None:
        headers["X-Freshness"] = f"{found.freshness:.4f}"
    return headers


def _usage_headers(usage: Usage) -> dict[str, str]:
    """Returns what a page may be used for, in the words in which sites say it."""
    told = [name for name, said in (("noarchive", usage.noarchive), ("nosnippet", usage.nosnippet)) if said]
    headers = {"Content-Signal": usage.header} if usage.header else {}
    if told:
        headers["X-Robots-Tag"] = ", ".join(told)
    if usage.license is not None:
        headers["Link"] = f'<{usage.license}>; rel="license"; type="application/rsl+xml"'
    return headers


def _through_headers(through: Freshened) -> dict[str, str]:
    """Tells whether the page was fetched for this read, and else why not."""
    if through.reason is not None:
        reason = through.reason.encode("ascii", "replace").decode().replace("\r", " ").replace("\n", " ")
        return {"X-Read-Through": through.state, "X-Stale-Reason": reason[:300]}
    return {"X-Read-Through": through.state} if through.state == "crawled" else {}


def unchanged(headers: Mapping[str, str], etag: str, modified: float) -> bool:
    """Tells whether the asker has this copy already: by its tag, or by its time where no tag is given."""
    tags = headers.get("If-None-Match")
    if tags is not None:
        return tags.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    since = headers.get("If-Modified-Since")
    try:
        return since is not None and int(modified) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, OverflowError):
        return False


def chosen_form(accept: str, own: str) -> str | None:
    """The form that is wanted of a copy of that type: its own, Markdown or text; None where none of them is taken."""
    kind = own.partition(";")[0].strip().lower()
    weights: dict[str, float] = {}
    for part in accept.split(",")[:50]:
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((given[2:] for given in parameters if given.startswith("q=")), "1")
        try:
            weights[name] = min(max(float(quality), 0.0), 1.0)
        except ValueError:
            weights[name] = 0.0
    whole = _weight(weights, kind)
    forms = [
        form for form in (CopyForm.MARKDOWN, CopyForm.TEXT) if form in weights and form != kind and weights[form] > 0
    ]
    forms.sort(key=lambda form: -weights[form])
    if forms and (weights[forms[0]] > whole or kind not in weights):
        return forms[0]
    if whole > 0:
        return CopyForm.OWN
    return CopyForm.TEXT if _weight(weights, CopyForm.TEXT) > 0 else None


def _weight(weights: Mapping[str, float], kind: str) -> float:
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in weights:
            return weights[name]
    return 0.0


async def _send_whole(request: web.Request, headers: Mapping[str, str], body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    response.content_length = len(body)
    try:
        async with asyncio.timeout(LIMITS.copy_seconds):
            await response.prepare(request)
            if request.method != "HEAD":
                for start in range(0, len(body), LIMITS.piece_bytes):
                    await response.write(body[start : start + LIMITS.piece_bytes])
            await response.write_eof()
    except TimeoutError:
        response.force_close()
        if request.transport is not None:
            request.transport.abort()
    return response


def _gone(found: Gone) -> web.Response:
    since = formatdate(found.since, usegmt=True)
    status = f" ({found.status})" if found.status else ""
    what = f"the last copy comes with the request header {EVEN_GONE}: 1" if found.held else "no copy is held"
    said = {"error": f"gone since {since}{status}; {what}", "gone_since": found.since, "status": found.status}
    return web.json_response(said, status=410, headers={"X-Gone-Since": since})


def plausible_type(given: str | None) -> str:
    """The content type a server gave, where it is one; it stands in our own header."""
    return given if given is not None and _TYPE.fullmatch(given) else "application/octet-stream"
