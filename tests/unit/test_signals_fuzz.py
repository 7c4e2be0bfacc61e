"""A short run of the fuzzer; the long one is `python -m benchmarks.fuzz`."""

from benchmarks.fuzz import SEEDS, damaged, run


def test_damaged_files_are_read_or_refused_by_name() -> None:
    """No damaged sitemap, feed or robots.txt raises anything but a named reason."""
    report = run(1_500)
    assert not report.faults, report.faults[0]
    assert report.inputs == 1_500
    refused = {name for name in report.outcomes if not name.endswith("read")}
    assert len(refused) > 8  # the inputs reach the parsers' many reasons, not one alone


def test_a_number_names_its_input() -> None:
    """The same number gives the same input, and some are undamaged."""
    assert damaged(7) == damaged(7) != damaged(8)
    assert any(damaged(number) in SEEDS for number in range(100))
