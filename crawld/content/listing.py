"""What a sitemap or a feed lists, whatever its form, and the named reasons why one cannot be read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from crawld.content.dates import Claim
from crawld.errors import InputError, ParseError
from crawld.model.url import resolve

MOST_ENTRIES = 50_000  # of one file, as sitemaps.org sets it
MOST_BYTES = 50 * 1024 * 1024  # of one file, unpacked


class Form(StrEnum):
    """How a file lists its URLs."""

    URLSET = "urlset"
    INDEX = "index"
    TEXT = "text"
    RSS = "rss"
    ATOM = "atom"
    JSON = "json"

    @property
    def is_feed(self) -> bool:
        """Whether entries come and go: a feed names the latest pages, a sitemap all of them."""
        return self in {Form.RSS, Form.ATOM, Form.JSON}


class Kind(StrEnum):
    """What an entry is."""

    PAGE = "page"
    ITEM = "item"  # of a feed
    SITEMAP = "sitemap"  # of an index
    ALTERNATE = "alternate"  # another language's address of a page: named, nothing claimed of it


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed URL, as it would be asked for, with the time it claims to have changed."""

    loc: str
    kind: Kind
    lastmod: Claim | None = None
    id: str = ""  # a feed's own name for it


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything one file lists. Where it is not `complete`, an absent entry proves nothing."""

    form: Form
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
