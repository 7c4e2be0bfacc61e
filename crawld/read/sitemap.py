"""Sitemaps to entries, streamed: urlset, index, plain text, and feeds used as sitemaps."""

from dataclasses import dataclass

from crawld.read.dates import SAYS_NOTHING, Claim, DateReader
from crawld.read.feed import FORM_OF_ROOT, read_json_feed, read_xml_feed
from crawld.read.listing import LIMITS as LISTING_LIMITS
from crawld.read.listing import Addresses, Entry, EntryKind, FileForm, Listing, Unreadable, UnreadableError
from crawld.read.xml_stream import (
    Element,
    begins_at,
    children,
    local_name,
    locate_in,
    read_entries,
    root_name,
    text_of,
    text_pieces,
)


@dataclass(frozen=True)
class SitemapLimits:
    """Numbers that bound and tune this module."""

    max_line: int = 10_000  # of a plain text list: longer than any URL that can be asked
    max_lines: int = 200_000
    """Lines of a plain text list that are looked at, blank ones included."""
    max_alternates: int = 50_000
    """Addresses in other languages that are taken from one file, each once."""
    max_dates: int = 5
    """Dates of one entry that are read until one says something."""


LIMITS = SitemapLimits()


def read_sitemap(body: bytes, url: str, now: float) -> Listing:
    """Everything a sitemap (or a feed used as one) found at `url` and read at `now` lists.

    UnreadableError names what is wrong with a file that cannot be read.
    """
    head = next(text_pieces(body), "")
    visible = head.lstrip("\ufeff \t\r\n\0")
    if not visible:
        raise UnreadableError(Unreadable.EMPTY)
    start = begins_at(head)
    if visible.startswith("{") and start is None:
        return read_json_feed(body, url, now)
    if start is None or visible.startswith(("http://", "https://")):
        return _read_text(body, url)
    root = root_name(head[start:])
    if root in FORM_OF_ROOT:
        return read_xml_feed(body, FORM_OF_ROOT[root], url, now)
    if root not in {"urlset", "sitemapindex"}:
        raise UnreadableError(Unreadable.UNKNOWN_ROOT, f"<{root[:40]}> is no sitemap")
    return _read_urls(body, FileForm.URLSET if root == "urlset" else FileForm.INDEX, url, now)


def _read_urls(body: bytes, form: FileForm, url: str, now: float) -> Listing:
    reader, well_formed = read_entries(body, ("url", "sitemap"), lambda: _Urls(url, now), enough="loc")
    if not well_formed and not reader.entries:
        raise UnreadableError(Unreadable.NOT_XML, "and no URL can be made out")
    own = {entry.loc for entry in reader.entries}
    others = [Entry(loc, EntryKind.ALTERNATE) for loc in reader.alternates if loc not in own]
    return Listing(form, reader.entries + others, well_formed and not reader.full, reader.skipped)


class _Urls:
    """Reads the `url` and `sitemap` elements, whatever namespace they are in."""

    def __init__(self, url: str, now: float) -> None:
        self.addresses, self.dates = Addresses(url), DateReader(now)
        self.entries: list[Entry] = []
        self.alternates: dict[str, None] = {}  # in the order met
        self._seen: set[str] = set()  # alternates as they are written: languages name each other over and over
        self.skipped = 0
        self.full = False

    def take(self, element: Element) -> bool:
        """Read one entry; its own children alone, so that an image's loc is not taken for the page's."""
        parent = element.getparent()
        if parent is not None and parent.getparent() is not None:  # RSS-like <url> deep inside something else
            return True
        if len(self.entries) + self.skipped >= LISTING_LIMITS.max_entries or self.addresses.exhausted:
            self.full = True
            return False
        if not len(element) and not element.text:  # nothing inside: files made of these cost as little as they can
            self.skipped += 1
            return True
        loc, lastmod, published, dates = "", None, None, 0
        for child in children(element, ("{*}loc", "{*}lastmod", "{*}link", "{*}news")):
            tag = local_name(child)
            if tag == "loc":
                loc = loc or text_of(child)
            elif tag == "lastmod" and dates < LIMITS.max_dates:
                dates += 1
                lastmod = _telling(lastmod) or self.dates.read(text_of(child))
            elif tag == "link":
                self._take_alternate(child)
            elif tag == "news" and published is None:
                date = next((text_of(one) for one in child if local_name(one) == "publication_date"), None)
                published = None if date is None else self.dates.read(date)
        found = locate_in(element, loc or element.text or "", self.addresses)  # some write the URL without its <loc>
        if found is None:
            self.skipped += 1
        else:
            kind = EntryKind.SITEMAP if local_name(element) == "sitemap" else EntryKind.PAGE
            self.entries.append(Entry(found, kind, _telling(lastmod) or _telling(published) or lastmod))
        return True

    def _take_alternate(self, link: Element) -> None:
        href = link.get("href") or ""
        if href in self._seen or len(self._seen) >= 2 * LIMITS.max_alternates:
            return
        self._seen.add(href)
        found = locate_in(link, href, self.addresses)
        if found and len(self.alternates) < LIMITS.max_alternates:
            self.alternates[found] = None


def _telling(claim: Claim | None) -> Claim | None:
    """The claim, where it says anything: an empty one must not hide another."""
    return None if claim is None or claim.reason in SAYS_NOTHING else claim


def _read_text(body: bytes, url: str) -> Listing:
    """A plain text list, one URL a line; lines that are none are skipped."""
    entries: list[Entry] = []
    addresses = Addresses(url)
    skipped, seen, rest, whole = 0, 0, "", True
    for piece in text_pieces(body):
        lines = (rest + piece).splitlines(keepends=True)
        rest = "" if not lines or lines[-1].endswith(("\n", "\r")) else lines.pop()
        for line in lines:
            skipped += not _take_line(line, addresses, entries)
        seen += len(lines)
        if len(rest) > LIMITS.max_line:
            raise UnreadableError(Unreadable.NO_URLS, f"a line of more than {LIMITS.max_line:,} characters")
        if (
            len(entries) + skipped > LISTING_LIMITS.max_entries
            or seen > LIMITS.max_lines
            or (skipped > 100 and not entries)
        ):
            whole = False
            break
    else:
        skipped += not _take_line(rest, addresses, entries)
    if not entries:
        raise UnreadableError(Unreadable.NO_URLS, "neither XML nor a list of URLs")
    complete = whole and len(entries) + skipped <= LISTING_LIMITS.max_entries and not addresses.exhausted
    return Listing(FileForm.TEXT, entries[: LISTING_LIMITS.max_entries], complete, skipped)


def _take_line(line: str, addresses: Addresses, entries: list[Entry]) -> bool:
    """Tells whether the line was blank or brought an entry."""
    line = line.strip("\ufeff \t\r\n")
    if not line:
        return True
    found = addresses.locate(line) if line[:8].lower().startswith(("http://", "https://")) else None
    if found:
        entries.append(Entry(found, EntryKind.PAGE))
    return found is not None
