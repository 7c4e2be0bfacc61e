"""SIGKILL at random moments: nothing torn, and nothing lost that was older than the commit interval."""

import itertools
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMIT_INTERVAL = 0.2
STEP = 0.002
PAGES = 50

CHILD = f"""
import asyncio, sys, time
from crawld.model.crawl import Crawl, Digest, Memory, Verdict
from crawld.model.page import PageState, Wanted
from crawld.store.batch import Record
from crawld.store.store import SqlStore

async def main():
    store = SqlStore(sys.argv[1])
    await store.start()
    await store.adopt([Wanted(f"https://example.org/{{i}}") for i in range({PAGES})], origin="list", now=0.0)
    n = int(sys.argv[2])
    while True:
        n += 1
        page = 1 + n % {PAGES}
        memory = Memory(page, float(n), Digest(n.to_bytes(16, "big")))
        crawl = Crawl(page, float(n), Verdict.CHANGED, tau=1.0)
        store.record(Record(crawl, PageState.LIVE, memory=memory, body=b"body %d" % n))
        print(n, time.monotonic(), flush=True)
        await asyncio.sleep({STEP})

asyncio.run(main())
"""


def acknowledged(output: str) -> list[tuple[int, float]]:
    """(number, when it was queued) of every complete line."""
    lines = output.split("\n")[:-1]
    return [(int(n), float(at)) for n, at in (line.split() for line in lines)]


def awake_since(queued: list[tuple[int, float]], number: int, killed: float) -> float:
    """How long the child ran after queueing `number`; pauses in which the machine did not let it run do not count."""
    moments = [at for n, at in queued if n >= number] + [killed]
    return sum(min(later - earlier, 5 * STEP) for earlier, later in itertools.pairwise(moments))


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random(tmp_path: Path, seed: int) -> None:
    """After each kill the database is whole, its rows agree, and only the last moments are missing."""
    file = tmp_path / "crawld.db"
    chance = random.Random(seed)
    last = 0
    kept: set[int] = set()
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, f"sqlite:///{file}", str(last)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        first_line = child.stdout.readline()
        time.sleep(chance.uniform(0.0, 1.0))
        child.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        queued = acknowledged(first_line + child.stdout.read())
        child.stdout.close()
        child.wait()
        connection = sqlite3.connect(file)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            stored = {int(at) for (at,) in connection.execute("SELECT at FROM crawls")}
            torn = connection.execute(
                "SELECT p.id FROM pages p WHERE p.crawls <> (SELECT count(*) FROM crawls c WHERE c.page_id = p.id)"
                " OR p.crawls > 0 AND p.last_success <> (SELECT fetched_at FROM versions v WHERE v.page_id = p.id)"
                " OR p.crawls > 0 AND p.last_success <> (SELECT max(b.at) FROM bodies b WHERE b.page_id = p.id)"
            ).fetchall()
            twice = connection.execute("SELECT at FROM crawls GROUP BY at HAVING count(*) > 1").fetchall()
        finally:
            connection.close()
        assert (torn, twice) == ([], [])
        assert stored >= kept
        kept = stored
        missing = [n for n, _ in queued if n not in stored]
        if missing:
            assert missing == list(range(missing[0], queued[-1][0] + 1))
            assert awake_since(queued, missing[0], killed) <= COMMIT_INTERVAL
        last = queued[-1][0]
