"""The feeds a page links to in its head."""

import re

from crawld.content.lists.listing import locate

HEAD_BYTES = 65_536
MOST_LINKS = 20
FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json"})

_LINK = re.compile(r"<link\b([^<>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"(?<![a-z-])([a-z-]{1,20}+)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)


def feed_links(body: bytes, url: str) -> list[str]:
    """Addresses of the feeds that a page's `<link rel=alternate>` elements name; comments' feeds are left out."""
    head = body[:HEAD_BYTES].decode("utf-8", "replace")
    found: dict[str, None] = {}
    for link in _LINK.findall(head)[: 10 * MOST_LINKS]:
        attributes = {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(link)}
        kind = attributes.get("type", "").partition(";")[0].strip().lower()
        if kind not in FEED_TYPES or "alternate" not in attributes.get("rel", "").lower().split():
            continue
        target = locate(attributes.get("href", "").replace("&amp;", "&"), url) if attributes.get("href") else None
        if target and "/comments/" not in target:  # they tell of comments, not of the page
            found[target] = None
        if len(found) >= MOST_LINKS:
            break
    return list(found)
