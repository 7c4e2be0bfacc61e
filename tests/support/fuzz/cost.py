"""What parsing one input costs in processor time and memory, measured in a process of its own, and what is too much.

Up to 256 KB an input may cost 100 ms and 32 MB, a larger one as much more as it is larger: reading a large file takes
its time, but no byte may cost more than another. What runs on the event loop may take 25 ms whatever the size.
"""

import gc
import json
import multiprocessing
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from crawld.model.errors import ParseError
from tests.support.fuzz.bombs import BOMBS, LINES, LISTS, RULES, Bomb
from tests.support.fuzz.parsers import PARSERS

MOST_SECONDS, MOST_BYTES, PER_SIZE = 0.1, 32 * 2**20, 256 * 1024
MOST_SECONDS_ON_LOOP = 0.025
LONGEST_WAIT = 30.0
"""Seconds after which an input that has not been parsed is a fault, and its process is ended."""
FIRST_SIZE = 8_192
_PEAK = re.compile(rb"VmHWM:\s+(\d+) kB")
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

OF_PARSER: Mapping[str, Mapping[str, Bomb]] = {
    **{name: BOMBS for name in PARSERS if name.startswith(("page", "feeds", "head of", "refresh of"))},
    "sitemap": LISTS | BOMBS,
    "feed": LISTS | BOMBS,
    "robots": RULES,
    "encodings": LISTS,
    "headers": LINES | RULES,
    "dates": LINES,
    "cookies": LINES,
    "pings": LINES | LISTS,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What an input of that size cost a parser."""

    parser: str
    name: str
    size: int
    seconds: float
    memory: int
    error: str | None = None

    @property
    def fault(self) -> str | None:
        """Why this is too much; None where it is not."""
        larger = max(1.0, self.size / PER_SIZE)
        most = MOST_SECONDS_ON_LOOP if PARSERS[self.parser].on_loop else MOST_SECONDS * larger
        label = f"{self.parser}, {self.name}, {self.size:,} bytes"
        if self.error is not None:
            return f"{label}: {self.error}"
        if self.seconds > most:
            return f"{label}: {self.seconds * 1000:.0f} ms, more than {most * 1000:.0f}"
        if self.memory > MOST_BYTES * larger:
            return f"{label}: {self.memory / 2**20:.0f} MB, more than {MOST_BYTES * larger / 2**20:.0f}"
        return None


def measure(parser: str, name: str, body: bytes) -> Cost:
    """Give an input to a parser. What seems too much is measured again: another process may have been in the way."""
    best: Cost | None = None
    for _ in range(3):
        cost = _measured(parser, name, body)
        if best is None or cost.seconds < best.seconds:
            best = cost
        if best.fault is None or best.error is not None:
            break
        gc.collect()
    assert best is not None
    return best


def _measured(parser: str, name: str, body: bytes) -> Cost:
    before = _reset_peak()
    began = time.process_time()
    error, counted = None, None
    try:
        counted = PARSERS[parser].parse(body)
    except ParseError:
        pass  # refused by name
    except Exception as raised:  # noqa: BLE001 - finding these is what the run is for
        error = f"{type(raised).__name__}: {raised}"
    seconds = counted if isinstance(counted, float) else time.process_time() - began
    return Cost(parser, name, len(body), seconds, max(0, _peak() - before), error)


def _reset_peak() -> int:
    """Let the peak of this process's memory begin anew; returns where it begins."""
    _CLEAR.write_text("5")
    return _peak()


def _peak() -> int:
    found = _PEAK.search(_STATUS.read_bytes())
    return int(found[1]) * 1024 if found else 0


def bombs(largest: int, only: str | None = None, first: int = FIRST_SIZE) -> Iterator[Cost]:
    """Every bomb for every parser, each four times as large as the last, up to what a fetch may bring."""
    for parser, of_parser in OF_PARSER.items():
        if only is not None and only != parser:
            continue
        waiting = list(of_parser)
        while waiting:
            yield from _in_a_process(parser, waiting, first, min(largest, PARSERS[parser].largest))


def _in_a_process(parser: str, waiting: list[str], first: int, largest: int) -> Iterator[Cost]:
    """Measure what waits, and take it off the list; an input without an end ends the process, and the list goes on."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_serve, args=(there, parser, tuple(waiting), first, largest), daemon=True)
    child.start()
    there.close()
    try:
        while waiting:
            if not here.poll(LONGEST_WAIT):
                yield Cost(parser, waiting.pop(0), largest, LONGEST_WAIT, 0, f"no end within {LONGEST_WAIT:.0f} s")
                return
            try:
                said = json.loads(here.recv_bytes())
            except EOFError:
                yield Cost(parser, waiting.pop(0), largest, 0.0, 0, "the process ended")
                return
            if said is None:
                waiting.pop(0)
            else:
                yield Cost(**said)
    finally:
        child.kill()
        child.join()


def _serve(answers: Connection, parser: str, names: tuple[str, ...], first: int, largest: int) -> None:
    """Measure bombs in this process, each until it is too much or as large as it may be."""
    _measured(parser, "warm", b"<p>1 word</p>")
    for name in names:
        size = first
        while True:
            size = min(size, largest)
            cost = measure(parser, name, OF_PARSER[parser][name](size))
            answers.send_bytes(json.dumps(asdict(cost)).encode())
            if cost.fault is not None or size >= largest:
                break
            size *= 4
        answers.send_bytes(b"null")
