"""Only `crawld.model.clock` reads time; all else is told what time it is, so that tests and simulations decide it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
READS_TIME = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
"""Processor time (`thread_time`) is not among them: it says what something cost, not what time it is."""
READS_WITHOUT_ARGUMENTS = {f"time.{name}" for name in ("gmtime", "localtime", "ctime", "asctime")}
READS_DATETIME = tuple(f"{kind}.{name}" for kind in ("datetime", "date") for name in ("now", "utcnow", "today"))
EXEMPT = {
    "crawld/model/clock.py": "the clock",
    "crawld/cli": "a command is a process of its own that tells people about this moment, and passes it on as `now`",
    "crawld/show/api": "hands the monotonic clock to bounds on strangers and connections, whose tests hand in another",
}
BY_THE_LOOP = {
    "crawld/fetch": "deadlines and turns of connections go by the event loop's own clock, which ends them",
    "crawld/read/workers": "so do those of the processes that read answers",
}


def reads(source: str) -> Iterator[tuple[int, str]]:
    """Where a module reads a clock, and which: `wall` for one of its own, `loop` for that of the event loop."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from ((node.lineno, "wall") for name in node.names if name.name in READS_TIME)
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if node.attr == "time" and owner.endswith(("loop", "_loop()")):
                yield node.lineno, "loop"
            elif (owner == "time" and node.attr in READS_TIME) or f"{owner}.{node.attr}".endswith(
                tuple(READS_DATETIME)
            ):
                yield node.lineno, "wall"
        elif isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in READS_WITHOUT_ARGUMENTS:
            yield node.lineno, "wall"


def exempt(path: str, clock: str) -> bool:
    """Whether a module may read that clock."""
    return path.startswith(tuple(EXEMPT)) or (clock == "loop" and path.startswith(tuple(BY_THE_LOOP)))


def test_nothing_else_reads_time() -> None:
    """No module reads a clock but those that are exempt for a reason."""
    found = [
        f"{path.relative_to(ROOT)}:{line} reads the {clock} clock: take `now` or a Clock as an argument"
        for path in sorted((ROOT / "crawld").rglob("*.py"))
        for line, clock in reads(path.read_text(encoding="utf-8"))
        if not exempt(path.relative_to(ROOT).as_posix(), clock)
    ]
    assert not found, "\n".join(found)


def test_every_exemption_is_used() -> None:
    """An exemption that nothing needs any more is to go."""
    for place in {**EXEMPT, **BY_THE_LOOP}:
        files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
        assert any(True for file in files for _ in reads(file.read_text(encoding="utf-8"))), place


def test_the_rule_sees_every_way_to_read_time() -> None:
    """Calls, references and imports are found; a time that is given is not."""
    seen = {
        "import time\nx = time.time()": 1,
        "import time\nf(clock=time.monotonic)": 1,
        "from time import monotonic": 1,
        "from datetime import datetime, UTC\nx = datetime.now(UTC)": 1,
        "import datetime\nx = datetime.date.today()": 1,
        "import time\nx = time.gmtime()": 1,
        "import asyncio\nx = asyncio.get_running_loop().time()": 1,
        "import time\nx = time.gmtime(5.0), time.thread_time()": 0,
        "from datetime import datetime\nx = datetime.fromtimestamp(5)": 0,
        "def f(clock): return clock.now() + clock.monotonic()": 0,
    }
    assert {source: len(list(reads(source))) for source in seen} == seen
