"""No test module has a stopwatch: how fast the machine is decides nothing, so tests go by events, order and counts."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.process import ROOT

STOPWATCHES = {f"{name}{unit}" for name in ("monotonic", "perf_counter", "process_time") for unit in ("", "_ns")}
PROCESSOR = "a ratio of processor seconds of one process, measured together: work that grows too fast"
EXEMPT = {
    "tests/acceptance/test_fleet.py": "requests a second are promised; what the machine held up is allowed for",
    "tests/integration/test_fleet_run.py": "so are seconds between two requests to a host, likewise",
    "tests/integration/test_fleet_store.py": "the machine's clock is handed to stores, which need one",
    "tests/unit/test_clock.py": "the hands of the clock that the tests set",
    "tests/unit/test_workers.py": "a task that is to use up the processor time it may have",
    "tests/unit/test_reading_cost.py": PROCESSOR,
    "tests/unit/test_robots_bounds.py": PROCESSOR,
}


def readings(source: str) -> Iterator[tuple[int, str]]:
    """The lines that read a stopwatch, or compare the time of day in an assertion; what `clock` says is injected."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in STOPWATCHES and isinstance(node.ctx, ast.Load):
            if not ast.unparse(node.value).endswith("clock"):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in STOPWATCHES)
        elif isinstance(node, ast.Assert):
            called = [one for one in ast.walk(node.test) if isinstance(one, ast.Call)]
            yield from ((node.lineno, "time.time()") for one in called if ast.unparse(one.func) == "time.time")


def test_no_test_asserts_a_time() -> None:
    """Test modules measure no time, but those that are exempt for a reason."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for line, what in readings(path.read_text(encoding="utf-8")):
            found.setdefault(path.relative_to(ROOT).as_posix(), []).append(f"{line}: {what}")
    assert {path: lines for path, lines in found.items() if path not in EXEMPT} == {}
    assert set(EXEMPT) <= set(found), "an exemption that nothing needs is to go"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("began = time.monotonic()", 1),
        ("times = [seen.monotonic for seen in site.log]", 1),
        ("from time import perf_counter", 1),
        ("assert time.time() < began + 5", 1),
        ("now = time.time()", 0),
        ("until = daemon.clock.monotonic() + 5", 0),
        ("self.monotonic = 5.0", 0),
    ],
)
def test_the_rule_sees_every_stopwatch(source: str, count: int) -> None:
    """Clocks of the machine and notes of them are found; a clock that is handed in is not."""
    assert len(list(readings(source))) == count
