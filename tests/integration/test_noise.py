"""Noise, error pages and upgrades as the daemon meets them on a real site."""

import itertools
import sqlite3
from pathlib import Path

from crawld.store.versions import decompress
from tests.support.behaviours import html, page
from tests.support.daemon import rows, running, until
from tests.support.site import Site, Visit

STEADY = ("The harbour of the town is large.", "Ships come in at night.", "Fish is sold on the quay.")


async def test_noise_is_learnt_and_the_copy_renewed(tmp_path: Path) -> None:
    """A token and a counter that differ at every fetch stop counting, and the copy is that of the last visit."""
    fetches = itertools.count(1000)

    async def noisy(visit: Visit) -> None:
        number = next(fetches)
        token = f"{number * 7919 % 100_003:x}"
        await visit.reply(
            page("Harbour", *STEADY, f"{number:,} visitors so far", f"Your token is {token}", *STEADY[:1])
        )

    def learnt() -> bool:
        verdicts = rows(tmp_path, "SELECT verdict FROM crawls ORDER BY id DESC LIMIT 25")
        return verdicts == [("unchanged",)] * 25

    async with Site() as site:
        site.pages["/noisy"] = noisy
        async with running(tmp_path, [site.url("/noisy")], fetch={"timeout": 30, "first_byte_timeout": 20}):
            await until(learnt)
    copy, at = rows(tmp_path, "SELECT zstd, at FROM bodies ORDER BY id")[-1]
    ((last,),) = rows(tmp_path, "SELECT max(at) FROM crawls")
    assert at == last
    assert b"visitors so far" in decompress(copy)


async def test_an_error_page_served_as_200_is_trouble(tmp_path: Path) -> None:
    """When all pages show one text, all but two have failed with their copies kept, and all come back."""
    paths = [f"/page/{number}" for number in range(8)]

    seen = "SELECT page_id FROM crawls WHERE verdict IN ('new', 'unchanged') GROUP BY page_id HAVING count(*) >= 3"
    steady = f"SELECT count(*) FROM ({seen})"

    def content(site: Site) -> None:
        for path in paths:
            site.pages[path] = html(page(f"Page {path}", f"What {path} is about.", *STEADY))

    async with Site() as site:
        content(site)
        urls = [site.url(path) for path in paths]
        calm = {"politeness": {"delay": 0, "per_host": 1}, "fetch": {"timeout": 30, "first_byte_timeout": 20}}
        async with running(tmp_path, urls, **calm) as daemon:  # one visit at a time: the first two cannot be told yet
            await until(lambda: rows(tmp_path, steady) == [(len(paths),)])
            for path in paths:
                site.pages[path] = html(page("Oops", "Something went wrong on our side."))
            await until(lambda: daemon.crawler.status.verdicts["failed"] >= 6)
            await daemon.store.flush()
            changed = rows(tmp_path, "SELECT count(*) FROM crawls WHERE verdict = 'changed'")
    troubles = rows(tmp_path, "SELECT DISTINCT trouble FROM crawls WHERE verdict = 'failed'")
    assert changed == [(2,)]
    assert troubles == [("error_page",)]
    kept = [decompress(packed) for (packed,) in rows(tmp_path, "SELECT zstd FROM bodies")]
    assert sum(b"Something went wrong" in body for body in kept) == 2


async def test_a_new_way_of_reading_pages_is_no_change(tmp_path: Path) -> None:
    """After an upgrade, or a changed rule, only pages whose text really differs have changed."""
    paths = [f"/page/{number}" for number in range(6)]
    async with Site() as site:
        for path in paths:
            site.pages[path] = html(f"<nav>Menu</nav><p>What {path} is about.</p><p class=ad>Buy now</p>")
        urls = [site.url(path) for path in paths]
        async with running(tmp_path, urls) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 6)
        with sqlite3.connect(tmp_path / "x.db") as database:  # as the release before left it
            database.execute("UPDATE versions SET scheme = 0, times = NULL, places = NULL")
            database.execute("DELETE FROM bodies WHERE page_id = 6")
        for path in paths:
            site.pages[path] = html(f"<!-- again --><nav>Menu</nav><p>What {path} is about.</p><p class=ad>Buy now</p>")
        site.pages[paths[2]] = html("<nav>Menu</nav><p>Something else.</p><p class=ad>Buy now</p>")
        seen = {path: len(site.visits(path)) for path in paths}
        async with running(tmp_path, urls, digest=[{"pattern": "*", "ignore": [".ad"]}]) as daemon:
            await until(lambda: all(len(site.visits(path)) >= seen[path] + 2 for path in paths))
            await daemon.store.flush()
    changed = rows(tmp_path, "SELECT url FROM crawls JOIN pages ON pages.id = page_id WHERE verdict = 'changed'")
    assert changed == [(site.url(paths[2]),)]
    assert rows(tmp_path, "SELECT count(*) FROM versions WHERE scheme = 0") == [(0,)]


async def test_a_page_that_really_changes_does_not_freeze_behind_a_crawl_delay(tmp_path: Path) -> None:
    """Where the second fetch comes as late as a visit would, every change goes on counting."""
    editions = itertools.count()

    async def paper(visit: Visit) -> None:
        words = " ".join(f"{chr(97 + next(editions) % 25)}word" for _ in range(6))
        await visit.reply(page("Paper", *STEADY, f"News of {words}", *STEADY[:1]))

    async with Site() as site:
        site.pages["/paper"] = paper
        site.robots[site.address()] = "User-agent: *\nCrawl-delay: 0.3\n"
        settings = {"min_interval": 0.3, "max_interval": 0.6}
        async with running(tmp_path, [site.url("/paper")], **settings) as daemon:
            await until(lambda: len(site.visits("/paper")) >= 25)
            await daemon.store.flush()
    verdicts = [verdict for (verdict,) in rows(tmp_path, "SELECT verdict FROM crawls ORDER BY id")]
    assert verdicts == ["new"] + ["changed"] * (len(verdicts) - 1)
    assert len(verdicts) >= 15
