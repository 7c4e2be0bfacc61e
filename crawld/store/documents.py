"""Documents: the latest version of each page as a reader has it, and the full-text index over them.

Texts are kept once, compressed, with their Markdown; the index (`search_words`: FTS5 on SQLite, `tsvector` on
PostgreSQL) holds no text. It is made when `search` is switched on and dropped when it is switched off. Scripts that
write no spaces between words are indexed letter by letter, and their words are searched as phrases.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, TextClause, and_, delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import InputError
from crawld.model.page import NOT_LISTED, Document, PageState
from crawld.model.usage import PageUse
from crawld.store import tables
from crawld.store.bulk import inserting, storable
from crawld.store.engine import among
from crawld.store.report import page_stats
from crawld.store.versions import allows, compress, decompress, decompress_to


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A copy that is to become a document; without bytes where it has, or is no longer kept."""

    number: int  # of the change that brought it, or of the page where pages are walked
    page_id: int
    version: int
    url: str
    host: str
    content_type: str | None
    body: bytes | None


@dataclass(frozen=True)
class StoreDocumentsLimits:
    """Numbers that bound and tune this module."""

    max_indexed: int = 300_000
    """Characters of a text that are indexed: PostgreSQL's vectors hold a megabyte."""
    max_terms: int = 20
    snippet: int = 240
    """Characters of a snippet."""


LIMITS = StoreDocumentsLimits()


CURSOR = "documents"
"""Name of the row of `settings` that holds the number of the last change whose copy was looked at."""
_body, _page, _host, _document = tables.bodies.c, tables.pages.c, tables.hosts.c, tables.documents.c
_change = tables.changes.c
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
_TERM = re.compile(r'(-?)(?:"([^"]{1,200})"|(\S{1,100}))')
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


# -- keeping --------------------------------------------------------------------------------------------------------


async def pending_copies(
    connection: AsyncConnection, after: int, limit: int, max_bytes: int, *, by_page: bool
) -> list[PendingCopy]:
    """The copies that the next changes beyond a number brought, or with `by_page` the next pages' latest copies.

    As many as have so many bytes, and one at the least; those that are known or no longer kept come without bytes.
    """
    if by_page:
        version = func.max(_body.version)
        latest = (
            select(_body.page_id.label("number"), _body.page_id, version.label("version"))
            .where(_body.page_id > after, _body.version.is_not(None))
            .group_by(_body.page_id).order_by(_body.page_id).limit(limit).subquery().c
        )  # fmt: skip
    else:
        latest = (
            select(_change.id.label("number"), _change.page_id, _change.id.label("version"))
            .where(_change.id > after).order_by(_change.id).limit(limit).subquery().c
        )  # fmt: skip
    kept = and_(_body.page_id == latest.page_id, _body.version == latest.version)
    query = (
        select(latest.number, latest.page_id, latest.version, _body.id, _body.size, _body.content_type,
               _page.url, _host.name, _document.version.label("known"))
        .join_from(latest.number.table, tables.bodies, kept, isouter=True)
        .join(tables.pages, _page.id == latest.page_id, isouter=True)
        .join(tables.hosts, _host.id == _page.host_id, isouter=True)
        .join(tables.documents, _document.page_id == latest.page_id, isouter=True)
        .order_by(latest.number)
    )  # fmt: skip
    found: list[PendingCopy] = []
    total = 0
    for row in (await connection.execute(query)).all():
        copy = None
        if row.id is not None and row.url is not None and (row.known is None or row.known < row.version):
            total += row.size
            if found and total > max_bytes:
                break
            # With its size: the copy may be renewed in place between the two statements.
            own = select(_body.zstd, _body.size).where(_body.id == row.id)
            copy = (await connection.execute(own)).one_or_none()
        body = None if copy is None else decompress_to(copy.zstd, copy.size)
        found.append(
            PendingCopy(row.number, row.page_id, row.version, row.url or "", row.name or "", row.content_type, body)
        )
    return found


async def read_cursor(connection: AsyncConnection) -> int | None:
    """The number of the last change whose copy became a document; None where nothing was read yet."""
    setting = tables.settings.c
    value = await connection.scalar(select(setting.value).where(setting.name == CURSOR))
    return None if value is None else int(value)


_PUT_DOCUMENTS = inserting(tables.documents)


def packed_documents(kept: Sequence[tuple[PendingCopy, Document]]) -> list[tuple[Any, ...]]:
    """The rows of documents, in the order of the columns; of two of one page the later."""
    rows = {}
    for copy, one in kept:
        whole = "\0".join([storable(part) or "" for part in (one.title, one.text, one.markdown)])
        packed = compress(whole.encode("utf-8", "replace"))
        about = one.language, storable(one.canonical), len(one.text)
        rows[copy.page_id] = (copy.page_id, copy.version, *about, False, packed)
    return list(rows.values())


def unpacked_document(row: Any) -> Document:
    """The document of a row."""
    title, body, markdown = decompress(row.zstd).decode("utf-8").split("\0", 2)
    return Document(body, markdown, title or None, row.language, row.canonical)


async def put_documents(connection: AsyncConnection, rows: Sequence[tuple[Any, ...]], *, search: bool) -> None:
    """Write documents over those that were kept, and index them."""
    pages = [row[0] for row in rows]
    await drop_documents(connection, pages)
    await _PUT_DOCUMENTS.run(connection, rows)
    if search:
        await index_documents(connection, pages)


async def drop_documents(connection: AsyncConnection, pages: Sequence[int]) -> None:
    """Forget the documents of pages, in the index too."""
    if not pages:
        return
    chosen, parameters = among(connection.dialect.name, _document.page_id, pages)
    if connection.dialect.name == "sqlite":
        rows = (await connection.execute(select(tables.documents).where(chosen, _document.indexed), parameters)).all()
        if rows:
            await connection.execute(
                text(
                    "INSERT INTO search_words (search_words, rowid, title, text) VALUES ('delete', :id, :title, :text)"
                ),
                [_words_of(row) for row in rows],
            )
    elif await _is_indexed(connection):
        for page in pages:
            await connection.execute(text("DELETE FROM search_words WHERE page_id = :id"), {"id": page})
    await connection.execute(delete(tables.documents).where(chosen), parameters)


async def index_documents(connection: AsyncConnection, pages: Sequence[int]) -> int:
    """Index the documents of pages that are not indexed yet; how many these were."""
    chosen, parameters = among(connection.dialect.name, _document.page_id, pages)
    rows = (await connection.execute(select(tables.documents).where(chosen, ~_document.indexed), parameters)).all()
    if not rows:
        return 0
    if connection.dialect.name == "sqlite":
        statement = text("INSERT INTO search_words (rowid, title, text) VALUES (:id, :title, :text)")
    else:
        statement = text(
            "INSERT INTO search_words (page_id, words) VALUES (:id, setweight(to_tsvector('simple', :title), 'A') || "
            "setweight(to_tsvector('simple', :text), 'D')) ON CONFLICT (page_id) DO UPDATE SET words = excluded.words"
        )
    await connection.execute(statement, [_words_of(row) for row in rows])
    chosen, parameters = among(connection.dialect.name, _document.page_id, [row.page_id for row in rows])
    await connection.execute(update(tables.documents).where(chosen).values(indexed=True), parameters)
    return len(rows)


async def unindexed(connection: AsyncConnection, limit: int) -> list[int]:
    """Some pages whose documents are not indexed yet."""
    return list((await connection.scalars(select(_document.page_id).where(~_document.indexed).limit(limit))).all())


async def left_documents(connection: AsyncConnection, limit: int) -> list[int]:
    """Some pages with a document that are no longer kept."""
    query = (
        select(_document.page_id)
        .join_from(tables.documents, tables.pages, _page.id == _document.page_id, isouter=True)
        .where(_page.id.is_(None) | _page.state.in_(NOT_LISTED)).limit(limit)
    )  # fmt: skip
    return list((await connection.scalars(query)).all())


async def prepare_index(connection: AsyncConnection, *, search: bool) -> None:
    """Make the index where searching is switched on, and drop it where it is switched off."""
    if await _is_indexed(connection) == search:
        return
    if not search:
        await connection.execute(text("DROP TABLE search_words"))
        await connection.execute(update(tables.documents).values(indexed=False))
    elif connection.dialect.name == "sqlite":
        index = "fts5(title, text, content='', tokenize='unicode61 remove_diacritics 2')"
        await connection.execute(text(f"CREATE VIRTUAL TABLE search_words USING {index}"))
        rank = "INSERT INTO search_words (search_words, rank) VALUES ('rank', 'bm25(5.0, 1.0)')"
        await connection.execute(text(rank))
    else:
        await connection.execute(
            text("CREATE TABLE search_words (page_id bigint PRIMARY KEY, words tsvector NOT NULL)")
        )
        await connection.execute(text("CREATE INDEX ix_search_words ON search_words USING gin (words)"))


async def _is_indexed(connection: AsyncConnection) -> bool:
    if connection.dialect.name == "sqlite":
        query = text("SELECT 1 FROM sqlite_master WHERE name = 'search_words'")
    else:
        query = text("SELECT 1 WHERE to_regclass('search_words') IS NOT NULL")
    return await connection.scalar(query) is not None


def _words_of(row: Any) -> dict[str, Any]:
    document = unpacked_document(row)
    return {
        "id": row.page_id,
        "title": _spaced(document.title or ""),
        "text": _spaced(document.text[: LIMITS.max_indexed]),
    }


def _spaced(given: str) -> str:
    """The text with spaces around letters of scripts that have none between words."""
    return given if given.isascii() else _UNSPACED.sub(r" \1 ", given)


# -- reading --------------------------------------------------------------------------------------------------------


async def read_documents(connection: AsyncConnection, versions: Sequence[int]) -> dict[int, Document]:
    """The documents that are kept of versions, by their numbers."""
    chosen, parameters = among(connection.dialect.name, _document.version, list(versions))
    rows = await connection.execute(select(tables.documents).where(chosen), parameters)
    return {row.version: unpacked_document(row) for row in rows}


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What is searched: words and phrases that must be there, beginnings of words, and what must not be there."""

    required: tuple[str, ...]
    beginnings: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """What is looked for in snippets."""
        return (*self.required, *self.beginnings)


def parse_terms(given: str) -> SearchTerms:
    """Words, "phrases", beginnings* and -exclusions; InputError where nothing is searched for."""
    required, beginnings, excluded = [], [], []
    for minus, phrase, word in _TERM.findall(given)[: LIMITS.max_terms]:
        words = " ".join(_WORD.findall(phrase or word))
        if not words:
            continue
        if minus:
            excluded.append(words)
        elif word.endswith("*") and not phrase:
            beginnings.append(words)
        else:
            required.append(words)
    if not required and not beginnings:
        raise InputError('what to search for: words, "a phrase", the beginning of a word as conf*, -without')
    return SearchTerms(tuple(required), tuple(beginnings), tuple(excluded))


async def search_documents(
    connection: AsyncConnection, terms: SearchTerms, limit: int, host: str | None, use: PageUse | None = None
) -> list[tuple[Any, Document, float]]:
    """The best documents: the row of the page, its document and its score, higher is better.

    Ever more of the best are looked at until enough of them are of the host and allow the use.
    """
    if not await _is_indexed(connection):
        raise InputError("searching is off: set `search: true` in the settings and start the daemon again")
    size = 4 * limit + 20
    while True:
        found = await _ranked(connection, terms, size)
        rows = await _passing(connection, list(found), host, use)
        if len(rows) >= limit or len(found) < size:
            break
        size *= 8
    rows.sort(key=lambda row: (-found[row.page_id], row.url))
    rows = rows[:limit]
    documents = await read_documents(connection, [row.version for row in rows])
    return [(row, documents[row.version], found[row.page_id]) for row in rows if row.version in documents]


async def _passing(
    connection: AsyncConnection, pages: Sequence[int], host: str | None, use: PageUse | None
) -> list[Any]:
    """Those of the pages that are kept, of the host, and allow the use."""
    chosen, parameters = among(connection.dialect.name, _document.page_id, pages)
    query: Select[Any] = (
        select(_document.page_id, _document.version, _page.url, _host.name.label("host"))
        .join_from(tables.documents, tables.pages, _page.id == _document.page_id)
        .join(tables.hosts, _host.id == _page.host_id)
        .where(chosen, _listed())
    )  # fmt: skip
    if host is not None:
        query = query.where(_host.name == host.lower())
    if use is not None:
        query = query.join(tables.versions, tables.versions.c.page_id == _page.id, isouter=True).where(allows(use))
    return list(await connection.execute(query, parameters))


async def stored_freshness(connection: AsyncConnection, urls: Sequence[str]) -> dict[str, float]:
    """How fresh pages are that no running daemon holds."""
    if not urls:
        return {}
    stats = page_stats.c
    rows = await connection.execute(select(stats.url, stats.freshness).where(stats.url.in_(urls)))
    return {url: float(fresh) for url, fresh in rows if fresh is not None}


def _listed() -> ColumnElement[bool]:
    """Pages that are kept and there."""
    return and_(_page.state.not_in(NOT_LISTED), _page.state != PageState.GONE.value)


async def _ranked(connection: AsyncConnection, terms: SearchTerms, limit: int) -> dict[int, float]:
    """The pages that hold the terms, with their scores."""
    statement, parameters = _fts_query(terms) if connection.dialect.name == "sqlite" else _vector_query(terms)
    rows = await connection.execute(statement, parameters | {"limit": limit})
    return {int(page): float(score) for page, score in rows}


def _fts_query(terms: SearchTerms) -> tuple[TextClause, dict[str, Any]]:
    wanted = [_quoted(term) for term in terms.required] + [f"{_quoted(term)} *" for term in terms.beginnings]
    match = " AND ".join(wanted)
    if terms.excluded:
        match = f"({match}) NOT ({' OR '.join(map(_quoted, terms.excluded))})"
    query = "SELECT rowid, -rank FROM search_words WHERE search_words MATCH :match ORDER BY rank LIMIT :limit"
    return text(query), {"match": match}


def _quoted(term: str) -> str:
    return '"' + " ".join(_spaced(term).replace('"', " ").split()) + '"'


def _vector_query(terms: SearchTerms) -> tuple[TextClause, dict[str, Any]]:
    parts, parameters = [], {}
    for number, term in enumerate(terms.required):
        parts.append(f"phraseto_tsquery('simple', :w{number})")
        parameters[f"w{number}"] = _spaced(term)
    for number, term in enumerate(terms.beginnings):
        parts.append(f"to_tsquery('simple', :b{number})")
        parameters[f"b{number}"] = " <-> ".join(f"'{word}':*" for word in _spaced(term).replace("'", " ").split())
    for number, term in enumerate(terms.excluded):
        parts.append(f"!! phraseto_tsquery('simple', :x{number})")
        parameters[f"x{number}"] = _spaced(term)
    asked = " && ".join(parts)  # of names of parameters alone
    query = (
        f"SELECT page_id, ts_rank_cd(words, query, 1) AS score FROM search_words, (SELECT {asked} AS query) AS asked "
        "WHERE words @@ query ORDER BY score DESC LIMIT :limit"
    )
    return text(query), parameters


def snippet_of(document: Document, terms: SearchTerms) -> tuple[str, list[tuple[int, int]]]:
    """The piece of a text with most of the terms, and where in it they are."""
    given = " ".join(document.text[: LIMITS.max_indexed].split())
    spots = [match for term in terms.shown for match in _spots(given, term)]
    start = 0
    if spots:
        starts = sorted({begin for begin, _, _ in spots})
        best = max(
            starts, key=lambda begin: (len({term for at, _, term in spots if begin <= at < begin + 180}), -begin)
        )
        start = 0 if best < LIMITS.snippet // 3 else given.rfind(" ", 0, max(best - 60, 1)) + 1
    end = start + LIMITS.snippet
    if end < len(given):
        end = max(given.rfind(" ", start, end), start + LIMITS.snippet // 2)
    before, after = "… " if start else "", " …" if end < len(given) else ""
    shift = len(before) - start
    marks = sorted({(begin + shift, stop + shift) for begin, stop, _ in spots if start <= begin and stop <= end})
    return f"{before}{given[start:end].strip()}{after}", marks


def _spots(given: str, term: str) -> list[tuple[int, int, str]]:
    pattern = r"\W+".join(map(re.escape, term.split()))
    found = re.finditer(pattern if _UNSPACED.search(term) else rf"\b{pattern}", given, re.IGNORECASE)
    return [(match.start(), match.end(), term) for _, match in zip(range(50), found)]
