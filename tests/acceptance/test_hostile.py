"""The real daemon under several attacks at once, beside a good site."""

from pathlib import Path

from benchmarks.hostile_run import bench

WORST = ("robots_groups", "html_attributes", "gzip_padding", "interim_answers", "tiny_chunks", "ping_idn")
RATE, PAGES_PER_RATE = 20.0, 8
SECONDS = 8.0
FEWEST_ANSWERS = 5  # a second, where some forty are asked for: a daemon that hangs for seconds gives fewer
PAGES_OF_EACH = 4


async def test_good_pages_go_on_being_crawled_while_several_hosts_attack(tmp_path: Path) -> None:
    """Most good requests are kept, the control socket goes on answering, and the daemon ends as it should."""
    async with bench(tmp_path, RATE, PAGES_PER_RATE) as on:
        attacked = await on.measure(WORST, SECONDS, PAGES_OF_EACH)
    assert attacked["calm_per_second"] > 0
    assert attacked["hostile_per_second"] > 0, "nobody attacked"
    assert attacked["good_per_second"] >= 0.7 * attacked["calm_per_second"]
    assert attacked["answers_per_second"] >= FEWEST_ANSWERS
    assert (attacked["internal_errors"], attacked["poisoned_signals"]) == (0, 0)
    assert attacked["ended"] == "status 0"
