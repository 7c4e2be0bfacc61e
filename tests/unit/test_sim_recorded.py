"""Recorded histories as worlds."""

from pathlib import Path

import numpy as np

from crawld.model.units import DAY
from crawld.research.recorded import recorded_world, together

START = 1_600_041_600.0  # a midnight
NOON = START + DAY / 2


def _write(folder: Path, *, sitemap: bool = True) -> Path:
    """Three pages: one changes twice, one is born on day 2 and gone on day 5, one never changes."""
    path = folder / "site.npz"
    arrays = {
        "page_path": np.array(["a", "b", "c"]),
        "birth": np.array([START, START + 2 * DAY, START]),
        "death": np.array([0.0, START + 5 * DAY, 0.0]),
        "change_off": np.array([0, 2, 3, 3]),
        "change_t": np.array([START + DAY, START + 8 * DAY, START + 3 * DAY]),
        "commit_t": np.array([START, START + 10 * DAY]),
    }
    if sitemap:
        arrays |= {
            "signal_off": np.array([0, 2, 3, 3]),
            "signal_t": np.array([START + DAY, START + 8 * DAY, START + 3 * DAY]),
            "signal_lastmod": np.array([START + DAY, NOON, -1]),
            "lastmod0": np.array([START, -1, START]),
        }
    np.savez(path, allow_pickle=False, **arrays)
    return path


def test_times_are_days_since_the_first_birth(tmp_path: Path) -> None:
    """Changes, lives and signals keep their order and their pages."""
    world = recorded_world(_write(tmp_path))
    assert world.horizon == 10.0
    assert [times.tolist() for times in world.changes_by_page] == [[1.0, 8.0], [3.0], []]
    assert world.born.tolist() == [0.0, 2.0, 0.0]
    assert world.died.tolist() == [10.0, 5.0, 10.0]
    assert world.signal_times.tolist() == [1.0, 3.0, 8.0]
    assert world.signal_pages.tolist() == [0, 1, 0]


def test_a_date_claims_its_day_and_an_unusable_one_nothing(tmp_path: Path) -> None:
    """Midnight stands for a date without a time; a value that could not be read claims no time."""
    world = recorded_world(_write(tmp_path))
    assert [until for _, until in world.claims] == [2.0, np.inf, 0.5]


def test_every_second_page(tmp_path: Path) -> None:
    """Of more pages than wanted every k-th is taken with all that is its own."""
    world = recorded_world(_write(tmp_path), 2)
    assert world.listed is not None
    assert world.listed.tolist() == [True, True]
    assert [times.tolist() for times in world.changes_by_page] == [[1.0, 8.0], []]
    assert world.signal_pages.tolist() == [0, 0]


def test_without_a_sitemap_there_are_no_signals(tmp_path: Path) -> None:
    """A history of changes alone is a world without signals."""
    assert len(recorded_world(_write(tmp_path, sitemap=False)).signal_times) == 0


def test_several_hosts_end_together(tmp_path: Path) -> None:
    """The last days of each host, with pages that had died before left out."""
    world = recorded_world(_write(tmp_path))
    both = together([world, world], 4.0)
    assert both.population.pages == 4
    assert both.host_of.tolist() == [0, 0, 1, 1]
    assert [times.tolist() for times in both.changes_by_page] == [[2.0], [], [2.0], []]
    assert both.signal_times.tolist() == [2.0, 2.0]
    assert both.signal_pages.tolist() == [0, 2]
    assert both.horizon == 4.0
