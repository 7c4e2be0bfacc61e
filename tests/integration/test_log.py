"""What the log says of crawls: changes, troubles and a summary now and then, or every one where that is wanted."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawld.main.assembly import Tempo
from crawld.main.settings import Settings
from crawld.model.logs import configure
from tests.support.daemon import running, until
from tests.support.site import Site


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    """What a daemon logs at its default level, as JSON; pytest's own handlers are back afterwards."""
    logger, each, lines = logging.getLogger("crawld"), logging.getLogger("crawld.each"), io.StringIO()
    before = (logger.handlers[:], logger.level, logger.propagate, each.level)
    configure("info", "json", in_journal=False, stream=lines)
    yield lines
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
    each.setLevel(before[3])


def _events(lines: io.StringIO, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [one for one in found if one["event"] == event]


async def test_only_changes_and_troubles_have_lines_of_their_own(tmp_path: Path, log_lines: io.StringIO) -> None:
    """A crawl that found nothing new is counted in the summary; a change and a failure are told at once."""
    async with Site() as site:
        urls = [site.url(path) for path in ("/cue/1", "/ok/2", "/status/403")]
        async with running(tmp_path, urls, tempo=Tempo(learn=0.2, tick=0.2)) as daemon:
            verdicts = daemon.crawler.status.verdicts
            await until(lambda: verdicts["unchanged"] >= 3 and verdicts["failed"] >= 1)
            site.change("/cue/1")
            await until(lambda: verdicts["changed"] >= 1)
            await until(lambda: sum(one["changed"] for one in _events(log_lines, "summary")) >= 1)
    assert {one["verdict"] for one in _events(log_lines, "crawl")} == {"changed", "failed"}
    summaries = _events(log_lines, "summary")
    assert sum(one["crawls"] for one in summaries) >= sum(one["unchanged"] for one in summaries) >= 3
    assert any("1 forbidden" in one.get("troubles", "") for one in summaries)


@pytest.mark.parametrize(("level", "crawls", "told_at"), [("info", True, "info"), ("debug", False, "debug")])
async def test_every_crawl_is_told_where_that_is_wanted(
    tmp_path: Path, log_lines: io.StringIO, level: str, crawls: bool, told_at: str
) -> None:
    """`log.crawls` brings each crawl to info; `log.level: debug` shows it at debug."""
    configure(level, "json", in_journal=False, crawls=crawls, stream=log_lines)
    async with Site() as site, running(tmp_path, [site.url("/ok/1")]) as daemon:
        await until(lambda: daemon.crawler.status.verdicts["unchanged"] >= 1)
    told = {one["verdict"]: one["level"] for one in _events(log_lines, "crawl")}
    assert told == {"new": told_at, "unchanged": told_at}


def test_the_setting_is_off_and_takes_effect_at_a_reload() -> None:
    """`log.crawls` is false unless set, and needs no restart."""
    assert Settings().log.crawls is False
    from crawld.main.reload import LIVE

    assert "log.crawls" in LIVE
