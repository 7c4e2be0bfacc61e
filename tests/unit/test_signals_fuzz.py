"""A short run of the fuzzer; the long one is `python -m benchmarks.fuzz`."""

import pytest

from tests.support.fuzz.cost import MOST_BYTES, OF_PARSER, PER_SIZE, Cost, bombs, measure
from tests.support.fuzz.damage import SEEDS, Report, damaged, run
from tests.support.fuzz.parsers import PARSERS

PAGES = [name for name in PARSERS if name.startswith("page")]
OTHERS = [name for name in PARSERS if name not in PAGES]


def test_damaged_files_are_read_or_refused_by_name() -> None:
    """No damaged sitemap, feed, robots.txt, header or ping raises anything but a named reason."""
    report = run(1_200, names=OTHERS)
    raised = [fault for fault in report.faults if "Traceback" in fault]
    assert not raised, raised[0]
    assert report.inputs == 1_200
    refused = {name for name in report.outcomes if not name.endswith("read")}
    assert len(refused) > 8  # the inputs reach the parsers' many reasons, not one alone


def test_damaged_pages_are_read_and_compared() -> None:
    """No damaged page, over several visits with a frame and pairs, raises anything."""
    report = run(150, names=PAGES)
    assert not [fault for fault in report.faults if "Traceback" in fault]
    assert sum(report.outcomes.values()) == 150 * len(PAGES)


@pytest.mark.parametrize("parser", ["page compared", "page, selected", *OTHERS])
def test_files_made_to_be_slow_are_read_or_refused(parser: str) -> None:
    """Every kind of bomb is read or refused by every parser, in bounded memory."""
    for name, bomb in OF_PARSER[parser].items():
        cost = measure(parser, name, bomb(4_096))
        assert cost.error is None, cost
        assert cost.memory < MOST_BYTES, cost


def test_a_number_names_its_input() -> None:
    """The same number gives the same input, and some are undamaged."""
    assert damaged(7) == damaged(7) != damaged(8)
    assert any(damaged(number) in SEEDS for number in range(100))


@pytest.mark.parametrize(
    ("parser", "size", "seconds", "memory", "fault"),
    [
        ("page", 1_000, 0.09, 0, False),
        ("page", 1_000, 0.11, 0, True),
        ("page", 4 * PER_SIZE, 0.39, 0, False),
        ("page", 4 * PER_SIZE, 0.41, 0, True),
        ("page", 1_000, 0.0, MOST_BYTES + 1, True),
        ("page", 4 * PER_SIZE, 0.0, 4 * MOST_BYTES, False),
        ("page judged", 4 * PER_SIZE, 0.03, 0, True),
    ],
)
def test_what_is_too_much(parser: str, size: int, seconds: float, memory: int, fault: bool) -> None:
    """100 ms and 32 MB are allowed, in proportion to what is larger than 256 KB, and less on the event loop."""
    report = Report()
    report.add_bombs([Cost(parser, "bomb", size, seconds, memory)])
    assert len(report.faults) == fault == report.parsers[parser].faults


def test_bombs_grow_in_a_process_of_their_own() -> None:
    """Every bomb for a parser is measured in growing sizes."""
    costs = list(bombs(40_000, "cookies"))
    assert {cost.name for cost in costs} == set(OF_PARSER["cookies"])
    sizes = [cost.size for cost in costs if cost.name == "semicolons"]
    assert len(sizes) == 3
    assert sizes[0] < sizes[1] < sizes[2]
