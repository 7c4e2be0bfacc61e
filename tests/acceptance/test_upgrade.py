"""The upgrade of a real installation: a database that release 0.1.0 wrote, and the way back."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import crawld
from crawld.store.schema import latest_revision
from tests.support.process import ROOT, command, daemon, settings
from tests.support.site import Site

WRITTEN_BY_0_1_0 = ROOT / "tests/data/database_0_1_0.sql"
COUNTS = "SELECT url, crawls, changes FROM pages ORDER BY id"


def restore_first_release(file: Path, port: int) -> None:
    """Make the database anew, as if its pages were on this port."""
    dump = WRITTEN_BY_0_1_0.read_text(encoding="utf-8").replace(":8000", f":{port}")
    with closing(sqlite3.connect(file)) as database:
        database.executescript(dump)


def ask(file: Path, question: str) -> list[tuple[object, ...]]:
    """Rows of a database."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return database.execute(question).fetchall()


async def test_a_database_of_the_first_release_is_copied_and_migrated(tmp_path: Path) -> None:
    """The log says from which revision to which and where the copy is; history is kept, and pages are still known."""
    async with Site() as site:
        file, copy = tmp_path / "x.db", tmp_path / "x.db.revision-0003"
        restore_first_release(file, site.port)
        before = ask(file, COUNTS)
        bodies = ask(file, "SELECT count(*) FROM bodies")
        urls = [str(url) for url, *_ in before]
        async with daemon("--config", str(settings(tmp_path, urls)), cwd=tmp_path) as running:
            copied = await running.until_logged("copied the database")
            migrated = await running.until_logged("migrating the database")
            await running.until_logged("verdict=unchanged")
            assert await running.end() == 0
        assert f"copy={copy}" in copied
        assert f"from=0003 to={latest_revision()}" in migrated
        after = {
            str(url): (int(str(crawls)), changes)
            for url, crawls, changes in ask(file, "SELECT url, crawls, changes FROM pages")
        }
        for url, crawls, _ in before:
            assert after[str(url)][0] >= int(str(crawls))
        assert not any("verdict=new" in line for line in running.log if "/ok/" in line), "a page was forgotten"
        assert ask(copy, "SELECT version_num FROM alembic_version") == [("0003",)]
        assert ask(copy, COUNTS) == before
        assert ask(copy, "SELECT count(*) FROM bodies") == bodies
        assert copy.stat().st_mode & 0o077 == 0
        async with daemon("--config", str(tmp_path / "config.yaml"), cwd=tmp_path) as running:
            await running.until_logged("ready")
            assert await running.end() == 0
        assert not any("migrating" in line or "copied" in line for line in running.log)


async def test_a_refused_downgrade_names_the_version_and_the_copy(tmp_path: Path) -> None:
    """A database of a newer release says which release that is, and which copy this one can go back to."""
    async with Site() as site:
        file = tmp_path / "x.db"
        restore_first_release(file, site.port)
        config = settings(tmp_path, [site.url("/ok/1")])
        async with daemon("--config", str(config), cwd=tmp_path) as running:
            await running.until_logged("ready")
            assert await running.end() == 0
        with closing(sqlite3.connect(file)) as database, database:
            assert database.execute("SELECT value FROM settings WHERE name = 'crawld version'").fetchall() == [
                (crawld.__version__,)
            ]
            database.execute("UPDATE settings SET value = '9.8.7' WHERE name = 'crawld version'")
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        refused = await command("run", "--config", str(config), cwd=tmp_path)
        assert refused.status == 2
        assert "a newer crawld (9.8.7, revision 9999)" in refused.err
        assert "install crawld 9.8.7 again" in refused.err
        assert str(tmp_path / "x.db.revision-0003") in refused.err
        assert "install crawld 9.8.7 again" in (await command("stats", "--config", str(config), cwd=tmp_path)).err


async def test_the_version_says_where_it_came_from(tmp_path: Path) -> None:
    """`crawld --version` names the release, the checkout with its commit, and the revision of the database."""
    done = await command("--version", cwd=tmp_path)
    assert done.status == 0, done.err
    place = rf"checkout {re.escape(str(ROOT))}(, commit [0-9a-f]{{10}})?"
    found = re.fullmatch(rf"crawld (\d+\.\d+\.\d+) \({place}; database revision \d+\)\n", done.out)
    assert found, done.out
    assert found[1] == crawld.__version__
