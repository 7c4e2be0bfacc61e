"""The files that signals are read from."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.signal import Source
from crawld.store import tables
from crawld.store.bulk import fetch, replacing
from crawld.store.engine import Ranges, among, choice, fetch_within, within
from crawld.store.pages import WriteScope
from crawld.store.versions import decompress


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that signals are read from, as kept over a restart; `state` is the poller's own, kept compressed."""

    url: str
    source: Source
    host: str
    next_poll: float
    state: bytes


@dataclass(frozen=True, slots=True)
class Poll:
    """What became of a source file: polled, found (0 polls), or all its dates moved at once (a site event)."""

    file: SourceFile
    polls: int = 1
    site_events: int = 0


_source, _host = tables.sources.c, tables.hosts.c
PUT_SOURCES = replacing(tables.sources)
_ALL = select(_source.url, _source.source, _source.host, _source.next_poll, _source.state).order_by(_source.url)
_OF_HOSTS = _ALL.join_from(tables.hosts, tables.sources, _source.host == _host.name).where(within(_host.id))


async def read_sources(connection: AsyncConnection, ranges: Ranges | None = None) -> Sequence[SourceFile]:
    """Every source file, or those of hosts with these ids: a file's row is written together with its host's."""
    rows = await fetch(connection, _ALL) if ranges is None else await fetch_within(connection, _OF_HOSTS, ranges)
    return [_file(*row) for row in rows]


async def read_source(connection: AsyncConnection, url: str) -> SourceFile | None:
    """One source file."""
    row = (await connection.execute(_ALL.where(_source.url == url))).first()
    return None if row is None else _file(*row)


def _file(url: str, kind: str, host: str, at: float, state: bytes) -> SourceFile:
    return SourceFile(url, Source(kind), host, at, decompress(state))


async def forget_sources(connection: AsyncConnection, scope: WriteScope | None, urls: Sequence[str]) -> None:
    """Forget source files; a worker forgets those of its own hosts alone."""
    chosen, parameters = among(connection.dialect.name, _source.url, urls)
    if scope is not None:
        rows = (await connection.execute(select(_source.url, _source.host).where(chosen), parameters)).all()
        ours = await scope.ours(connection, rows, lambda row: scope.of_host(row.host))
        parameters = choice(connection.dialect.name, [row.url for row in ours])
    await connection.execute(delete(tables.sources).where(chosen), parameters)
