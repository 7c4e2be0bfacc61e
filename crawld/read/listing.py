"""Entries of a sitemap or feed in any form, and the named reasons why one cannot be read."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from crawld.model.errors import InputError, ParseError
from crawld.model.url import resolve
from crawld.read.dates import Claim


@dataclass(frozen=True)
class ListingLimits:
    """Numbers that bound and tune this module."""

    max_entries: int = 50_000  # of one file, as sitemaps.org sets it
    max_bytes: int = 50 * 1024 * 1024  # of one file, unpacked
    max_addresses: int = 300_000
    """Addresses of one file that are looked at: every entry, and a hundred thousand other languages and faulty ones."""
    max_address_characters: int = 20_000_000
    """Characters of the addresses taken from one file: encoded they may be three times as long as they were written."""
    max_encoded_hosts: int = 1_000
    """Different hosts of one file whose names must be encoded, which takes long; honest files have one or two."""


LIMITS = ListingLimits()


def load_json(text: str, max_values: int) -> Any:
    """The value of JSON from strangers; InputError where it is not JSON, or may hold more than so many values.

    Every list, object and further value needs one of the characters counted here; some of them stand in texts.
    """
    values = text.count("[") + text.count("{") + text.count(",")
    if values > max_values:
        raise InputError(f"JSON of more than {max_values:,} values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {str(error)[:100]}") from None


class FileForm(StrEnum):
    """Forms in which a file lists its URLs."""

    URLSET = "urlset"
    INDEX = "index"
    TEXT = "text"
    RSS = "rss"
    ATOM = "atom"
    JSON = "json"

    @property
    def is_feed(self) -> bool:
        """Tells whether entries come and go: a feed names the latest pages, a sitemap all of them."""
        return self in {FileForm.RSS, FileForm.ATOM, FileForm.JSON}


class EntryKind(StrEnum):
    """Kinds of entries."""

    PAGE = "page"
    ITEM = "item"  # of a feed
    SITEMAP = "sitemap"  # of an index
    ALTERNATE = "alternate"  # another language's address of a page: named, nothing claimed of it


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed URL, as it would be asked for, with the time it claims to have changed."""

    loc: str
    kind: EntryKind
    lastmod: Claim | None = None
    id: str = ""  # a feed's own name for it


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything one file lists. Where it is not `complete`, an absent entry proves nothing."""

    form: FileForm
    entries: Sequence[Entry]
    complete: bool = True
    skipped: int = 0  # entries without a URL that can be asked
    hubs: Sequence[str] = field(default=())  # WebSub
    topic: str | None = None  # the address under which the hubs know the feed


class Unreadable(StrEnum):
    """Every named reason why a file cannot be read."""

    EMPTY = "empty"
    TOO_LARGE = "too large"
    GZIP = "broken gzip"
    HTML = "an HTML page"
    DOCTYPE = "a DOCTYPE"
    NOT_XML = "not well-formed"
    ENTRY_TOO_LARGE = "an entry without end"
    UNKNOWN_ROOT = "unknown root element"
    NOT_JSON_FEED = "not a JSON Feed"
    NO_URLS = "no URLs"


class UnreadableError(ParseError):
    """A sitemap or feed that cannot be read, and why."""

    def __init__(self, reason: Unreadable, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason


def locate(text: str, base: str) -> str | None:
    """The target of a listed URL, None where it is none; a relative one is resolved against the file's."""
    text = text.strip()
    if not text or "{{" in text or "\ufffd" in text:
        return None
    try:
        return resolve(text, base)
    except InputError:
        return None


class Addresses:
    """The targets of all addresses of one file, within what one file may cost."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._encoded: dict[str, str | None] = {}  # origins as written -> as they are asked
        self._left = LIMITS.max_addresses
        self._characters_left = LIMITS.max_address_characters

    @property
    def exhausted(self) -> bool:
        """Tells whether the file has had its share: no address is looked at any more."""
        return self._left <= 0 or self._characters_left <= 0

    def locate(self, text: str, base: str | None = None) -> str | None:
        """The target of an address; None where it is none, or where the file has had its share."""
        if self.exhausted:
            return None
        self._left -= 1
        base = self.url if base is None else base
        found = locate(text, base) if text.isascii() and "%" not in text[:300] else self._locate_encoded(text, base)
        self._characters_left -= len(found or "")
        return found

    def _locate_encoded(self, text: str, base: str) -> str | None:
        """Locates an address whose host may need encoding, which is done once per host."""
        text = re.sub(r"[\t\r\n]+", "", text).strip()
        written = re.match(r"(?:(https?):)?[/\\]{2}([^/\\?#]*)", text, re.IGNORECASE)
        if written is None:
            return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) else locate(text, base)
        if not written[2].isascii() or "%" in written[2]:
            scheme = (written[1] or base.partition(":")[0]).lower()
            origin = self._origin(f"{scheme}://{written[2]}/")
            if origin is None:
                return None
            text = f"{origin}{text[written.end() :]}"
        return locate(text, base)

    def _origin(self, written: str) -> str | None:
        if written not in self._encoded:
            if len(self._encoded) >= LIMITS.max_encoded_hosts:
                return None
            target = locate(written, "")
            self._encoded[written] = None if target is None else target.removesuffix("/")
        return self._encoded[written]
