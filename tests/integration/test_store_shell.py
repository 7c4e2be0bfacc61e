"""The documented views and queries, through the shells and drivers that people use."""

import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import text

from crawld.model.crawl import Verdict
from crawld.model.page import PageState
from crawld.store import report as reports
from crawld.store.address import parse_address
from crawld.store.engine import reading_engine
from crawld.store.report import Reader
from crawld.store.store import SqlStore
from tests.support.store_builders import NOW, by_source, estimate, memory, point, record, signal, wanted

DOCUMENT = (Path(__file__).parents[2] / "docs" / "database.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)
VIEWS = {
    "page_stats": tuple(reports.page_stats.c.keys()),
    "host_stats": tuple(reports.host_stats.c.keys()),
    "signal_stats": tuple(reports.signal_stats.c.keys()),
    "calibration": (*reports.calibration.c.keys(), "gap"),
    "freshness_history": (
        "at", "bandwidth", "request_rate", "predicted", "measured", "measured_low", "measured_high", "level",
        "pages", "changed_share", "skipped_slots",
    ),
    "slot_history": ("span", "at", "use", "outcome", "slots"),
}  # fmt: skip


async def fill(url: str) -> None:
    """A small database in which every documented query finds something."""
    store = SqlStore(url)
    await store.start()
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, memory=memory(1), body=b"<p>"))
    store.record(record(1, Verdict.CHANGED, at=NOW + 60, tau=60.0, predicted=0.5, magnitude=0.1))
    store.record(record(2, Verdict.FAILED, state=PageState.FAILING, failures=1))
    store.record_signals([signal(1, at=NOW + 61)])
    store.record_freshness(point(NOW, predicted=0.5, slots={("page", "ok"): 1}))
    for host in await store.hosts():
        store.record_host(type(host)(host.name, failures=1))
    await store.flush()
    await store.save_estimates([estimate(1, at=NOW, kappa=by_source(sitemap=0.5), gamma=by_source(sitemap=1e-6))])
    await store.close()


def test_there_are_eleven_queries() -> None:
    """The document keeps its promise."""
    assert len(QUERIES) == 11


@pytest.mark.parametrize("view", VIEWS)
def test_every_column_is_documented(view: str) -> None:
    """The document's table of a view names its columns in their order."""
    section = DOCUMENT.split(f"### {view}:")[1].split("\n#")[0]
    cells = re.findall(r"^\| ([a-z_, ]+) \|", section, re.MULTILINE)[1:]
    assert [name for cell in cells for name in cell.split(", ")] == list(VIEWS[view])


async def test_the_queries_run_in_the_sqlite_shell(tmp_path: Path) -> None:
    """Each query answers with at least a row, in the plain shell beside no daemon."""
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("no sqlite3 shell on this machine")
    file = tmp_path / "crawld.db"
    await fill(f"sqlite:///{file}")
    for query in QUERIES:
        done = subprocess.run([shell, "-readonly", file, query], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip(), query


async def test_the_queries_run_in_python(tmp_path: Path) -> None:
    """Each query answers through Python's own driver where its SQLite can compute."""
    file = tmp_path / "crawld.db"
    await fill(f"sqlite:///{file}")
    connection = sqlite3.connect(file)
    try:
        functions = {name for (name,) in connection.execute("SELECT name FROM pragma_function_list")}
        if not {"exp", "ln"} <= functions:
            pytest.skip("Python's SQLite was built without mathematical functions")
        for query in QUERIES:
            assert connection.execute(query).fetchall(), query
    finally:
        connection.close()


async def test_the_queries_and_columns_are_the_same_everywhere(store_url: str) -> None:
    """Each query answers, and each view has its columns in order, on both databases."""
    await fill(store_url)
    engine = reading_engine(parse_address(store_url))
    async with engine.begin() as connection:
        for query in QUERIES:
            assert (await connection.execute(text(query.strip().rstrip(";")))).all(), query
        for view, columns in VIEWS.items():
            result = await connection.execute(text(f"SELECT * FROM {view}"))
            assert tuple(result.keys()) == columns
            assert result.all()
    await engine.dispose()


async def test_the_shell_reads_beside_a_running_store(tmp_path: Path) -> None:
    """The shell and a reader see what is committed while the daemon holds the database."""
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("no sqlite3 shell on this machine")
    file = tmp_path / "crawld.db"
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    await store.adopt(wanted("a"), origin="list", now=NOW)
    done = subprocess.run([shell, file, "SELECT count(*) FROM page_stats"], capture_output=True, text=True, check=True)
    async with Reader(f"sqlite:///{file}") as reader:
        assert (await reader.overall()).pages == int(done.stdout) == 1
    await store.close()
