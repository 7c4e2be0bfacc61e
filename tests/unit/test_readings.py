"""Bodies that come together are read in one message to a worker, with what each would be if it were read alone."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from crawld.crawl.judge import read_apart
from crawld.crawl.readings import LIMITS, Readings, read_several
from crawld.model.errors import TooCostlyError
from crawld.model.fetched import Fetched
from crawld.read.page.digest import Reading
from crawld.read.page.rules import DigestRule
from tests.support.in_place import InPlace

P = ParamSpec("P")
T = TypeVar("T")
RULE = DigestRule()


class Counted(InPlace):
    """Workers that count their messages; they fail where they are `broken`, and wait until they are `free`."""

    def __init__(self, *, broken: Exception | None = None) -> None:
        self.messages: list[str] = []
        self.broken = broken
        self.free = asyncio.Event()
        self.free.set()

    async def run(self, payer: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Do the work when they are free."""
        self.messages.append(work.__name__)
        await self.free.wait()
        if self.broken is not None:
            raise self.broken
        return work(*given, **named)


async def _ready(workers: Counted) -> Readings:
    """Readings that know that their workers have started."""
    readings = Readings(workers)
    broken, workers.broken = workers.broken, None
    await _read(readings, 2)
    await asyncio.sleep(0)
    assert workers.messages == ["read_several"], "a probe of no bodies"
    workers.messages.clear()
    workers.broken = broken
    return readings


def _answer(number: int) -> Fetched:
    body = f"<html><head><title>Page {number}</title></head><body><p>Text of page {number}.</p></body></html>"
    return Fetched(f"https://a.example/{number}", 200, body.encode(), {"content-type": "text/html"})


async def _read(readings: Readings, count: int) -> list[Reading]:
    answers = map(_answer, range(count))
    return await asyncio.gather(*(readings.read("a.example", one, None, RULE, 5.0) for one in answers))


def _expected(number: int) -> Reading:
    one = _answer(number)
    return read_apart(one.url, one.body, "text/html", None, RULE, 5.0)


async def test_bodies_of_one_turn_share_messages() -> None:
    """Bodies that come in one turn of the loop go out in few messages, and each gets its own reading."""
    workers = Counted()
    found = await _read(await _ready(workers), 2 * LIMITS.in_message)
    assert workers.messages == ["read_several"] * 2
    assert found == [_expected(number) for number in range(2 * LIMITS.in_message)]


async def test_a_lone_body_is_read_in_place() -> None:
    """A body that comes alone needs no worker."""
    workers = Counted()
    (found,) = await _read(Readings(workers), 1)
    assert workers.messages == []
    assert found.digest == _expected(0).digest


@pytest.mark.parametrize("error", [TooCostlyError("it took too much"), RuntimeError("KeyError: 1")])
async def test_a_failed_message_costs_no_page(error: Exception) -> None:
    """Where a message fails, its bodies are read in place."""
    workers = Counted(broken=error)
    found = await _read(await _ready(workers), 3)
    assert workers.messages == ["read_several"]
    assert [one.digest for one in found] == [_expected(number).digest for number in range(3)]


async def test_an_answer_too_short_costs_no_page() -> None:
    """A worker that answers for fewer bodies than it was given is not believed to have read the others."""

    class Short(Counted):
        async def run(self, payer: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
            found = await super().run(payer, work, *given, **named)
            return found[:1] if work.__name__ == read_several.__name__ else found  # type: ignore[index]

    found = await _read(await _ready(Short()), 3)
    assert [one.digest for one in found] == [_expected(number).digest for number in range(3)]


async def test_workers_that_are_behind_get_no_more() -> None:
    """Beyond so many messages under way bodies are read in place at once."""
    workers = Counted()
    readings = await _ready(workers)
    workers.free.clear()
    busy = asyncio.create_task(_read(readings, LIMITS.messages * LIMITS.in_message))
    while len(workers.messages) < LIMITS.messages:
        await asyncio.sleep(0)
    found = await _read(readings, 3)
    assert len(workers.messages) == LIMITS.messages
    assert not busy.done()
    assert [one.digest for one in found] == [_expected(number).digest for number in range(3)]
    workers.free.set()
    assert len(await busy) == LIMITS.messages * LIMITS.in_message


async def test_whoever_is_cancelled_keeps_nobody_waiting() -> None:
    """A crawl that is given up before its message comes back leaves the others theirs."""
    workers = Counted()
    readings = await _ready(workers)
    workers.free.clear()
    first, second = (asyncio.create_task(readings.read("a.example", _answer(n), None, RULE, 5.0)) for n in range(2))
    while not workers.messages:
        await asyncio.sleep(0)
    first.cancel()
    workers.free.set()
    assert (await second) == _expected(1)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_nothing_waits_for_workers_that_have_yet_to_start() -> None:
    """Until a worker has answered, bodies are read in place."""
    workers = Counted()
    workers.free.clear()
    readings = Readings(workers)
    for _ in range(3):
        found = await _read(readings, 3)
        assert [one.digest for one in found] == [_expected(number).digest for number in range(3)]
    assert workers.messages == ["read_several"], "a probe of no bodies"
    workers.free.set()
