"""The real daemon under several attacks at once, beside a good site."""

from pathlib import Path

from benchmarks.hostile_run import bench

WORST = (
    "robots_groups",
    "html_attributes",
    "gzip_padding",
    "idn_sitemap",
    "huge_headers",
    "interim_answers",
    "ping_idn",
)
RATE, PAGES_PER_RATE = 20.0, 8
SECONDS = 8.0
PAGES_OF_EACH = 4


async def test_good_pages_go_on_being_crawled_while_several_hosts_attack(tmp_path: Path) -> None:
    """Most good requests are kept, the control socket goes on answering, and the daemon ends as it should."""
    async with bench(tmp_path, RATE, PAGES_PER_RATE) as on:
        calm = await on.measure((), SECONDS)
        attacked = await on.measure(WORST, SECONDS, PAGES_OF_EACH)
    assert calm["good_per_second"] > 0.7 * RATE
    assert attacked["hostile_per_second"] > 0, "nobody attacked"
    assert attacked["good_per_second"] >= 0.7 * calm["good_per_second"]
    assert attacked["answers_per_second"] >= 0.5 * calm["answers_per_second"]
    assert (attacked["internal_errors"], attacked["poisoned_signals"]) == (0, 0)
    assert attacked["ended"] == "status 0"
