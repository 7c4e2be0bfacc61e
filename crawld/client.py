"""A client of a running crawld, for programs that build on its copies. It needs aiohttp and nothing else of crawld.

    async with Client("http://127.0.0.1:8642", token) as client:
        async for change in client.follow(cursor, include="markdown"):
            if change.deletes:
                index.delete(change.url)
            else:
                index.put(change.url, change.markdown, change.version)
            cursor = change.cursor

Changes come at least once and in order; each has the cursor to go on from after it. `reconcile` compares an index with
the copies and tells what to add, replace and delete. `BlockingClient` does the same for programs without an event loop.
"""

import asyncio
import json
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import aiohttp

P = ParamSpec("P")
T = TypeVar("T")
Include = Literal["markdown", "text"]
Action = Literal["add", "replace", "delete"]
Use = Literal["search", "ai-input", "ai-train"]
Known = Mapping[str, int | None]
"""The versions of an index's documents by URL."""
_ACTIONS: Mapping[str, Action] = {
    "new": "add",
    "back": "add",
    "changed": "replace",
    "gone": "delete",
    "removed": "delete",
    "moved": "delete",
}
_MEDIA: Mapping[Include, str] = {"markdown": "text/markdown", "text": "text/plain"}


@dataclass(frozen=True, slots=True)
class Pace:
    """Timing of a client: how it waits and asks."""

    poll_seconds: float = 30.0
    """For which a request for changes waits for the next one."""
    answer_seconds: float = 30.0
    """Within which the daemon answers, beside the time that a request asks it to wait."""
    retry_seconds: tuple[float, float] = (0.25, 15.0)
    """Between two tries of `follow` and `reconcile` while the daemon is away: at first, and at most."""
    changes: int = 100
    """Changes of one answer."""
    pages: int = 500
    """Pages of one answer."""
    connections: int = 50
    """Requests under way at once; others wait in the client. A daemon takes 64 of an address where files are few."""
    copies: int = 4
    """Copies that `reconcile` reads at once; the daemon serves four."""


class AnswerError(Exception):
    """The daemon refused a request: its status, and the sentence that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class NotKeptError(AnswerError):
    """The page, or a copy of it, is not kept; the sentence says how to add it."""


class PageGoneError(AnswerError):
    """The page is gone (404 or 410 when it was last asked for): an index drops it."""


class CursorLostError(AnswerError):
    """Changes after the cursor are no longer kept, or it is of another database: `reconcile` puts an index right."""


class UnreachableError(AnswerError):
    """No daemon answers at the address."""


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A page's fate, as an index has to follow it.

    `kind` is new, changed, gone, back, moved, removed or usage; `reconcile` tells new, changed and removed. `cursor` is
    what to keep once the change is in the index; None while `reconcile` is under way, which has none until its end.
    """

    url: str
    kind: str
    version: int | None = None
    cursor: int | None = None
    at: float | None = None
    previous: int | None = None
    magnitude: float | None = None
    title: str | None = None
    language: str | None = None
    content_type: str | None = None
    moved_to: str | None = None
    usage: Mapping[str, Any] | None = None
    denied: bool = False  # its site denies the use that the client was made for
    markdown: str | None = None
    text: str | None = None

    @property
    def action(self) -> Action:
        """Returns what an index does: add, replace or delete the document."""
        return "delete" if self.denied else _ACTIONS.get(self.kind, "replace")

    @property
    def deletes(self) -> bool:
        """Tells whether the document of this URL goes."""
        return self.action == "delete"


@dataclass(frozen=True, slots=True)
class PageCopy:
    """A copy of a page with its freshness now; `stale_reason` says why it is not as fresh as was asked for."""

    url: str
    content: bytes
    content_type: str
    age_seconds: float
    fetched_at: float
    freshness: float | None = None
    version: int | None = None
    stale_reason: str | None = None

    @property
    def text(self) -> str:
        """The content as text."""
        charset = self.content_type.partition("charset=")[2].partition(";")[0].strip('" ') or "utf-8"
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")


@dataclass(slots=True)
class Reconciliation:
    """The differences between an index and the copies, to be iterated once; then `cursor` is where to follow from."""

    _client: "Client"
    _known: Known
    _include: Include | None
    cursor: int | None = None

    async def __aiter__(self) -> AsyncIterator[DocumentChange]:
        client = self._client
        begin = await client.newest_cursor()  # before the list: what changes meanwhile is told by `follow`
        seen: set[str] = set()
        async for lines in client.page_parts():
            stale = []
            for line in lines:
                url, version = line["url"], line["version"]
                if line["gone_since"] is not None or line["last_crawl_at"] is None:
                    continue
                seen.add(url)
                if url not in self._known or self._known[url] != version:
                    stale.append(line)
            async for change in self._told(stale):
                yield change
        for url in [url for url in self._known if url not in seen]:
            yield DocumentChange(url, "removed")
        self.cursor = begin

    async def _told(self, lines: Sequence[Mapping[str, Any]]) -> AsyncIterator[DocumentChange]:
        """The documents to add and replace, a few of their texts read at once."""
        size = self._client.pace.copies
        for start in range(0, len(lines), size):
            for change in await asyncio.gather(*(self._one(line) for line in lines[start : start + size])):
                if change is not None:
                    yield change

    async def _one(self, line: Mapping[str, Any]) -> DocumentChange | None:
        kind = "changed" if line["url"] in self._known else "new"
        at = line["last_change_at"]
        about: dict[str, Any] = {name: line.get(name) for name in ("title", "language", "content_type", "usage")}
        change = DocumentChange(line["url"], kind, line["version"], at=at, **about)
        if self._include is None or line["version"] is None:
            return change
        try:
            copy = await self._client.retried(
                lambda: self._client.copy(change.url, accept=_MEDIA[self._include or "text"])
            )
        except AnswerError as error:
            if isinstance(error, PageGoneError):
                return replace(change, kind="removed", version=None) if kind == "changed" else None
            if error.status == 403:  # its site denies the use since the list was read
                return replace(change, denied=True, version=None) if kind == "changed" else None
            if error.status in {404, 406, 422}:  # it has no text, or left while the list was read
                return change
            raise
        if copy.version is not None and copy.version == self._known.get(change.url):
            return None  # the index is ahead of the list
        body = {self._include: copy.text}
        return replace(change, version=copy.version, **body)  # type: ignore[arg-type]


class Client:
    """Asks one daemon. The address is that of `api.listen`, or `unix:PATH` of the control socket, which needs no token.

    Without them they come from the environment: CRAWLD_URL (else http://127.0.0.1:8642) and CRAWLD_TOKEN. With a use,
    pages whose site denies it are left out of everything, and deleted once it does.
    """

    def __init__(
        self, address: str | None = None, token: str | None = None, *, use: Use | None = None, pace: Pace = Pace()
    ) -> None:
        given = address or os.environ.get("CRAWLD_URL") or "http://127.0.0.1:8642"
        self._socket = given.removeprefix("unix:") if given.startswith(("unix:", "/")) else None
        self._address = "http://crawld" if self._socket else given.rstrip("/")
        self._token = token or os.environ.get("CRAWLD_TOKEN")
        self._session: aiohttp.ClientSession | None = None
        self._folder: int | None = None
        self._use: Mapping[str, str] = {} if use is None else {"use": use}
        self.use, self.pace = use, pace

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    async def follow(
        self,
        cursor: int | None = 0,
        *,
        include: Include | None = None,
        kinds: Iterable[str] = (),
        known: MutableMapping[str, int | None] | None = None,
    ) -> AsyncGenerator[DocumentChange, None]:
        """Every change after the cursor, and those to come; it goes on by itself when the daemon was away.

        With `known`, the versions that the index holds: changes that it holds already are left out, a cursor that is
        None or lost is made good by `reconcile`, and the mapping is kept in step. Without it a lost cursor raises
        CursorLostError.
        """
        while True:
            if cursor is None and known is not None:
                run = self.reconcile(known, include=include)
                async for change in run:
                    yield change
                    _keep(known, change)
                cursor = run.cursor
            try:
                async for change in self._followed(cursor or 0, include, kinds):
                    if known is None or not _held(known, change):
                        yield change
                        if known is not None:
                            _keep(known, change)
                    cursor = change.cursor
            except CursorLostError:
                if known is None:
                    raise
                cursor = None

    def reconcile(self, known: Known, *, include: Include | None = None) -> Reconciliation:
        """Iterate what to add to, replace in and delete from an index that has these versions by URL.

        It needs no cursor; at its end `cursor` of what it returned is where `follow` goes on.
        """
        return Reconciliation(self, known, include)

    async def changes(
        self, /, after: int | Literal["now"] = 0, *, wait: float = 0.0, limit: int = 100, **more: str
    ) -> Mapping[str, Any]:
        """One answer of /v1/changes as it is told; `more` are its further parameters, as include, kinds and url."""
        asked = {"after": str(after), "wait": f"{wait:g}", "limit": str(limit), **self._use, **more}
        return dict(await self._json("GET", "/v1/changes", asked, wait=wait))

    async def newest_cursor(self) -> int:
        """The cursor after the newest change."""
        return int((await self.retried(lambda: self.changes("now", limit=1)))["cursor"])

    async def _followed(
        self, cursor: int, include: Include | None, kinds: Iterable[str]
    ) -> AsyncGenerator[DocumentChange, None]:
        more: dict[str, str] = {} if include is None else {"include": include}
        if chosen := ",".join(kinds):
            more["kinds"] = chosen
        wait, limit = self.pace.poll_seconds, self.pace.changes
        while True:
            at = cursor
            try:
                found = await self.retried(lambda: self.changes(at, wait=wait, limit=limit, **more))  # noqa: B023
            except AnswerError as error:
                if error.status == 400 and cursor > await self.newest_cursor():
                    raise CursorLostError(400, error.sentence) from None
                raise
            if found["missed"]:
                sentence = f"changes before {found['first']} are no longer kept: `reconcile` puts an index right"
                raise CursorLostError(410, sentence)
            for told in found["changes"]:
                change = _change(told, self.use)
                superseded = include is not None and change.version is None and not change.deletes
                if not superseded:  # a later change of the page brings what is kept of it
                    yield change
            cursor = found["cursor"]

    async def copy(
        self,
        url: str,
        min_freshness: float | None = None,
        wait: float | None = None,
        *,
        accept: str = "*/*",
        version: int | None = None,
    ) -> PageCopy:
        """The copy of a page, fetched anew where it is not fresh enough, for which the answer waits up to `wait` s."""
        asked = {"url": url, **self._use}
        asked |= {} if min_freshness is None else {"min_freshness": f"{min_freshness:g}"}
        asked |= {} if wait is None else {"wait": f"{wait:g}"}
        asked |= {} if version is None else {"version": str(version)}
        headers, body = await self._ask("GET", "/v1/copy", asked, wait=wait or 0.0, headers={"Accept": accept})
        return PageCopy(
            url=url,
            content=body,
            content_type=headers.get("Content-Type", ""),
            age_seconds=float(headers.get("Age", "0")),
            fetched_at=parsedate_to_datetime(headers["X-Fetched-At"]).timestamp(),
            freshness=_number(headers.get("X-Freshness")),
            version=None if (number := _number(headers.get("X-Version"))) is None else int(number),
            stale_reason=headers.get("X-Stale-Reason"),
        )

    async def markdown(self, url: str, min_freshness: float | None = None, wait: float | None = None) -> PageCopy:
        """The copy of a page as Markdown."""
        return await self.copy(url, min_freshness, wait, accept=_MEDIA["markdown"])

    async def search(self, /, words: str, **more: str) -> Mapping[str, Any]:
        """Pages whose text holds the words, best first, as /v1/search tells them."""
        return dict(await self._json("GET", "/v1/search", {"q": words, **self._use, **more}))

    async def pages(self, /, **query: str) -> AsyncIterator[Mapping[str, Any]]:
        """Every page that is kept, or those of a host, state or search, as /v1/pages tells them."""
        async for lines in self.page_parts(**query):
            for line in lines:
                yield line

    async def page_parts(self, **query: str) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """The same, part by part."""
        asked = {"limit": str(self.pace.pages), **self._use, **query}
        while True:
            found = await self.retried(lambda: self._json("GET", "/v1/pages", asked))  # noqa: B023
            yield found["pages"]
            if found["next"] is None:
                return
            asked = asked | {"after": found["next"]}

    async def add(self, *urls: str, importance: float = 1.0, wait: float = 0.0) -> Mapping[str, Any]:
        """Keep further pages; with `wait`, the answer comes when they have their first copies or after so long."""
        body = {"add": [{"url": url, "importance": importance} for url in urls], "wait": wait}
        return dict(await self._json("POST", "/v1/pages", body=body, wait=wait))

    async def remove(self, *urls: str) -> Mapping[str, Any]:
        """Keep pages no longer."""
        return dict(await self._json("POST", "/v1/urls", body={"remove": list(urls)}))

    async def refresh(self, *urls: str, wait: float = 0.0) -> Sequence[Mapping[str, Any]]:
        """Crawl pages before all others; what became of each."""
        body = {"urls": list(urls), "wait": wait}
        return list((await self._json("POST", "/v1/refresh", body=body, wait=wait))["pages"])

    async def status(self) -> Mapping[str, Any]:
        """Returns what the daemon is doing."""
        return await self.get("/v1/status")

    async def get(self, path: str, **query: str) -> Mapping[str, Any]:
        """The answer of any endpoint that reads and answers with a JSON object."""
        return dict(await self._json("GET", path, query))

    async def difference(self, url: str, before: int | None = None, after: int | None = None) -> str:
        """The difference between two versions of a page as a unified diff; of the latest two without numbers."""
        asked = {"url": url, "format": "unified", **self._use}
        asked |= {name: str(number) for name, number in (("from", before), ("to", after)) if number is not None}
        return (await self._ask("GET", "/v1/diff", asked))[1].decode()

    async def retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer; while the daemon is away or has no room it is asked again, ever less often."""
        pause, longest = self.pace.retry_seconds
        while True:
            try:
                return await ask()
            except AnswerError as error:
                if not isinstance(error, UnreachableError) and error.status < 500:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _json(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None, wait: float = 0.0
    ) -> Any:
        _, answer = await self._ask(method, path, query or {}, body=body, wait=wait)
        return json.loads(answer)

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: object = None,
        wait: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        session = self._open()
        limit = aiohttp.ClientTimeout(total=wait + self.pace.answer_seconds)
        given = None if body is None else json.dumps(body).encode()
        try:
            async with session.request(
                method, self._address + path, params=query, data=given, headers=headers, timeout=limit
            ) as answer:
                told = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            where = self._socket or self._address
            raise UnreachableError(0, f"no answer from crawld at {where}: {error or 'it took too long'}") from None
        if answer.status >= 400:
            raise _refused(answer.status, told)
        return answer.headers, told

    def _short_path(self, path: str) -> str:
        """The path of a Unix socket in the 107 bytes that Linux takes: a longer one goes by its folder, held open."""
        if len(os.fsencode(path)) <= 107 or not hasattr(os, "O_PATH"):
            return path
        self._folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{os.path.basename(path)}"

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            limit = self.pace.connections
            connector: aiohttp.BaseConnector
            if self._socket:
                connector = aiohttp.UnixConnector(self._short_path(self._socket), limit=limit)
            else:
                connector = aiohttp.TCPConnector(limit=limit)
            self._session = aiohttp.ClientSession(headers=headers, connector=connector)
        return self._session


def _keep(known: MutableMapping[str, int | None], change: DocumentChange) -> None:
    if change.deletes:
        known.pop(change.url, None)
    else:
        known[change.url] = change.version


def _held(known: Known, change: DocumentChange) -> bool:
    """Tells whether the index has what the change tells: a version is the number of the change that brought it.

    A page that was removed and kept again at once comes back with the version that it had.
    """
    version = known.get(change.url)
    if version is None or change.cursor is None:
        return False
    return change.cursor <= version or (change.version == version and change.kind != "moved")


_TOLD = (
    "url", "version", "at", "previous", "magnitude", "title", "language", "content_type", "usage", "markdown", "text",
)  # fmt: skip


def _change(told: Mapping[str, Any], use: str | None) -> DocumentChange:
    same = {name: told.get(name) for name in _TOLD}
    denied = use is not None and (told.get("usage") or {}).get(use) == "no"
    about: dict[str, Any] = {"cursor": told["id"], "moved_to": told.get("to"), "denied": denied, **same}
    return DocumentChange(kind=told["verdict"], **about)


def _refused(status: int, told: bytes) -> AnswerError:
    try:
        sentence = str(json.loads(told)["error"])
    except (ValueError, KeyError, TypeError):
        sentence = f"status {status}: {told[:200].decode('utf-8', 'replace')}"
    kinds: Mapping[int, type[AnswerError]] = {404: NotKeptError, 410: PageGoneError}
    return kinds.get(status, AnswerError)(status, sentence)


def _number(given: str | None) -> float | None:
    return None if given is None else float(given)


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingClient", P], T]:
    """The same request of a `BlockingClient`."""

    @wraps(method)
    def asked(self: "BlockingClient", /, *args: P.args, **more: P.kwargs) -> T:
        return self._run(method(self._client, *args, **more))

    return asked


def _iterated(
    method: Callable[Concatenate[Client, P], AsyncIterator[T]],
) -> Callable[Concatenate["BlockingClient", P], Iterator[T]]:
    """The same answers, one after another, of a `BlockingClient`."""

    @wraps(method)
    def asked(self: "BlockingClient", /, *args: P.args, **more: P.kwargs) -> Iterator[T]:
        return self._iterate(method(self._client, *args, **more))

    return asked


class BlockingClient:
    """The same for programs without an event loop; its requests run in a thread of its own."""

    def __init__(
        self, address: str | None = None, token: str | None = None, *, use: Use | None = None, pace: Pace = Pace()
    ) -> None:
        self._client = Client(address, token, use=use, pace=pace)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._serve, name="crawld client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread."""
        if not self._loop.is_closed():
            self._run(self._client.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        """Run requests until `close`, and see those that it cancelled to their end."""
        with self._runner:
            self._loop.run_forever()

    def reconcile(self, known: Known, *, include: Include | None = None) -> "BlockingReconciliation":
        """Iterate what to add to, replace in and delete from an index (`Client.reconcile`)."""
        return BlockingReconciliation(self, self._client.reconcile(known, include=include))

    follow = _iterated(Client.follow)
    pages = _iterated(Client.pages)
    changes = _blocking(Client.changes)
    copy = _blocking(Client.copy)
    markdown = _blocking(Client.markdown)
    search = _blocking(Client.search)
    add = _blocking(Client.add)
    remove = _blocking(Client.remove)
    refresh = _blocking(Client.refresh)
    status = _blocking(Client.status)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()  # where the program was interrupted while it waited
            raise

    def _iterate(self, found: AsyncIterator[T]) -> Iterator[T]:
        end = object()

        async def following() -> T | object:
            return await anext(found, end)

        while (one := self._run(following())) is not end:
            yield one  # type: ignore[misc]


@dataclass(slots=True)
class BlockingReconciliation:
    """`Reconciliation` for programs without an event loop."""

    _client: BlockingClient
    _run: Reconciliation

    def __iter__(self) -> Iterator[DocumentChange]:
        return self._client._iterate(aiter(self._run))

    @property
    def cursor(self) -> int | None:
        """Returns where to follow from; None before the end."""
        return self._run.cursor
