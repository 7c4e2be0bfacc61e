"""What of a page is compared and what is left out, from a living page to the commands that show it."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner, Result

from crawld.cli import main
from tests.support.behaviours import answer, html
from tests.support.daemon import rows, running, until
from tests.support.process import settings
from tests.support.site import Site

TEXT = "The text of the page, which is what a reader came here for."
FRAME = "<title>Page | Site</title><nav><ul><li>{}<li>Two</ul></nav>"
PAGE = FRAME + "<main><p>{}</p><pre>a\n  b</pre></main><footer>F</footer>"


async def test_a_new_menu_entry_is_no_change(tmp_path: Path) -> None:
    """A page whose menu changed is unchanged by default and changed in mode text; an edit of its text is a change."""
    texts = {"digest": [{"pattern": "*/text", "mode": "text"}]}
    async with Site() as site:
        site.pages |= {path: html(PAGE.format("One", TEXT)) for path in ("/main", "/text")}
        async with running(tmp_path, [site.url("/main"), site.url("/text")], min_interval=0.2, **texts) as daemon:
            seen = daemon.crawler.status.verdicts
            await until(lambda: seen["new"] == 2)
            site.pages |= {path: html(PAGE.format("Another", TEXT)) for path in ("/main", "/text")}
            await until(lambda: seen["changed"] == 1 and len(site.visits("/main")) > 3)
            site.pages |= {"/main": html(PAGE.format("Another", TEXT + " And more."))}
            await until(lambda: seen["changed"] == 2)
    changed = rows(
        tmp_path, "SELECT url FROM crawls JOIN pages ON pages.id = page_id WHERE verdict = 'changed' ORDER BY at"
    )
    assert [url.rpartition("/")[2] for (url,) in changed] == ["text", "main"]


async def test_get_prints_what_is_compared_and_explain_says_what_is_not(tmp_path: Path) -> None:
    """`get --compared` prints the compared blocks, `explain` counts those left out, and both follow the rules."""
    async with Site() as site:
        url, plain = site.url("/page"), site.url("/plain")
        site.pages |= {"/page": html(PAGE.format("One", TEXT)), "/plain": answer("words", content_type="text/plain")}
        async with running(tmp_path, [url, plain]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 2)

    async def ask(*arguments: str, **more: object) -> Result:
        database = f"sqlite:///{tmp_path}/x.db"
        given = ["--config", str(settings(tmp_path, [url], **more)), "--database", database]
        return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, *given])

    assert (await ask("get", url, "--compared")).stdout == f"Page | Site\n{TEXT}\na\n  b\n"
    told = json.loads((await ask("explain", url, "--json")).stdout)["compared"]
    assert told == {"mode": "main", "blocks": 3, "whole": False, "left_out": {"nav": 2, "footer": 1}}
    told = (await ask("explain", url)).stdout
    assert "main text, 3 blocks; left out: nav 2, footer 1" in " ".join(told.split())

    assert (await ask("get", plain, "--compared")).stdout == "words\n"
    bytes_only = await ask("get", plain, "--compared", digest=[{"mode": "raw"}])
    assert bytes_only.exit_code == 2
    assert "compared by its bytes" in bytes_only.stderr
    assert "the whole document, 1 block" in (await ask("explain", plain)).stdout

    rule = {"only": "nav", "ignore": ["li:first-child"]}
    assert (await ask("get", url, "--compared", digest=[rule])).stdout == "Two\n"
    assert "what the rule's `only` finds, 1 block" in (await ask("explain", url, digest=[rule])).stdout
