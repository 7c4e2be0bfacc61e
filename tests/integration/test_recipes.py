"""The recipes of `docs/recipes`, executed as they are: an index follows a real daemon through changes and deletions."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

from crawld.client import BlockingClient
from tests.support.behaviours import guide, html
from tests.support.daemon import CALM, rows, running, until
from tests.support.site import Site

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
NAMES = {"sqlite_fts", "git_folder", "meilisearch", "opensearch", "langchain", "llamaindex", "qdrant"}
FIRST = {
    "/a": "The relay forwards every connection to the upstream that answers soonest.",
    "/b": "Each winter the swell tore at the footings of the old harbour wall.",
    "/c": "The marsh warbler imitates the songs of many other species of bird.",
}
THEN = "Nothing of what was said before is true any longer, says the kettle."


def recipe(name: str) -> ModuleType:
    """A recipe as a module."""
    file = RECIPES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Followed:
    """A daemon with three pages, one of which changes while another goes."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._folder, self._site = folder, site

    async def sync(self, work: Callable[[BlockingClient], Any]) -> Any:
        """Run a recipe's synchronisation with a client of the daemon."""

        def run() -> Any:
            with BlockingClient(f"unix:{self._folder}/x.db.sock") as client:
                return work(client)

        return await asyncio.to_thread(run)

    def url(self, path: str) -> str:
        """The address of a page."""
        return self._site.url(path)

    async def change(self) -> None:
        """Let one page change and take another off."""
        self._site.pages["/a"] = html(guide("a", THEN))
        await self.sync(lambda client: client.refresh(self.url("/a"), wait=20))
        await self.sync(lambda client: client.remove(self.url("/b")))


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[Followed]:
    """A daemon that has the first copies of its pages."""
    async with Site() as site:
        for path, prose in FIRST.items():
            site.pages[path] = html(guide(path.strip("/"), prose))
        async with running(folder, [site.url(path) for path in FIRST], **CALM):
            await until(lambda: len(rows(folder, "SELECT 1 FROM bodies")) == len(FIRST))
            yield Followed(folder, site)


def test_every_recipe_is_short_and_tested() -> None:
    """A recipe has at most sixty lines, and each is executed here."""
    files = {file.stem: file.read_text("utf-8") for file in RECIPES.glob("*.py")}
    assert set(files) == NAMES
    assert {name: text.count("\n") for name, text in files.items() if text.count("\n") > 60} == {}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")
async def test_light_recipes(tmp_path: Path) -> None:
    """An FTS5 file, a git folder, Meilisearch and OpenSearch hold what the daemon holds, before and after changes."""
    names = ("sqlite_fts", "git_folder", "meilisearch", "opensearch")
    sqlite_fts, folder, meilisearch, opensearch = (recipe(name) for name in names)
    async with followed(tmp_path) as daemon:
        file, notes = str(tmp_path / "index.db"), tmp_path / "notes"
        _configure_git(notes)
        async with Standin() as standin:
            meili, search = meilisearch.Meilisearch(standin.address, "key"), opensearch.OpenSearch(standin.address)
            await asyncio.to_thread(search.create)

            async def sync() -> Any:
                await daemon.sync(lambda client: sqlite_fts.sync(client, sqlite_fts.open_index(file)))
                await daemon.sync(lambda client: meilisearch.sync(client, meili))
                await daemon.sync(lambda client: opensearch.sync(client, search))
                return await daemon.sync(lambda client: folder.sync(client, notes))

            assert await sync() == 3
            assert len(standin.meili) == len(standin.open) == 3
            await daemon.change()
            assert await sync() == 2
            written = standin.writes
            assert await sync() == 0  # what is unchanged and indexed is not written again
            assert standin.writes == written
        left = {daemon.url("/a"), daemon.url("/c")}
        assert {one["url"] for one in standin.meili.values()} == {one["url"] for one in standin.open.values()} == left
        assert sqlite_fts.search(sqlite_fts.open_index(file), "kettle")[0][0] == daemon.url("/a")
        assert sqlite_fts.search(sqlite_fts.open_index(file), "swell") == []
        files = sorted(path.name for path in notes.glob("*.md"))
        assert files == sorted(map(folder.file_of, left))
        log = subprocess.run(
            ["git", "-C", str(notes), "log", "--format=%s"], capture_output=True, text=True, check=True
        )
        assert log.stdout.splitlines() == ["2 pages differ", "3 pages differ"]


def _configure_git(folder: Path) -> None:
    folder.mkdir()
    for words in (["init"], ["config", "user.name", "Test"], ["config", "user.email", "test@example.org"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


class Standin:
    """Answers as Meilisearch and OpenSearch do, as far as the recipes ask, and refuses what these would refuse."""

    def __init__(self) -> None:
        self.meili: dict[str, Any] = {}
        self.open: dict[str, Any] = {}
        self.writes = 0

    async def __aenter__(self) -> "Standin":
        app = web.Application(client_max_size=2**24)
        app.router.add_get("/indexes/pages/documents", self._listed)
        app.router.add_post("/indexes/pages/documents", self._put)
        app.router.add_post("/indexes/pages/documents/delete-batch", self._delete)
        app.router.add_put("/pages", self._create)
        app.router.add_post("/pages/_search", self._search)
        app.router.add_post("/_bulk", self._bulk)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _listed(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer key"
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        fields = request.query["fields"].split(",")
        every = [{name: one[name] for name in fields} for one in self.meili.values()]
        return web.json_response({"results": every[offset : offset + limit], "total": len(every)})

    async def _put(self, request: web.Request) -> web.Response:
        assert request.query["primaryKey"] == "id"
        for one in await request.json():
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,511}", one["id"])
            self.meili[one["id"]] = one
        self.writes += 1
        return web.json_response({"taskUid": 1}, status=202)

    async def _delete(self, request: web.Request) -> web.Response:
        for key in await request.json():
            self.meili.pop(key, None)
        self.writes += 1
        return web.json_response({"taskUid": 2}, status=202)

    async def _create(self, request: web.Request) -> web.Response:
        assert (await request.json())["mappings"]["properties"]["url"] == {"type": "keyword"}
        return web.json_response({"acknowledged": True})

    async def _search(self, request: web.Request) -> web.Response:
        query = await request.json()
        after = query.get("search_after", [""])[0]
        found = sorted((one for one in self.open.values() if one["url"] > after), key=lambda one: str(one["url"]))
        hits = [{"_source": one, "sort": [one["url"]]} for one in found[: query["size"]]]
        return web.json_response({"hits": {"hits": hits}})

    async def _bulk(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-ndjson"
        lines = [json.loads(line) for line in (await request.text()).splitlines()]
        waiting: Iterator[Any] = iter(lines)
        for action in waiting:
            (verb, about), *_ = action.items()
            assert about["_index"] == "pages"
            assert len(about["_id"]) <= 512
            if verb == "delete":
                self.open.pop(about["_id"], None)
            else:
                self.open[about["_id"]] = next(waiting)
        self.writes += 1
        return web.json_response({"errors": False})


@contextmanager
def counted() -> Iterator[tuple[list[str], Callable[[Sequence[str]], list[list[float]]]]]:
    """A stand-in for a model that notes what it embedded."""
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return [[float(len(text)), 1.0, 2.0] for text in texts]

    yield seen, embed


async def test_qdrant(tmp_path: Path) -> None:
    """Vectors of a changed page are replaced, those of one that left are gone, and nothing is embedded twice."""
    from qdrant_client import QdrantClient

    module = recipe("qdrant")
    store = QdrantClient(":memory:")
    async with followed(tmp_path) as daemon:
        with counted() as (seen, embed):
            for _ in range(2):
                await daemon.sync(lambda client: module.sync(client, store, embed, 3))
            assert len(seen) == 3
            await daemon.change()
            await daemon.sync(lambda client: module.sync(client, store, embed, 3))
            assert len(seen) == 4
            assert THEN in seen[-1]
        assert set(module.known(store)) == {daemon.url("/a"), daemon.url("/c")}
        points, _ = store.scroll("pages", limit=10)
        assert {point.payload["anchor"] for point in points if point.payload} == {"top"}


@pytest.mark.filterwarnings("ignore")  # the library's own
async def test_langchain(tmp_path: Path) -> None:
    """The vector store and the record manager hold the parts of current pages alone."""
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.indexing import InMemoryRecordManager
    from langchain_core.vectorstores import InMemoryVectorStore

    module = recipe("langchain")
    records, store = InMemoryRecordManager("pages"), InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    known: dict[str, int | None] = {}
    async with followed(tmp_path) as daemon:
        await daemon.sync(lambda client: module.sync(client, records, store, known))
        assert len(store.store) == len(known) == 3
        await daemon.change()
        await daemon.sync(lambda client: module.sync(client, records, store, known))
        sources = {one["metadata"]["source"] for one in store.store.values()}
        assert sources == set(known) == {daemon.url("/a"), daemon.url("/c")}
        assert any(THEN in one["text"] for one in store.store.values())
        assert len(records.list_keys()) == len(store.store) == 2


@pytest.mark.skipif(importlib.util.find_spec("llama_index") is None, reason="the extra `recipes` is not installed")
@pytest.mark.filterwarnings("ignore")  # the library's own
async def test_llamaindex(tmp_path: Path) -> None:
    """The index holds current pages with their versions, and forgets those that left."""
    from llama_index.core import MockEmbedding, VectorStoreIndex

    module = recipe("llamaindex")
    index = VectorStoreIndex.from_documents([], embed_model=MockEmbedding(embed_dim=4))
    async with followed(tmp_path) as daemon:
        await daemon.sync(lambda client: module.sync(client, index))
        assert len(module.known(index)) == 3
        await daemon.change()
        await daemon.sync(lambda client: module.sync(client, index))
        assert set(module.known(index)) == {daemon.url("/a"), daemon.url("/c")}
        assert any(THEN in node.get_content() for node in index.docstore.docs.values())
