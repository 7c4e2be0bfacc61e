"""Texts given out and searched: `python -m benchmarks.documents [--pages N] [--bytes N] [--json]`.

A SQLite file is filled with pages of drawn words (Zipf's law), each with its copy, its document and its place in the
index. The real daemon starts on it with a bandwidth of 0, and a process of its own reads every change with its Markdown
while the daemon watches how late its event loop is. Then one to three words of random pages are searched for, and the
two commonest words of all.

`loop_late_ms` is the longest delay of a task that only sleeps, `loop_cpu_longest_ms` the most processor time that the
loop's thread spent between two turns of it: on a busy machine only processor times tell what the work itself costs.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import argument_parser, show
from crawld.main.assembly import Assembly
from crawld.main.settings import Settings
from crawld.model.clock import SystemClock
from crawld.model.crawl import Crawl, Digest, Memory, Verdict
from crawld.model.page import Document, PageState, Wanted
from crawld.show.api.access import make_token
from crawld.store.batch import Record
from crawld.store.documents import PendingCopy
from crawld.store.read_model import SqlReadModel
from crawld.store.store import SqlStore
from tests.support.process import free_port


@dataclass(frozen=True)
class DocumentsLimits:
    """Numbers of this benchmark."""

    words: int = 60_000
    """In the vocabulary; the n-th is drawn in proportion to 1/n."""
    at_once: int = 500
    searches: int = 200


LIMITS = DocumentsLimits()


class Texts:
    """Documents of drawn words."""

    def __init__(self, size: int, seed: int = 1) -> None:
        luck = random.Random(seed)
        self.words = [
            "".join(luck.choices("abcdefghijklmnoprstuvw", k=luck.randint(2, 11))) for _ in range(LIMITS.words)
        ]
        odds = 1.0 / np.arange(1, LIMITS.words + 1)
        self._odds, self._rng, self._size = np.cumsum(odds / odds.sum()), np.random.default_rng(seed), size

    def draw(self) -> str:
        """A text of about so many bytes."""
        found = np.searchsorted(self._odds, self._rng.random(self._size // 4))
        return " ".join(self.words[min(place, LIMITS.words - 1)] for place in found)[: self._size]


async def fill(file: Path, pages: int, size: int) -> dict[str, float]:
    """A database of so many pages with their texts in the index; the bytes of both, and what indexing a page costs."""
    store, texts, now = SqlStore(f"sqlite:///{file}", keep_bodies="changes"), Texts(size), time.time()
    await store.start()
    await store.prepare_documents(search=True)
    urls = [f"https://h{number % 100}.example/page-{number}" for number in range(1, pages + 1)]
    await store.adopt([Wanted(url, 1.0) for url in urls], origin="list", now=now)
    characters, spent = 0, 0.0
    for start in range(0, pages, LIMITS.at_once):
        ids = range(start + 1, min(start + LIMITS.at_once, pages) + 1)
        drawn = {page: texts.draw() for page in ids}
        for page, text in drawn.items():
            memory = Memory(page, now, Digest(page.to_bytes(16), page.to_bytes(16), ()), content_type="text/html")
            crawl = Crawl(page_id=page, at=now, verdict=Verdict.NEW)
            store.record(Record(crawl, PageState.LIVE, memory=memory, body=f"<p>{text}</p>".encode()))
        await store.flush()
        page = start
        while pending := await store.pending_copies(page, by_page=True):
            page = pending[-1].number
            kept = [(one, _document(drawn[one.page_id], one)) for one in pending]
            began = time.process_time()
            await store.save_documents(kept, page, search=True)
            spent += time.process_time() - began
        characters += sum(map(len, drawn.values()))
    await store.close()
    with sqlite3.connect(file) as db:
        tables = ("search_words_data", "search_words_idx", "search_words_docsize", "search_words_config")
        marks = ",".join("?" for _ in tables)
        (index,) = db.execute(f"SELECT sum(pgsize) FROM dbstat WHERE name IN ({marks})", tables).fetchone()
    return {"index_share_of_text": round(index / characters, 3), "index_us_a_page": round(1e6 * spent / pages)}


def _document(text: str, copy: PendingCopy) -> Document:
    return Document(text, f'---\nurl: "{copy.url}"\n---\n\n{text}\n', f"Page {copy.page_id}", "en", copy.url)


class LoopWatch:
    """Watches the delay of a task that only sleeps, and the processor time between two turns."""

    STEP = 0.005

    def __init__(self) -> None:
        self.late = self.spent = 0.0

    async def _run(self) -> None:
        while True:
            began, spent = time.perf_counter(), time.thread_time()
            await asyncio.sleep(self.STEP)
            self.late = max(self.late, time.perf_counter() - began - self.STEP)
            self.spent = max(self.spent, time.thread_time() - spent)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs."""
        self.late = self.spent = 0.0
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()


async def measure(pages: int, size: int, kept: Path | None) -> dict[str, Any]:
    """All figures; `kept` is a database that is filled where there is none and left for the next time."""
    with tempfile.TemporaryDirectory(prefix="crawld-documents-") as folder:
        file = kept or Path(folder) / "x.db"
        figures: dict[str, Any] = {"pages": pages, "bytes_a_page": size}
        figures |= {} if file.exists() else await fill(file, pages, size)
        address = f"http://127.0.0.1:{(port := free_port())}"
        given = {"database": f"sqlite:///{file}", "bandwidth": 0, "search": True, "api": {"listen": address[7:]}}
        daemon = Assembly(Settings.model_validate(given | {"log": {"level": "warning"}})).daemon()
        running = asyncio.create_task(daemon.run())
        token = make_token(Path(f"{file}.token"))
        try:
            await _until_up(port)
            figures |= await _followed(address, token)
        finally:
            daemon.stop()
            await running
        return figures | await _searched(f"sqlite:///{file}", Texts(size))


async def _followed(address: str, token: str) -> dict[str, Any]:
    """The changes with their Markdown, twice: for the time, and for how late the loop is."""
    began = time.process_time()
    found = await _asked(address, token)
    found["changes_a_cpu_second"] = round(found["changes"] / (time.process_time() - began))
    watch = LoopWatch()
    with watch.watching():
        await _asked(address, token)
    late = {"loop_late_ms": round(1e3 * watch.late, 1), "loop_cpu_longest_ms": round(1e3 * watch.spent, 1)}
    return found | late


async def _searched(database: str, texts: Texts) -> dict[str, float]:
    """The time of searches, and the processor's."""
    luck, took, spent = random.Random(2), dict[str, list[float]](), dict[str, list[float]]()
    drawn = [luck.sample(texts.draw().split(), 1 + number % 3) for number in range(LIMITS.searches)]
    asked = [("drawn", words) for words in drawn] + [("commonest", texts.words[:2])] * 10
    async with SqlReadModel(database, SystemClock()) as model:
        for kind, words in asked:
            began, used = time.perf_counter(), time.process_time()
            await model.search(" ".join(words))
            took.setdefault(kind, []).append(time.perf_counter() - began)
            spent.setdefault(kind, []).append(time.process_time() - used)
    every = [("", took), ("_cpu", spent)]
    return {
        f"search_{kind}_median{unit}_ms": round(1e3 * statistics.median(times[kind]), 1)
        for kind in took
        for unit, times in every
    }


async def _asked(*words: str) -> dict[str, Any]:
    """Asks from another process, so that the daemon's loop does not wait for its client's."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.documents", "--ask", *words, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    return dict(json.loads(told))


def _ask(address: str, token: str) -> dict[str, Any]:
    """Read every change with its Markdown."""

    def get(path: str) -> Any:
        request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    began, cursor, count = time.perf_counter(), 0, 0
    while (told := get(f"/v1/changes?after={cursor}&include=markdown&limit=200"))["changes"]:
        if not all(one["markdown"] for one in told["changes"]):
            raise SystemExit(f"a change after {cursor} came without its Markdown")
        cursor, count = told["cursor"], count + len(told["changes"])
    return {"changes": count, "changes_a_second": round(count / (time.perf_counter() - began))}


async def _until_up(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def main() -> None:
    """Print the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=5_000, help="of the text of a page")
    parser.add_argument("--database", type=Path, help="a SQLite file to fill and leave, or to use as it was left")
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(_ask(*options.ask)))
    else:
        show(asyncio.run(measure(options.pages, options.bytes, options.database)), as_json=options.json)


if __name__ == "__main__":
    main()
