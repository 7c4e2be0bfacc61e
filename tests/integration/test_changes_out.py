"""Changes, differences and exports on the command line, with the daemon stopped and running."""

import asyncio
import csv
import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawld.model.crawl import Digest, Memory, Verdict
from crawld.model.page import PageState
from crawld.store.store import SqlStore
from tests.support.behaviours import page
from tests.support.daemon import running, until
from tests.support.process import ENVIRONMENT, command
from tests.support.site import Site
from tests.support.store_builders import NOW, record, wanted

URL = "https://example.org/a"
DATABASE = ("--database", "sqlite:///x.db")


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A database that a daemon left: one page with three versions, one that is gone, one never crawled."""
    store = SqlStore(f"sqlite:///{tmp_path}/x.db")
    await store.start()
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    for later, text in enumerate(("One red apple.", "One green apple.", "Two green apples.")):
        verdict = Verdict.CHANGED if later else Verdict.NEW
        known = Memory(1, NOW + later, Digest(b"r"), content_type="text/html")
        store.record(record(1, verdict, at=NOW + later, body=page("Fruit", text).encode(), memory=known, magnitude=0.5))
        await store.flush()
    store.record(record(2, Verdict.GONE, at=NOW + 9, state=PageState.GONE))
    await store.close()
    return tmp_path


async def test_changes_by_cursor(folder: Path) -> None:
    """Without a cursor the latest, with one those after it; the number to go on from is said."""
    ended = await command("changes", *DATABASE, cwd=folder)
    assert [line.split()[0] for line in ended.out.splitlines()] == ["1", "2", "3", "4"]
    assert "go on with --after 4" in ended.err
    ended = await command("changes", "--after", "2", "--json", *DATABASE, cwd=folder)
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [(one["id"], one["verdict"], one["version"], one["previous"]) for one in told] == [
        (3, "changed", 3, 2), (4, "gone", None, None),
    ]  # fmt: skip


async def test_following_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """`--follow` prints what comes while the daemon runs, each change once."""
    async with Site() as site, running(tmp_path, [site.url("/cue/1")]) as daemon:
        await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        await daemon.store.flush()
        following = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crawld", "changes", "--after", "0", "--follow", "--json", *DATABASE,
            cwd=tmp_path, env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert following.stdout is not None
        seen = [json.loads(await following.stdout.readline())]
        for _ in range(2):
            site.change("/cue/1")
            seen.append(json.loads(await following.stdout.readline()))
        following.terminate()
        await following.wait()
    assert [one["id"] for one in seen] == [1, 2, 3]
    assert [one["verdict"] for one in seen] == ["new", "changed", "changed"]


async def test_differences_by_words(folder: Path) -> None:
    """The latest two versions unless told otherwise; brackets where no terminal shows colours."""
    ended = await command("diff", URL, *DATABASE, cwd=folder)
    assert "[-One-]{+Two+} green [-apple-]{+apples+}." in ended.out
    ended = await command("diff", URL, "--from", "1", "--to", "2", "--unified", *DATABASE, cwd=folder)
    assert [line for line in ended.out.splitlines()[2:] if line[0] in "-+"] == ["-One red apple.", "+One green apple."]
    told = json.loads((await command("diff", URL, "--json", *DATABASE, cwd=folder)).out)
    assert (told["before"]["id"], told["after"]["id"]) == (2, 3)
    assert {block["edit"] for block in told["blocks"]} == {"same", "changed"}
    for words, said in ((["--to", "9"], "kept: 1, 2, 3"), (["--from", "9"], "kept: 1, 2, 3")):
        ended = await command("diff", URL, *words, *DATABASE, cwd=folder)
        assert (ended.status, said in ended.err) == (2, True)
    assert "is not known here" in (await command("diff", "https://other.example/", *DATABASE, cwd=folder)).err


async def test_exports(folder: Path) -> None:
    """JSON lines with the text, CSV with a header, WARC with the copies."""
    ended = await command("export", "--text", *DATABASE, cwd=folder)
    told = {one["url"]: one for one in map(json.loads, ended.out.splitlines())}
    assert len(told) == 3
    assert "Two green apples." in told[URL]["text"].splitlines()
    assert "text" not in told["https://example.org/c"]
    ended = await command("export", "--format", "csv", "--state", "gone", *DATABASE, cwd=folder)
    assert [row["url"] for row in csv.DictReader(StringIO(ended.out))] == ["https://example.org/b"]
    for name, begins in (("x.warc.gz", b"\x1f\x8b"), ("x.warc", b"WARC/1.")):
        ended = await command("export", "--format", "warc", "--output", name, *DATABASE, cwd=folder)
        assert ended.status == 0, ended.err
        assert (folder / name).read_bytes().startswith(begins)
        with (folder / name).open("rb") as stream:
            found = [(one.rec_type, one.rec_headers["WARC-Target-URI"], one.content_stream().read())
                     for one in ArchiveIterator(stream)]  # fmt: skip
        assert [(kind, url) for kind, url, _ in found] == [("resource", URL)]
        assert b"Two green apples." in found[0][2]
    ended = await command("export", "--format", "csv", "--text", *DATABASE, cwd=folder)
    assert ended.status == 2
    for name, begins in (("pages.csv", b"url,host,"), ("x.WARC", b"WARC/1."), ("pages.json", b'{"url": ')):
        assert (await command("export", "--output", name, *DATABASE, cwd=folder)).status == 0
        assert (folder / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/nowhere/pages.csv", "crawld: /nowhere/pages.csv: No such file or directory\n"),
        ("/dev/full", "crawld: what is printed cannot be written: No space left on device\n"),
    ],
)
async def test_an_export_that_cannot_be_written_is_told_in_a_sentence(folder: Path, place: str, said: str) -> None:
    """A folder that is not there, a full disk: one line and no traceback."""
    ended = await command("export", "--output", place, *DATABASE, cwd=folder)
    assert (ended.status, ended.err) == (2, said)
