"""`crawld lab` as a person uses it: real daemons against a living site, and its scores."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.support.process import ENVIRONMENT, command, daemon, settings


async def test_real_daemons_are_compared_over_real_http(tmp_path: Path) -> None:
    """Each policy has its freshness, course, requests and delays; the simulator's figure stands beside; a chart too."""
    chart = tmp_path / "lab.svg"
    ended = await command(
        "lab", "compare", "--policies", "greedy-ncis,uniform", "--bandwidth", "20/s", "--seconds", "7", "--pages", "30",
        "--hosts", "3", "--errors", "0.05", "--changes", "4/s", "--simulate", "--svg", str(chart), "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    report = json.loads(ended.out)
    assert (report["pages"], report["bandwidth"], len(report["crawlers"])) == (30, 20.0, 2)
    for row in report["crawlers"]:
        assert 0.0 < row["freshness"] <= 1.0
        assert 0.0 < row["simulated"] <= 1.0
        assert 30 <= row["requests"] <= 20.0 * (report["seconds"] + 3.0) + 1
        assert row["caught"] <= row["changes"]
        assert len(row["series"]) == 60
    polls = {row["crawler"]: row["answers"].get("sitemap", 0) for row in report["crawlers"]}
    assert polls["greedy-ncis"] > polls["uniform"] == 0
    assert "greedy-ncis" in chart.read_text()


async def test_readers_are_served_by_real_daemons(tmp_path: Path) -> None:
    """Each way of serving them has its fresh reads, waits and requests; fetching on reads is not without waits."""
    ended = await command(
        "lab", "read", "--seconds", "12", "--pages", "10", "--changes", "4/s", "--requests-per-change", "1.5", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    rows = {row["mode"]: row for row in json.loads(ended.out)["modes"]}
    assert list(rows) == ["proactive", "through", "both"]
    for row in rows.values():
        assert row["reads"] > 0
        assert 0.0 < row["fresh_reads"] <= 1.0
        assert 0 < row["requests"] <= 6.0 * 12 + 1
    ended = await command("lab", "read", "--requests-per-change", "few", cwd=tmp_path)
    assert (ended.status, "give numbers, as 0.2,0.5,1" in ended.err) == (2, True)


async def test_any_crawler_is_scored_by_a_site_that_is_served(tmp_path: Path) -> None:
    """`lab serve` lists its pages, scores a separate daemon by its user agent, and ctrl-C ends it with the scores."""
    urls = tmp_path / "urls.txt"
    site = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "crawld", "lab", "serve", "--pages", "10", "--hosts", "2", "--urls", str(urls), "--json",
        env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    while not (urls.exists() and urls.read_text()):
        await asyncio.sleep(0.05)
    pages = [line.split()[0] for line in urls.read_text().splitlines()]
    given = settings(tmp_path, pages, bandwidth="20/s", user_agent="tried/1.0 (+mailto:x@localhost)", min_interval="1s")
    port = pages[0].split("/")[2].rpartition(":")[2]
    async with daemon("--config", str(given), cwd=tmp_path):
        while True:
            scores = json.loads(await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/lab/score"))
            if scores.get("tried", {}).get("answers", {}).get("page", 0) >= 10:
                break
            await asyncio.sleep(0.1)
    site.send_signal(signal.SIGINT)
    out, err = await site.communicate()
    assert site.returncode == 0, err
    (row,) = json.loads(out)["crawlers"]
    assert (row["crawler"], row["requests"] >= 10) == ("tried", True)


def _read(url: str) -> bytes:
    with urlopen(url) as answer:
        return bytes(answer.read())


async def test_what_cannot_be_served_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Wrong worlds, policies and rates name what is wrong and what to give instead."""
    for given, said in (
        (["compare", "--world", "nowhere.npz"], "neither noisy nor weblike nor a file"),
        (["compare", "--policies", "best"], "there is no policy 'best'"),
        (["compare", "--bandwidth", "0/s"], "bandwidth above 0"),
        (["compare", "--world", "noisy", "--sitemap", "late"], "only weblike worlds"),
        (["serve", "--changes", "0/s"], "nothing would ever change"),
    ):
        ended = await command("lab", *given, cwd=tmp_path)
        assert (ended.status, said in ended.err) == (2, True), ended.err
