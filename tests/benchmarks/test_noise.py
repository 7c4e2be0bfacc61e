"""The benchmark of noise reaches its figures."""

import pytest

from benchmarks.noise import LEAST_SEEN, MOST_FALSE, NOISE, REAL, UNBOUND, measure_noise, measure_real
from benchmarks.noise_sites import SITES, measure_site


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_no_change_and_hides_none(kind: str) -> None:
    """Late visits find next to no false change, and next to every edit beside the noise."""
    row = measure_noise(kind, seeds=1)
    assert float(str(row["false_share"])) <= MOST_FALSE
    assert float(str(row["edits_seen_share"])) >= LEAST_SEEN


@pytest.mark.parametrize("kind", SITES)
def test_nothing_hides_an_edit_of_a_site(kind: str) -> None:
    """Noise that ended, neighbours, templates, titles and other formats neither hide edits nor pass for them."""
    row = measure_site(kind, seeds=1)
    assert float(str(row["false_share"])) <= MOST_FALSE
    if kind not in UNBOUND:
        assert float(str(row["edits_seen_share"])) >= (1.0 if "inside main" in kind else LEAST_SEEN)


@pytest.mark.parametrize("kind", REAL)
def test_what_really_changes_is_not_learnt_as_noise(kind: str) -> None:
    """A page that changes at every visit is found changed at every visit."""
    assert float(str(measure_real(kind, seeds=1)["changes_seen_share"])) >= LEAST_SEEN
