"""Peers' rules: what they ship, their known fixpoints, and how they behave at a budget."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crawld.research.engine import simulate
from crawld.research.peers import PEERS, Marginalia, StormCrawlerAdaptive, TimerCrawler, peer_crawler
from crawld.research.world import Population, World, draw_world

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "peer_rules.json").read_text())["cases"]
IN_PASSES = {"urlwatch", "norconex", "marginalia"}


def _still(pages: int, days: float = 10.0) -> World:
    """Pages that never change."""
    nothing = np.zeros(pages)
    return draw_world(Population(np.ones(pages), nothing, nothing, nothing), days, 1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['peer']}: {case['says']}")
def test_timers_follow_the_published_rule(case: dict[str, Any]) -> None:
    """Each visit leads to the next as worked out by hand."""
    crawler = PEERS[case["peer"]].make(_still(1), copies=False)
    assert isinstance(crawler, TimerCrawler)
    rule = crawler.rules[0]
    for at, changed, due in case["visits"]:
        assert rule.next_visit(at, changed) == pytest.approx(due, rel=1e-9)


def test_every_rule_is_in_the_table_of_facts() -> None:
    """Whoever adds a peer with a timer adds what its rule says."""
    assert {case["peer"] for case in CASES} | IN_PASSES | {"crawl-once"} == set(PEERS)


@pytest.mark.parametrize("name", PEERS)
def test_peers_copy_everything_once_and_forget_what_is_gone(name: str) -> None:
    """Without copies each page is asked in turn first; a page that is gone is never asked again."""
    world = _still(4)
    crawler = peer_crawler(name, world, copies=False)
    picked = []
    for slot in range(4):
        page = crawler.pick(0.01 * slot)
        assert page is not None
        crawler.settle(page, 0.01 * slot, changed=False)
        picked.append(page)
    assert picked == [0, 1, 2, 3]
    crawler.vanish(np.array([0, 1, 2, 3]))  # type: ignore[attr-defined] # every peer knows pages that come and go
    assert crawler.pick(1000.0) is None


def test_the_most_overdue_page_comes_first_and_idle_slots_stay_idle() -> None:
    """Three pages at nine slots in three hours are visited once each, and not again before their timers run out."""
    world = _still(3, 0.125)
    run = simulate(world, peer_crawler("changedetection.io", world, copies=False), 24.0 * 3)
    assert run.pages.tolist() == [0, 1, 2]
    assert run.used == pytest.approx(3 / 9)


def test_stormcrawler_settles_where_its_steps_balance() -> None:
    """With room for every timer, 37 % of its visits find a change: then growing and shrinking cancel."""
    slow = Population(np.ones(60), np.full(60, 0.2), np.zeros(60), np.zeros(60))
    world = draw_world(slow, 600.0, 2)
    run = simulate(world, TimerCrawler(StormCrawlerAdaptive, world, copies=False), 60 * 24.0)
    found = sum(len(np.unique(np.searchsorted(run.times[run.pages == page], world.changes_by_page[page])))
                for page in range(60))  # fmt: skip
    assert found / len(run.times) == pytest.approx(0.369, abs=0.02)


def test_norconex_goes_by_lastmod_where_there_is_one() -> None:
    """A listed page waits for its lastmod to move past the last visit; an unlisted one is asked in every pass."""
    world = World(_still(2).population, 10.0, np.empty(0), np.zeros(3, np.int64), np.empty(0), np.empty(0, np.int64),
                  listed=np.array([True, False]))  # fmt: skip
    crawler = peer_crawler("norconex", world, copies=True)
    assert [crawler.pick(0.0), crawler.pick(0.5)] == [1, None]
    crawler.settle(1, 0.0, changed=False)
    crawler.notice(0, 1.5, (1.4, 1.4))
    assert crawler.pick(2.0) == 0
    crawler.settle(0, 2.0, changed=True)
    crawler.notice(0, 2.5, (1.9, 1.9))
    assert crawler.pick(3.5) == 1


def test_marginalia_skips_more_where_little_changes() -> None:
    """Nothing is skipped before 25 pages of the host were asked; then up to half, and later between bounds."""
    crawler = Marginalia(_still(2), copies=True)
    chances = []
    for visit in range(1001):
        crawler.settle(0, float(visit), changed=visit % 10 == 0)
        chances.append(crawler.skip_chance(0))
    assert chances[23] == 0.0
    assert chances[24] == 0.5
    assert chances[1000] == 0.75
    crawler.begin()
    assert crawler.skip_chance(0) == 0.0


def test_cron_waits_for_its_next_period() -> None:
    """Urlwatch asks all pages at once, then nothing until a day after it began."""
    world = _still(2)
    crawler = peer_crawler("urlwatch", world, copies=True)
    assert [crawler.pick(at) for at in (0.0, 0.1, 0.2, 0.9)] == [0, 1, None, None]
    assert crawler.pick(1.0) == 0
