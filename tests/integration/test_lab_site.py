"""The lab's site over real HTTP: pages that change, validators, sitemaps, errors and host names."""

import numpy as np
from aiohttp import ClientSession

from crawld.research.scenario import Scenario
from crawld.research.site import LabSite
from crawld.research.world import Population, World

NEVER = 1e9


def scenario(changes: list[list[float]], signals: list[float]) -> Scenario:
    """Two pages on each of two hosts, of which the second has no sitemap; signals tell of page 0."""
    ones = np.ones(4)
    told = np.array(signals)
    world = World(
        Population(ones, ones, 0 * ones, 0 * ones),
        NEVER,
        np.concatenate(changes),
        np.cumsum([0] + [len(one) for one in changes]),
        told,
        np.zeros(len(told), np.int64),
        hosts=np.array([0, 0, 1, 1]),
    )
    return Scenario(world, ("one", "two"), (True, False))


async def fetch(site: LabSite, url: str, **headers: str) -> tuple[int, str, str]:
    """Status, ETag and body of an answer to the crawler `probe`."""
    given = {"User-Agent": "probe/1.0 (test)"} | {name.replace("_", "-"): value for name, value in headers.items()}
    host, _, path = url.removeprefix("http://").partition("/")
    async with (
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{host.rpartition(':')[2]}/{path}", headers=given | {"Host": host}) as answer,
    ):
        return answer.status, answer.headers.get("ETag", ""), await answer.text()


async def test_pages_change_and_a_current_copy_is_not_sent_again() -> None:
    """The first answer carries a tag; it is a 304 while the page stays, and another version once it has changed."""
    async with LabSite(scenario([[], [], [], []], [])) as site:
        status, tag, body = await fetch(site, site.url(0))
        assert (status, bool(tag), "version 0" in body) == (200, True, True)
        assert await fetch(site, site.url(0), If_None_Match=tag) == (304, tag, "")
        assert site.board.of("probe").answers == {"page": 1, "unchanged": 1}
        assert site.board.freshness_now("probe", site.elapsed) == 0.25
    async with LabSite(scenario([[-1.0], [], [], []], [])) as changed:
        status, other, body = await fetch(changed, changed.url(0), If_None_Match=tag)
        assert (status, other != tag, "version 1" in body) == (200, True, True)


async def test_hosts_have_names_robots_and_sitemaps_of_their_own() -> None:
    """A host lists its own pages; one without a sitemap names none; other names and others' pages are not served."""
    async with LabSite(scenario([[], [], [], []], [-5.0])) as site:
        one, two = site.origin(0), site.origin(1)
        assert f"Sitemap: {one}/sitemap.xml" in (await fetch(site, f"{one}/robots.txt"))[2]
        assert "Sitemap" not in (await fetch(site, f"{two}/robots.txt"))[2]
        listed = (await fetch(site, f"{one}/sitemap.xml"))[2]
        assert [listed.count(site.url(page)) for page in range(4)] == [1, 1, 0, 0]
        assert listed.count("<lastmod>") == 1
        assert (await fetch(site, f"{two}/sitemap.xml"))[0] == 404
        assert (await fetch(site, f"{two}/page/0"))[0] == 404
        assert (await fetch(site, f"{one}/page/99"))[0] == 404
        assert (await fetch(site, one.replace("one.", "three.") + "/"))[0] == 421
        assert len(site.url_list().splitlines()) == 4


async def test_errors_come_at_the_rate_asked_for_and_leave_no_copy() -> None:
    """With errors on every page nobody holds anything; scores are served as JSON."""
    async with LabSite(scenario([[], [], [], []], []), errors=1.0) as site:
        assert (await fetch(site, site.url(1)))[0] == 503
        assert site.board.of("probe").answers == {"error": 1}
        assert await fetch(site, f"{site.origin(0)}/lab/score") == (200, "", "{}")
