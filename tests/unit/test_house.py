"""The house stays as small as it was made."""

import pytest

from benchmarks.house import MOST, ROOT, measure, packages, walk


@pytest.mark.parametrize("figure", MOST)
def test_no_figure_of_the_house_exceeds_its_limit(figure: str) -> None:
    """Lines of the heart, files in a folder and files of the walk stay within what was agreed."""
    assert measure()[figure] <= MOST[figure]


def test_the_walk_names_files_that_are_there_each_once() -> None:
    """Whoever follows the walk opens each file once and finds it."""
    named = walk()
    assert len(named) == len(set(named))
    assert [name for name in named if not (ROOT / name).exists() and not (ROOT / "crawld" / name).exists()] == []


def test_the_heart_s_packages_are_small() -> None:
    """Values, frontier, learning and policies are each read in one sitting."""
    assert {name for name in ("value", "frontier", "learning", "policies") if packages()[name] > 2_100} == set()
