"""Requests of version 1, and answers that are not the read model's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from crawld.model.crawl import BlockEdit, ChangeVerdict
from crawld.model.page import MAX_IMPORTANCE, Mark, PageState
from crawld.model.units import parse_duration, parse_rate
from crawld.model.url import normalise_given
from crawld.model.usage import PageUse
from crawld.show.actions import Refreshed
from crawld.show.api.endpoints import RequestModel
from crawld.show.report import Explanation
from crawld.store.views import PageLine, PageSort, PageView, SearchHit, Version


@dataclass(frozen=True)
class ModelsLimits:
    """Numbers that bound and tune this module."""

    max_wait: float = 60.0
    """Seconds for which a request for changes may wait for the next one."""
    max_changes: int = 1_000
    max_pages: int = 500
    max_urls: int = 5_000
    largest: int = 2**63 - 1


LIMITS = ModelsLimits()


_Url = Annotated[str, Field(min_length=1, max_length=8_000, description="The page, in any spelling of its URL")]
GivenUrl = Annotated[_Url, AfterValidator(normalise_given)]
Number = Annotated[int, Field(ge=1, le=LIMITS.largest)]
Rate = Annotated[
    str | float, Field(description="Requests per second, or as 2/s, 90/min, 5000/day"), AfterValidator(parse_rate)
]
Seconds = Annotated[str | float, Field(description="Seconds, or as 5s, 2min"), AfterValidator(parse_duration)]


WantedUse = Annotated[PageUse, Field(description="Leave out pages whose site denies this use")]


class Nothing(RequestModel):
    """A request without parameters."""


class AskPages(RequestModel):
    """A list of pages: which ones, in which order, from where on."""

    sort: PageSort = PageSort.URL
    descending: bool = False
    host: Annotated[str, Field(max_length=300)] | None = None
    state: PageState | None = None
    trouble: Annotated[str, Field(max_length=50, description="Of the last crawl, or `any`")] | None = None
    search: Annotated[str, Field(max_length=1_000)] | None = None
    use: WantedUse | None = None
    after: Annotated[str, Field(max_length=12_000, description="`next` of the part before")] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMITS.max_pages)] = 50


class AskPage(RequestModel):
    """One page."""

    url: GivenUrl
    crawls: Annotated[int, Field(ge=0, le=1_000)] = 100
    signals: Annotated[int, Field(ge=0, le=1_000)] = 100
    changes: Annotated[int, Field(ge=0, le=1_000)] = 50


class AskUrl(RequestModel):
    """A page alone."""

    url: GivenUrl


class AskCopy(AskUrl):
    """The copy of a page, as fresh as is asked for where the reader waits."""

    version: Number | None = None
    use: WantedUse | None = None
    min_freshness: (
        Annotated[float, Field(ge=0, le=1, description="Fetched at this moment where it is less fresh")] | None
    ) = None
    wait: (
        Annotated[float, Field(ge=0, le=LIMITS.max_wait, description="Seconds to wait; 10 with min_freshness")] | None
    ) = None


class AskDiff(AskUrl):
    """Two versions of a page; without `to` the latest, without `from` the one before that."""

    before: Annotated[Number | None, Field(alias="from")] = None
    after: Annotated[Number | None, Field(alias="to")] = None
    format: Literal["words", "unified"] = "words"
    use: WantedUse | None = None


Cursor = Annotated[
    Annotated[int, Field(ge=0, le=LIMITS.largest)] | Literal["now"],
    Field(description="The cursor to go on from; 0: the oldest change that is kept; now: the next one"),
]


Include = Annotated[
    Literal["markdown", "text"], Field(description="Bring the text of each version with its change, in this form")
]


def _kinds(given: object) -> object:
    """Names with commas between, in any order; an empty name is none."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


Kinds = Annotated[
    tuple[ChangeVerdict, ...],
    BeforeValidator(_kinds, json_schema_input_type=str),
    Field(description="Kinds of changes to tell, with commas between; without any, all"),
]


class AskChanges(RequestModel):
    """Changes after a cursor."""

    after: Cursor = 0
    wait: Annotated[float, Field(ge=0, le=LIMITS.max_wait, description="Seconds to wait where there is none yet")] = 0.0
    limit: Annotated[int, Field(ge=1, le=LIMITS.max_changes)] = 100
    url: GivenUrl | None = None
    use: WantedUse | None = None
    include: Include | None = None
    kinds: Kinds = ()


class AskEvents(RequestModel):
    """The same as a stream; the header Last-Event-ID goes before `after`."""

    after: Cursor = 0
    use: WantedUse | None = None
    include: Include | None = None
    kinds: Kinds = ()


class AskSearch(RequestModel):
    """Words to search for."""

    q: Annotated[str, Field(min_length=1, max_length=1_000, description='Words, "a phrase", conf*, -without')]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    host: Annotated[str, Field(max_length=300)] | None = None
    use: WantedUse | None = None


@dataclass(frozen=True)
class SearchAnswer:
    """Hits of a search, best first."""

    hits: Sequence[SearchHit]


class AskHosts(RequestModel):
    """Number of hosts to list."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000


class AskSignals(AskHosts):
    """Worth of signals, of all hosts or one."""

    host: Annotated[str, Field(max_length=300)] | None = None


class AskHistory(RequestModel):
    """From when on."""

    since: Annotated[float, Field(ge=0, le=1e11, description="UTC seconds")] = 0.0
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_500


class AskSlots(RequestModel):
    """From when on, and by stretches of how many seconds."""

    since: Annotated[float, Field(ge=0, le=1e11, description="UTC seconds")] = 0.0
    bucket: Annotated[float, Field(ge=60, le=31_536_000)] = 3_600.0


class AskForecast(RequestModel):
    """Rates to look at besides the one set, separated by commas."""

    bandwidth: Annotated[str, Field(max_length=2_000)] = ""


class SetBandwidth(RequestModel):
    """A new request rate."""

    rate: Rate


class SetHost(RequestModel):
    """Orders of the operator for a host; what is not given stays as it is, and a `delay` of null drops it."""

    host: Annotated[str, Field(min_length=1, max_length=300)]
    blocked: bool | None = None
    delay: Seconds | None = None


class WantedUrl(RequestModel):
    """A page and its weight."""

    url: _Url
    importance: Annotated[float, Field(gt=0, le=MAX_IMPORTANCE, allow_inf_nan=False)] = 1.0


class SetUrls(RequestModel):
    """Pages to add and to remove."""

    add: Annotated[tuple[WantedUrl, ...], Field(max_length=LIMITS.max_urls)] = ()
    remove: Annotated[tuple[_Url, ...], Field(max_length=LIMITS.max_urls)] = ()
    keep_out: Annotated[bool, Field(description="Whether no list and no sitemap may bring removed pages back")] = False


class AddPages(RequestModel):
    """Pages to keep, as one `url`, as `urls`, or as `add` where each has its weight."""

    url: _Url | None = None
    urls: Annotated[tuple[_Url, ...], Field(max_length=LIMITS.max_urls)] = ()
    add: Annotated[tuple[WantedUrl, ...], Field(max_length=LIMITS.max_urls)] = ()
    importance: Annotated[float, Field(gt=0, le=MAX_IMPORTANCE, allow_inf_nan=False)] = 1.0
    wait: Annotated[float, Field(ge=0, le=LIMITS.max_wait, description="Seconds to wait for first copies")] = 0.0

    @property
    def wanted(self) -> list[WantedUrl]:
        """All of them."""
        given = [*self.urls, *(() if self.url is None else (self.url,))]
        return [*self.add, *(WantedUrl(url=url, importance=self.importance) for url in given)]


class AskRefresh(RequestModel):
    """Pages to crawl now, before all others."""

    urls: Annotated[tuple[GivenUrl, ...], Field(min_length=1, max_length=LIMITS.max_urls)]
    wait: Annotated[float, Field(ge=0, le=LIMITS.max_wait, description="Seconds to wait until they are crawled")] = 0.0


class AskRules(RequestModel):
    """Rules of what is compared; with `url`, the rule for that page."""

    url: GivenUrl | None = None


class IgnoredParts(RequestModel):
    """Parts of a page to leave out of what is compared; with `host`, of all pages of its host."""

    url: GivenUrl
    selectors: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=500)], ...], Field(min_length=1)]
    host: bool = False


class SetRules(RequestModel):
    """Parts to ignore from now on, and numbers of marks whose parts are compared again."""

    ignore: Annotated[tuple[IgnoredParts, ...], Field(max_length=100)] = ()
    compare: Annotated[tuple[Number, ...], Field(max_length=1_000)] = ()


class SetRead(RequestModel):
    """The newest change that was read."""

    until: Annotated[int, Field(ge=0, le=LIMITS.largest)]


class AskActions(RequestModel):
    """Number of actions to list."""

    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


class AskUndo(RequestModel):
    """The number of an action."""

    action: Number


class AskFeed(RequestModel):
    """The newest changes, of all pages or one, as a feed."""

    key: Annotated[str, Field(max_length=200, description="What the dashboard's link holds, instead of a token")] = ""
    first: Annotated[bool, Field(description="With first copies")] = False
    url: GivenUrl | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


@dataclass(frozen=True, slots=True)
class ExplainedPage:
    """A page with its timeline and, where the daemon holds it, why it is not crawled just now."""

    view: PageView
    now: Explanation | None


@dataclass(frozen=True, slots=True)
class Versions:
    """The kept versions of a page, newest first."""

    versions: Sequence[Version]


@dataclass(frozen=True, slots=True)
class Difference:
    """Edits that lead from the earlier version to the later one."""

    before: Version
    after: Version
    blocks: Sequence[BlockEdit]


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """A host after it was steered."""

    host: str
    blocked: bool
    delay: float | None
    blocked_until: float
    spacing_seconds: float
    kept: bool


@dataclass(frozen=True, slots=True)
class UrlsAnswer:
    """Result of adding and removing pages."""

    added: int
    reweighted: int
    removed: Sequence[str]
    returning: Sequence[str] = ()  # of those removed: a list or a sitemap names them, which brings them back


@dataclass(frozen=True, slots=True)
class AddAnswer:
    """Result of adding pages, and how they stand now; of many pages the first hundred."""

    added: int
    reweighted: int
    pages: Sequence[PageLine]


@dataclass(frozen=True, slots=True)
class RefreshAnswer:
    """Result of a refresh, page by page."""

    pages: Sequence[Refreshed]


@dataclass(frozen=True, slots=True)
class RulesAnswer:
    """Parts that operators have marked as not to be compared, and the settings' rule for the page asked about."""

    marks: Sequence[Mark]
    rule: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The newest change that was read, and how many have come since."""

    until: int
    unread: int


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """An action that was done."""

    id: int
    at: float
    who: str
    verb: str
    sentence: str
    undoable: bool
    undone_at: float | None


class Problem(BaseModel):
    """Why a request was not answered, in a sentence."""

    model_config = ConfigDict(extra="allow")

    error: str
