"""One truth of settings: those of a fleet are in its database, and a machine's own file changes none of them."""

import json
from pathlib import Path

import asyncpg
from click.testing import CliRunner

from crawld.cli import main
from crawld.fleet.assembly import shared_document, with_shared
from crawld.main.settings import Settings, load
from tests.support.fleet import crawls, made, until, worker, worker_settings
from tests.support.process import command
from tests.support.site import Site


def test_shared_settings_come_back_as_they_were(tmp_path: Path) -> None:
    """Stored and read again they are the same; what is a machine's own is not stored."""
    hook = {"name": "told", "command": ["cat"], "pattern": "*/a/*"}
    file = worker_settings(
        tmp_path / "w", ["http://a.example/"], "postgresql://crawld@db/crawld", "w1", hooks=[hook],
        politeness={"delay": "1500ms"}, discover=[{"site": "https://a.example/"}], keep_bodies="none",
        digest=[{"mode": "text", "ignore": [".x"]}], retention={"days": 3},
    )  # fmt: skip
    given = load(file)
    document = json.loads(json.dumps(shared_document(given)))
    assert not {"urls", "database", "api", "log", "user_agent", "bandwidth"} & document.keys()
    assert with_shared(given, document) == given
    other = Settings(database=given.database, urls="elsewhere")
    assert with_shared(other, document).hooks == given.hooks
    assert with_shared(other, document).urls == "elsewhere"


def test_apply_shows_the_difference_and_asks(tmp_path: Path, postgres_url: str) -> None:
    """Nothing is changed without an agreement; what is in force already is not applied again."""
    assert CliRunner().invoke(main, ["fleet", "init", "--shards", "4", "--database", postgres_url]).exit_code == 0
    urls = [f"https://a.example/{number}" for number in range(60)]
    file = worker_settings(tmp_path / "w", urls, postgres_url, "w1", politeness={"delay": 3})

    def apply(*words: str, answer: str = "") -> str:
        done = CliRunner().invoke(main, ["fleet", "apply", "--config", str(file), *words], input=answer)
        assert done.exit_code == 0, done.output
        return done.output

    said = apply(answer="n\n")
    assert "politeness.delay: 1s -> 3s" in said
    assert "60 pages" in said
    assert "nothing was applied" in said
    shown = json.loads(apply("--json"))
    assert (shown["applied"], shown["revision"]) == (False, 0)
    done = json.loads(apply("--json", "--yes"))
    assert (done["applied"], done["revision"], done["list"]["added"]) == (True, 1, 60)
    assert "nothing to apply" in apply()
    listed = next(tmp_path.glob("w/*.txt"))
    listed.write_text("\n".join(urls[:20]))
    said = apply(answer="y\nn\n")
    assert "no longer names 40 of 60 pages" in said
    assert "0 retired, 40 kept though not named" in said
    listed.write_text("\n".join(urls[:21]))
    assert json.loads(apply("--json", "--yes"))["list"]["retired"] == 39


async def test_a_worker_with_other_settings_goes_by_the_fleets(tmp_path: Path, postgres_url: str) -> None:
    """An older list retires nothing, a hook that the file lacks is told, and what is applied later is taken over."""
    async with Site() as site:
        await made(postgres_url, 4, 30, tmp_path)
        urls = [site.url(f"/ok/{number}") for number in range(30)]
        told = tmp_path / "told"
        hook = {"name": "told", "command": ["sh", "-c", f"cat >> {told}"], "verdicts": ["new"]}
        fleets = worker_settings(tmp_path / "fleet", urls, postgres_url, "w1", hooks=[hook])
        applied = await command("fleet", "apply", "--config", str(fleets), "--yes", cwd=tmp_path)
        assert applied.status == 0, applied.err
        own = worker_settings(tmp_path / "w1", urls[:25], postgres_url, "w1")
        async with worker("w1", own) as running:
            run = {"w1": running}
            line = await running.until_logged("differ from the fleet's")
            assert "hooks" in line
            await running.until_logged("is not the list that the fleet goes by")
            await until(lambda: len({seen.path for seen in crawls(site)}) == 30, run, "every page is crawled")
            await until(lambda: told.exists() and told.read_text().count("/ok/") >= 30, run, "the hook is told")
            given = {"politeness": {"delay": 2}, "hooks": [hook, hook | {"name": "second"}]}
            newer = worker_settings(tmp_path / "newer", urls, postgres_url, "w1", **given)
            assert (await command("fleet", "apply", "--config", str(newer), "--yes", cwd=tmp_path)).status == 0
            line = await running.until_logged("after a restart")
            assert "hooks" in line.partition("after a restart")[0]
            assert "politeness.delay" in line.partition("after a restart")[2]
            status = json.loads((await command("fleet", "status", "--json", "--config", str(own), cwd=tmp_path)).out)
            assert [one["kind"] for one in status["trouble"]] == ["settings"]
            assert status["settings_revision"] == 2
            assert await running.end() == 0
        database = await asyncpg.connect(postgres_url)
        assert await database.fetchval("SELECT count(*) FROM pages WHERE state <> 'retired'") == 30
        await database.close()
