"""The newest changes as an Atom feed (RFC 4287), for feed readers."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.sax.saxutils import escape, quoteattr

from aiohttp import web

from crawld.model.crawl import ChangeVerdict
from crawld.show.api.endpoints import PARTS
from crawld.show.api.models import AskFeed
from crawld.show.api.refusals import RefusedError
from crawld.store.views import Change

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
