"""The benchmark of noise reaches its figures."""

from tests.support.benchmark_command import figures_of


async def test_noise_is_no_change_and_hides_none() -> None:
    """Late visits find next to no false change and next to every edit; what really changes is not learnt as noise."""
    figures = await figures_of("noise", "--seeds", "1")  # exit status 1 where a kind of noise misses its figure
    assert len(figures["noise"]) > 40
    assert len(figures["real"]) > 3
