"""kill -9 at random moments: what is lost, and what must not be."""

from tests.support.benchmark_command import figures_of

LOST_PER_KILL = 100
"""Of 100 requests a second: 200 ms of them are promised, and a busy machine may take longer to commit."""


async def test_a_killed_daemon_leaves_a_whole_database_and_loses_only_the_last_moments() -> None:
    """Every database is whole, no page is lost, no crawl is recorded twice, and a clean start follows."""
    figures = await figures_of("kills", "--kills", "3")
    assert figures["broken"] == 0
    assert figures["pages"] == figures["pages_expected"]
    assert figures["recorded_twice_or_never_seen"] == 0
    assert figures["last_status"] == 0
    assert figures["crawls_recorded"] > 0
    # What is lost is the end of what was done: nothing that left a second later was committed before it.
    assert figures["lost_before_a_recorded_one"] == 0
    assert figures["lost"] <= figures["kills"] * LOST_PER_KILL
