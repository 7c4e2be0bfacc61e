"""The real daemon under several attacks at once, beside a good site."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

from tests.support.attacks.attack import Door
from tests.support.attacks.site import ATTACKS, GOOD_NETWORK, SiteProcess, good_urls, poisoned, site_process, web_of
from tests.support.process import HANG_SECONDS, Running, ask_control, daemon, free_port, settings

WORST = ("robots_groups", "html_attributes", "gzip_padding", "interim_answers", "tiny_chunks", "ping_idn")
PAGES, HOSTS, PAGES_OF_EACH = 160, 40, 4
VISITS = 400
"""Requests for good pages, more than two of each, that are waited for while the attacks go on."""


async def test_good_pages_go_on_being_crawled_while_several_hosts_attack(tmp_path: Path) -> None:
    """Every good page is crawled again and again, most requests are theirs, and control and a clean end still work."""
    async with site_process("good") as good, contextlib.AsyncExitStack() as stack:
        victim = f"127.{GOOD_NETWORK}.0.1:{good.ports[0]}"
        hostile = await stack.enter_async_context(site_process("hostile", victim, *WORST))
        webs = {name: web_of(name, (hostile.ports[0], hostile.ports[1]), victim) for name in WORST}
        bad = [url for name in WORST for url in ATTACKS[name].pages(webs[name])[:PAGES_OF_EACH]]
        door = Door(free_port(), tmp_path / "x.db.token")
        file = settings(
            tmp_path,
            [*good_urls(good.ports[0], PAGES, HOSTS), *bad],
            bandwidth="25/s",
            politeness={},  # the defaults
            min_interval=5.0,
            api={"listen": f"127.0.0.1:{door.port}"},
            log={"level": "warning"},
        )
        running = await stack.enter_async_context(daemon("--config", str(file), cwd=tmp_path))
        pushes = [asyncio.create_task(_push(name, door)) for name in WORST if ATTACKS[name].push]
        asked_good, asked_bad = await _until_visited(running, good, hostile)
        assert min(asked_good.values()) >= 2, "a good page was left out"
        assert len(asked_good) == PAGES
        attacked = {int(url.split(".")[1]) for url in asked_bad}
        assert attacked == {webs[name].network for name in WORST if ATTACKS[name].pages(webs[name])}, "nobody attacked"
        assert asked_good.total() > asked_bad.total()
        assert b'"pid"' in await ask_control(tmp_path / "x.db.sock", "GET", "/status", {})
        for push in pushes:
            push.cancel()
        await asyncio.gather(*pushes, return_exceptions=True)
        assert await running.end() == 0
    assert [line for line in running.log if "internal error" in line.lower()] == []
    assert poisoned(tmp_path / "x.db") == 0


async def _until_visited(
    running: Running, good: SiteProcess, hostile: SiteProcess
) -> tuple[Counter[str], Counter[str]]:
    """How often each URL was asked for, once good pages were asked for often enough."""
    asked_good: Counter[str] = Counter()
    asked_bad: Counter[str] = Counter()
    async with asyncio.timeout(HANG_SECONDS):
        while asked_good.total() < VISITS or min(asked_good.values()) < 2:
            await asyncio.sleep(0.2)
            assert running.process.returncode is None, "\n".join(running.log)
            asked_good.update(url for _, url in await good.asked() if "/page/" in url)
            asked_bad.update(url for _, url in await hostile.asked())
    return asked_good, asked_bad


async def _push(name: str, door: Door) -> None:
    """Send what the attack sends to the listener, as soon as there is one."""
    push = ATTACKS[name].push
    assert push is not None
    while True:
        with contextlib.suppress(OSError):  # it does not listen yet
            await push(door)
        await asyncio.sleep(0.1)
