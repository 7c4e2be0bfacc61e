"""Feeds to entries: RSS, Atom and JSON Feed, with the WebSub hubs they offer."""

import re
from dataclasses import dataclass
from typing import Any

from crawld.model.errors import InputError
from crawld.read.dates import SAYS_NOTHING, Claim, DateReader
from crawld.read.listing import LIMITS as LISTING_LIMITS
from crawld.read.listing import (
    Addresses,
    Entry,
    EntryKind,
    FileForm,
    Listing,
    Unreadable,
    UnreadableError,
    load_json,
    locate,
)
from crawld.read.xml_stream import (
    Element,
    begins_at,
    local_name,
    locate_in,
    read_entries,
    root_name,
    text_of,
    text_pieces,
)


@dataclass(frozen=True)
class FeedLimits:
    """Numbers that bound and tune this module."""

    max_json_characters: int = 4_000_000
    """JSON is read whole: this many of the widest characters are 16 MB."""
    max_json_values: int = 600_000
    """Values of a JSON Feed, a dozen for each of 50,000 items: each takes some hundred bytes at worst."""
    max_relation: int = 200
    max_dates: int = 3
    """Dates of one item that are tried until one can be used."""


LIMITS = FeedLimits()


FORM_OF_ROOT = {"rss": FileForm.RSS, "RDF": FileForm.RSS, "feed": FileForm.ATOM}

_DATES = ("updated", "modified", "pubDate", "published", "issued", "date", "created")
"""Elements that date an item: those of a change first."""


def read_feed(body: bytes, url: str, now: float) -> Listing:
    """The items of a feed found at `url` and read at `now`; UnreadableError names what is wrong."""
    head = next(text_pieces(body), "")
    start = begins_at(head)
    if head.lstrip("\ufeff \t\r\n").startswith("{"):
        return read_json_feed(body, url, now)
    if start is None:
        raise UnreadableError(Unreadable.NOT_XML if head.strip() else Unreadable.EMPTY)
    root = root_name(head[start:])
    if root not in FORM_OF_ROOT:
        raise UnreadableError(Unreadable.UNKNOWN_ROOT, f"<{root[:40]}> is no feed")
    return read_xml_feed(body, FORM_OF_ROOT[root], url, now)


def read_xml_feed(body: bytes, form: FileForm, url: str, now: float) -> Listing:
    """The items of RSS or Atom."""
    reader, well_formed = read_entries(body, ("item", "entry", "link"), lambda: _Items(url, now))
    if not well_formed and not reader.entries:
        raise UnreadableError(Unreadable.NOT_XML, "and no item can be made out")
    complete = well_formed and not reader.full
    return Listing(form, reader.entries, complete, reader.skipped, tuple(reader.hubs), reader.topic)


class _Items:
    """Reads items and the links of the feed itself."""

    def __init__(self, url: str, now: float) -> None:
        self.addresses, self.dates = Addresses(url), DateReader(now)
        self.entries: list[Entry] = []
        self.hubs: list[str] = []
        self.topic: str | None = None
        self.skipped = 0
        self.full = False

    def take(self, element: Element) -> bool:
        """Read an item, or a link of the feed."""
        if local_name(element) == "link":
            parent = element.getparent()
            if parent is not None and local_name(parent) in {"feed", "channel"}:
                self._take_link(element)
            return True
        if len(self.entries) + self.skipped >= LISTING_LIMITS.max_entries or self.addresses.exhausted:
            self.full = True
            return False
        entry = self._item(element)
        if entry is None:
            self.skipped += 1
        else:
            self.entries.append(entry)
        return True

    def _take_link(self, element: Element) -> None:
        relations = (element.get("rel") or "")[: LIMITS.max_relation].lower().split()
        if not {"hub", "self"}.intersection(relations):
            return
        target = locate_in(element, element.get("href") or "", self.addresses)
        if target and "hub" in relations and len(self.hubs) < 5:
            self.hubs.append(target)
        if target and "self" in relations:
            self.topic = target

    def _item(self, element: Element) -> Entry | None:
        link = name = ""
        named_by, permanent = element, False
        dates: dict[str, str] = {}
        for child in element:
            tag = local_name(child)
            if tag == "link" and not link:
                own = (child.get("rel") or "alternate") == "alternate"
                link, named_by = (child.get("href") or text_of(child)) if own else "", child
            elif tag in {"guid", "id"}:
                name = text_of(child).strip()
                permanent = tag == "guid" and (child.get("isPermaLink") or "true").strip().lower() == "true"
            elif tag in _DATES:
                dates[tag] = dates.get(tag) or text_of(child).strip()
        if not link and (permanent or name.startswith(("http://", "https://"))):
            link, named_by = name, element
        found = locate_in(named_by, link, self.addresses)
        return Entry(found, EntryKind.ITEM, _latest(dates, self.dates), name[:500]) if found else None


def _latest(given: dict[str, str], dates: DateReader) -> Claim | None:
    """Time at which an item says it changed, else at which it was published."""
    claims: list[Claim] = []
    texts = [given[name] for name in _DATES if name in given]
    for text in texts[: LIMITS.max_dates]:
        claim = dates.read(text)
        if claim.usable:
            return claim
        claims.append(claim)
    telling = [claim for claim in claims if claim.reason not in SAYS_NOTHING]
    return next(iter(telling or claims), None)


def read_json_feed(body: bytes, url: str, now: float) -> Listing:
    """The items of a JSON Feed."""
    pieces, total = [], 0
    for piece in text_pieces(body):
        total += len(piece)
        if total > LIMITS.max_json_characters:
            raise UnreadableError(Unreadable.TOO_LARGE, f"JSON of more than {LIMITS.max_json_characters:,} characters")
        pieces.append(piece)
    try:
        document = load_json("".join(pieces).lstrip("\ufeff"), LIMITS.max_json_values)
    except InputError as error:
        raise UnreadableError(Unreadable.NOT_JSON_FEED, str(error)) from None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise UnreadableError(Unreadable.NOT_JSON_FEED, "no list of items")
    addresses, dates = Addresses(url), DateReader(now)
    entries = [entry for item in items[: LISTING_LIMITS.max_entries] if (entry := _json_item(item, addresses, dates))]
    read = min(len(items), LISTING_LIMITS.max_entries)
    complete = read == len(items) and not addresses.exhausted
    hubs = document.get("hubs")
    named = [hub for hub in hubs[:5] if isinstance(hub, dict)] if isinstance(hubs, list) else []
    asked = [locate(_text(hub, "url"), url) for hub in named if _text(hub, "type").lower() == "websub"]
    topic = locate(_text(document, "feed_url"), url)
    return Listing(FileForm.JSON, entries, complete, read - len(entries), tuple(filter(None, asked)), topic)


def _json_item(item: Any, addresses: Addresses, dates: DateReader) -> Entry | None:
    if not isinstance(item, dict):
        return None
    name = _text(item, "id")
    found = addresses.locate(_text(item, "url") or (name if name.startswith(("http://", "https://")) else ""))
    given = {tag: _text(item, key) for tag, key in (("updated", "date_modified"), ("published", "date_published"))}
    claim = _latest({tag: text for tag, text in given.items() if text}, dates)
    return Entry(found, EntryKind.ITEM, claim, name[:500]) if found else None


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def links_of_header(value: str, url: str) -> tuple[list[str], str | None]:
    """The WebSub hubs and the topic that a `Link` header offers; these go before those inside the feed."""
    hubs: list[str] = []
    topic = None
    for address, parameters in re.findall(r"<([^<>]*)>([^<]*)", value[:8_000])[:50]:
        rel = re.search(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", parameters, re.IGNORECASE)
        relations = (rel[1] or rel[2] or "").lower().split() if rel else []
        target = locate(address, url)
        if target and "hub" in relations:
            hubs.append(target)
        if target and "self" in relations:
            topic = target
    return hubs[:5], topic
