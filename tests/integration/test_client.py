"""`crawld.client` against a real daemon: an index that follows, drifts and is put right."""

import asyncio
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from crawld.client import BlockingClient, Client, CursorLostError, NotKeptError, UnreachableError
from tests.support.behaviours import answer
from tests.support.daemon import BRISK, CALM, rows, running, until
from tests.support.process import HANG_SECONDS, command
from tests.support.site import Site


def test_the_client_imports_nothing_else_of_crawld() -> None:
    """A program that imports the client gets aiohttp and the standard library, and no other module of crawld."""
    code = "import sys, crawld.client; print(sorted(name for name in sys.modules if name.startswith('crawld')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['crawld', 'crawld.client']"


async def followed(client: Client, cursor: int | None, count: int, known: dict[str, int | None]) -> list[str]:
    """So many changes after the cursor, as `kind path`, taken into the index."""
    found: list[str] = []
    async with asyncio.timeout(HANG_SECONDS), aclosing(client.follow(cursor, known=known)) as changes:
        async for change in changes:
            found.append(f"{change.kind} /{change.url.split('/', 3)[3]}")
            if len(found) == count:
                break
    return found


async def test_an_index_follows_drifts_and_is_put_right(tmp_path: Path) -> None:
    """First copies, a change, a page that goes and one that is removed arrive once; a reconciliation finds the rest."""
    async with Site() as site:
        one, two, three = (site.url(f"/cue/{number}") for number in (1, 2, 3))
        async with (
            running(tmp_path, [one, two, three], **CALM) as daemon,
            Client(f"unix:{tmp_path}/x.db.sock", pace=BRISK) as client,
        ):
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM changes")) == 3)
            assert sorted(await followed(client, 0, 3, {})) == ["new /cue/1", "new /cue/2", "new /cue/3"]
            site.change("/cue/1")
            site.pages["/cue/2"] = answer("not here", 404)
            await client.refresh(one, wait=20)
            await client.refresh(two, wait=20)
            await client.remove(three)
            assert await followed(client, 3, 3, {one: 1}) == ["changed /cue/1", "gone /cue/2", "removed /cue/3"]
            told = await client.changes(0, kinds="gone,removed")
            assert [one["verdict"] for one in told["changes"]] == ["gone", "removed"]
            drifted: dict[str, int | None] = {two: 2, three: 3}
            run = client.reconcile(drifted)
            steps = [(change.action, change.url) async for change in run]
            assert sorted(steps) == [("add", one), ("delete", two), ("delete", three)]
            assert run.cursor == 6
            assert [change async for change in client.reconcile({one: 4})] == []
            assert [(change.action, change.version) async for change in client.reconcile({one: 1})] == [("replace", 4)]
            with pytest.raises(CursorLostError):
                await followed_without_index(client, 1000)
            lost: dict[str, int | None] = {two: 2, one: 4}
            site.change("/cue/1")
            assert await followed(client, 1000, 1, lost) == ["removed /cue/2"]
            copy = await client.copy(one)
            assert (copy.version, copy.stale_reason) == (4, None)
            assert "Page /cue/1" in copy.text
            with pytest.raises(NotKeptError):
                await client.copy(site.url("/other"))
            assert daemon.crawler.status.faults == 0


async def followed_without_index(client: Client, cursor: int) -> None:
    """Follow without versions to reconcile by."""
    async for _ in client.follow(cursor):
        return


async def test_a_daemon_in_a_deep_folder_is_reached(tmp_path: Path) -> None:
    """A Unix socket has a path of at most 107 bytes; commands and the client reach one in a deeper folder."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    async with Site() as site, running(folder, [site.url("/ok/1")], **CALM):
        await until(lambda: len(rows(folder, "SELECT 1 FROM changes")) == 1)
        async with Client(f"unix:{folder}/x.db.sock") as client:
            assert (await client.status())["pages"] == 1
        asked = await command("bandwidth", "--database", f"sqlite:///{folder}/x.db", cwd=tmp_path)
        assert (asked.status, asked.err) == (0, "")


async def test_the_blocking_twin_does_the_same(tmp_path: Path) -> None:
    """A program without an event loop follows, reconciles and reads copies; a daemon that is away is told in words."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1")], **CALM):
        await until(lambda: len(rows(tmp_path, "SELECT 1 FROM changes")) == 1)

        def consume() -> tuple[list[str], list[str], str]:
            with BlockingClient(f"unix:{tmp_path}/x.db.sock", pace=BRISK) as client:
                first = next(iter(client.follow(0)))
                run = client.reconcile({first.url: 1})
                return [first.kind], [change.kind for change in run], client.copy(first.url).text

        kinds, differences, text = await asyncio.to_thread(consume)
        assert (kinds, differences) == (["new"], [])
        assert "Page /ok/1" in text
    with BlockingClient(f"unix:{tmp_path}/x.db.sock") as client, pytest.raises(UnreachableError, match="no answer"):
        client.status()
