"""The list of pages: sorted, filtered, a part at a time, and searched by the words of their texts."""

from collections.abc import Mapping

from crawld.model.errors import InputError
from crawld.model.fetched import Trouble
from crawld.model.page import PageState
from crawld.show.dashboard.rendering import Sources, View, link
from crawld.store.views import ANY_TROUBLE, PageQuery, PageSort, SearchHit

PATH = "/pages"
ROWS = 50
COLUMNS = (
    (PageSort.URL, "Page", "url"),
    (PageSort.FRESHNESS, "Fresh", "num"),
    (None, "State", "narrow-less"),
    (PageSort.LAST_CRAWL, "Last crawl", "num"),
    (PageSort.LAST_CHANGE, "Last change", "num wide"),
    (PageSort.NEXT_CRAWL, "Next crawl", "num wide"),
    (PageSort.IMPORTANCE, "Importance", "num wide"),
)
FIRST_DOWN = frozenset({PageSort.LAST_CRAWL, PageSort.LAST_CHANGE, PageSort.IMPORTANCE})
"""Sorts that begin with the highest at the first click."""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """A part of the list."""
    wanted = _wanted(query)
    found = await sources.reading.pages(wanted)
    kept = {"q": wanted.search, "host": wanted.host, "state": wanted.state and wanted.state.value}
    kept["trouble"] = wanted.trouble
    sort = _spelt(wanted.sort, descending=wanted.descending)
    context = {
        "pages": found.pages,
        "columns": [(name, css, *_heading(column, wanted, kept)) for column, name, css in COLUMNS],
        "sort": sort,
        "states": list(PageState),
        "troubles": list(Trouble),
        "query": wanted,
        "next": found.next and link(PATH, sort=sort, after=found.next, **kept),
        "first": wanted.after and link(PATH, sort=sort, **kept),
        "filtered": any(kept.values()),
    }
    return View("pages.html", "Pages", PATH, sources.now(), context)


async def show_search(sources: Sources, query: Mapping[str, str]) -> View:
    """Pages by the words of their text."""
    words, hits, trouble = query.get("q", "").strip()[:1_000], None, None
    if words:
        try:
            hits = await sources.reading.search(words, limit=ROWS)
        except InputError as error:  # searching is off, or nothing is searched for
            trouble = str(error)
    context = {
        "words": words,
        "hits": None if hits is None else [(hit, _marked(hit)) for hit in hits],
        "trouble": trouble,
    }
    return View("search.html", "Search", "/search", sources.now(), context)


def _marked(hit: SearchHit) -> list[tuple[bool, str]]:
    """The snippet in pieces, each with whether it is what was searched for."""
    pieces, at = [], 0
    for begin, end in hit.marks:
        if begin >= at:
            pieces += [(False, hit.snippet[at:begin]), (True, hit.snippet[begin:end])]
            at = end
    return [*pieces, (False, hit.snippet[at:])]


def _wanted(query: Mapping[str, str]) -> PageQuery:
    given = query.get("sort") or PageSort.URL.value
    state, trouble = query.get("state") or None, query.get("trouble") or None
    try:
        return PageQuery(
            sort=PageSort(given.removeprefix("-")),
            descending=given.startswith("-"),
            host=query.get("host", "").strip() or None,
            state=None if state is None else PageState(state),
            trouble=trouble if trouble in {None, ANY_TROUBLE} else Trouble(trouble).value,
            search=query.get("q", "").strip() or None,
            after=query.get("after") or None,
            limit=ROWS,
        )
    except ValueError as error:
        raise InputError(f"the list of pages cannot be shown: {error}") from None


def _spelt(sort: PageSort, *, descending: bool) -> str:
    return f"-{sort.value}" if descending else sort.value


def _heading(
    column: PageSort | None, wanted: PageQuery, kept: Mapping[str, str | None]
) -> tuple[str | None, str | None]:
    """Returns where a click on a heading leads, and how the list is sorted by it now; None where it is not."""
    if column is None:
        return None, None
    if column is wanted.sort:
        now = "descending" if wanted.descending else "ascending"
        return link(PATH, sort=_spelt(column, descending=not wanted.descending), **kept), now
    return link(PATH, sort=_spelt(column, descending=column in FIRST_DOWN), **kept), None
