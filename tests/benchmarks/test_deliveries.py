"""Hooks over kill -9, with a receiver that fails half of the time."""

from tests.support.benchmark_command import figures_of


async def test_every_change_is_told_in_order_by_a_daemon_that_is_killed() -> None:
    """Nothing is missing, nothing is told out of its page's order, and nothing that never happened."""
    figures = await figures_of("deliveries", "--kills", "3")
    assert figures["drained"]
    assert figures["changes"] > 0
    assert figures["refused"] > 0
    assert (figures["missing"], figures["out_of_order"], figures["never_happened"]) == (0, 0, 0)
    assert (figures["dropped"], figures["last_status"]) == (0, 0)
