"""SIGKILL at random moments: nothing torn, and nothing lost that a flush had waited for."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

FLUSHED = 25
"""Records between two flushes."""
PAGES = 50

CHILD = f"""
import asyncio, sys
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
        if n % {FLUSHED} == 0:
            await store.flush()
            print("kept", n, flush=True)
        else:
            print("queued", n, flush=True)
            await asyncio.sleep(0.002)

asyncio.run(main())
"""


def said(output: str) -> list[tuple[str, int]]:
    """Every complete line of a child: that a record was queued, or that it was kept with all before it."""
    return [(word, int(n)) for word, n in (line.split() for line in output.split("\n")[:-1])]


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random(tmp_path: Path, seed: int) -> None:
    """After each kill the database is whole, its rows agree, and only what came after the last flush is missing."""
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
        told = said(first_line + child.stdout.read())
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
        flushed = max((n for word, n in told if word == "kept"), default=last)
        missing = [n for _, n in told if n not in stored]
        assert missing == list(range(told[-1][1] - len(missing) + 1, told[-1][1] + 1))
        assert not missing or missing[0] > flushed
        last = max(told[-1][1], *stored)  # the last one may be kept and not said
