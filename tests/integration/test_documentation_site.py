"""A documentation site with a theme, a menu and an honest sitemap lives through deploys; the daemon watches it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from crawld.main.supervisor import Daemon
from tests.support.behaviours import html
from tests.support.daemon import rows, running, until
from tests.support.site import Site

PAGES = 40
WORDS = ("value", "list", "field", "server", "table", "query", "module", "object", "stream", "buffer", "thread", "file")


@dataclass(frozen=True, slots=True)
class Article:
    """One page's own content, and when the sitemap says it was written."""

    title: str
    paragraphs: tuple[str, ...]
    lastmod: int = 0


@dataclass(slots=True)
class Docs:
    """A small generator: every deploy renders all pages anew, within the theme."""

    semantic: bool
    articles: list[Article]
    menu: list[str] = field(default_factory=lambda: ["Home", "Guide", "Reference", "Community", "Blog"])
    built: str = "12 March 2024"
    version: str = "4.1"
    banner: str | None = None
    deploys: int = 0

    def page(self, number: int) -> str:
        """The page as the site serves it."""
        article = self.articles[number]
        menu = self._list("nav", self.menu)
        sidebar = self._list("aside", [one.title for one in self.articles])
        inner = "".join(f"<p>{text}</p>" for text in article.paragraphs)
        banner = f"<p>{self.banner}</p>" if self.banner else ""
        main = f"<h1>{article.title}</h1>{banner}<p>Example</p>{inner}<p>See also</p>"
        footer = f"<p>Built on {self.built}</p><p>Docs {self.version}</p><p>All rights reserved by nobody.</p>"
        tags = ("header", "main", "footer") if self.semantic else ("div", "div", "div")
        top, middle, bottom = (
            f"<{tag}>{text}</{tag}>" for tag, text in zip(tags, ("<b>The Docs</b>", main, footer), strict=True)
        )
        return f"<!doctype html><title>{article.title}</title>{top}{menu}{sidebar}{middle}{bottom}"

    def _list(self, tag: str, entries: list[str]) -> str:
        if self.semantic:
            return f"<{tag}><ul>{''.join(f'<li><a href=/>{entry}</a></li>' for entry in entries)}</ul></{tag}>"
        return "<div>" + "".join(f"<div class=x>{entry}</div>" for entry in entries) + "</div>"

    def edit(self, number: int, change: Callable[[Article], Article]) -> None:
        """Edit an article; the sitemap will say so."""
        self.articles[number] = replace(change(self.articles[number]), lastmod=self.deploys + 1)


def written(semantic: bool) -> Docs:
    """A site of forty articles."""
    rng = random.Random(7)

    def text() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(12, 30))).capitalize() + "."

    articles = [Article(f"The {rng.choice(WORDS)} chapter {n}", tuple(text() for _ in range(5))) for n in range(PAGES)]
    return Docs(semantic, articles)


def reworded(article: Article) -> Article:
    """The article with one word of one paragraph changed."""
    first, *others = article.paragraphs
    return replace(article, paragraphs=(first.replace(" ", " really ", 1), *others))


async def deploy(site: Site, daemon: Daemon, docs: Docs, folder: Path) -> set[int]:
    """Serve the site as it is now, until every page was visited twice; the pages found changed."""
    docs.deploys += 1
    await daemon.store.flush()
    before = rows(folder, "SELECT coalesce(max(id), 0) FROM crawls")[0][0]  # of the deploy before
    for number in range(PAGES):
        site.pages[f"/docs/{number}"] = html(docs.page(number))
    seen = {path: len(site.visits(path)) for path in site.pages}
    await until(lambda: all(len(site.visits(path)) >= count + 3 for path, count in seen.items()))
    await asyncio.sleep(0)
    await daemon.store.flush()
    query = "SELECT url FROM crawls JOIN pages ON pages.id = page_id WHERE verdict = 'changed' AND crawls.id > "
    return {int(url.rpartition("/")[2]) for (url,) in rows(folder, query + str(before))}


@pytest.mark.parametrize("semantic", [False, True], ids=["div soup", "semantic"])
async def test_deploys_change_the_pages_whose_articles_were_edited(tmp_path: Path, semantic: bool) -> None:
    """Edits of menu, footer and banner are the site's, edits of articles are the pages'; the sitemap proves right."""
    docs = written(semantic)
    found: list[tuple[int, int]] = []
    async with Site() as site:
        for number in range(PAGES):
            site.pages[f"/docs/{number}"] = html(docs.page(number))
        urls = [site.url(f"/docs/{number}") for number in range(PAGES)]
        settings = {"bandwidth": "150/s", "min_interval": 0.3, "max_interval": 0.6}
        async with running(tmp_path, urls, **settings) as daemon:

            async def changed() -> set[int]:
                pages = await deploy(site, daemon, docs, tmp_path)
                found.extend((docs.deploys, number) for number in pages)
                return pages

            assert await changed() == set()
            docs.menu.insert(2, "Tutorials")
            assert await changed() == set()
            docs.built, docs.version = "30 March 2024", "4.2"
            docs.edit(3, reworded)
            docs.edit(17, reworded)
            assert await changed() == {3, 17}
            docs.menu.remove("Blog")
            docs.edit(8, lambda article: replace(article, title="A chapter by another name"))
            docs.edit(9, lambda article: replace(article, paragraphs=article.paragraphs[:-1]))
            assert await changed() == {8, 9}
            docs.banner = "Version 5 is out: read the announcement."
            docs.edit(20, reworded)
            banner = await changed()
            assert 20 in banner
            assert len(banner) <= 6  # the first two that show it count, and those under way meanwhile
            for number in range(25, 35):
                docs.edit(number, reworded)
            assert await changed() == set(range(25, 35))
    announced = {(article.lastmod, number) for number, article in enumerate(docs.articles) if article.lastmod}
    assert announced <= set(found)
    assert len(announced) / len(set(found)) >= 0.75
    events = rows(tmp_path, "SELECT pages, lost, gained FROM frame_changes ORDER BY first_at")
    least = 1 if semantic else 3  # what the markup itself names as frame need not be learnt
    assert len(events) >= least
    assert sum(pages > PAGES / 2 for pages, _, _ in events) >= least, events
