"""Reads bodies: in place where that is cheap, several in one message to a worker where they come together.

A message to a worker costs the event loop 100 µs, and eight bodies in one cost it 24 µs each; to read 10 kB in place
costs it some 250.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from crawld.crawl.judge import is_simple, read, read_apart
from crawld.fetch.body import LIMITS as BODY_LIMITS
from crawld.model.crawl import HostNoise, Memory
from crawld.model.errors import CrawldError, TooCostlyError
from crawld.model.fetched import Fetched
from crawld.model.web import Workers
from crawld.read.change.comparison import NO_NOISE
from crawld.read.page.cost import is_cheap
from crawld.read.page.digest import Reading, raw_hash, read_bytes
from crawld.read.page.documents import is_pdf
from crawld.read.page.rules import DigestRule

FirstCopy = tuple[str, bytes, str | None, float]
"""A body that is compared with nothing: its address, its bytes, their type and when it was asked for."""


@dataclass(frozen=True)
class ReadingsLimits:
    """Numbers that bound and tune this module."""

    in_message: int = 8
    """Bodies in one message: read in a few milliseconds, far from what a task of the short lane may take."""
    messages: int = 8
    """Messages under way; what comes beyond is read in place, since the workers are behind."""


LIMITS = ReadingsLimits()
log = logging.getLogger("crawld.crawl")


@dataclass(slots=True)
class _Waiting:
    """A body that waits for the end of the loop's turn; None as the answer: it is to be read in place."""

    copy: FirstCopy
    rule: DigestRule
    answer: asyncio.Future[Reading | None]


class Readings:
    """Reads the bodies of answers."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._waiting: list[_Waiting] = []
        self._messages: set[asyncio.Task[None]] = set()
        self._answering = False  # whether a worker answered last time: until one has started, nothing waits for it

    async def read(
        self,
        host: str,
        outcome: Fetched,
        memory: Memory | None,
        rule: DigestRule,
        at: float,
        noise: HostNoise = NO_NOISE,
    ) -> Reading:
        """What a body is, compared with what is remembered of its page.

        1. Its very bytes were read before: as they were.
        2. It is cheap whatever is in it, and the first of its page: with others that come in this turn of the loop,
           or in place where none comes or the workers are behind.
        3. It is cheap, and so is comparing it: in place.
        4. Otherwise in a worker, alone. A PDF that takes too long is compared by its bytes.
        """
        body, raw = outcome.body, outcome.raw
        if memory is not None and rule.scheme == memory.digest.scheme:
            if raw is None and len(body) <= BODY_LIMITS.hashed_in_place:
                raw = raw_hash(body)
            if raw == memory.digest.raw:
                return Reading(memory.digest)
        content_type = outcome.headers.get("content-type")
        if is_cheap(body):
            copy = (outcome.url, body, content_type, at)
            if memory is None and (first := await self._with_others(copy, rule)) is not None:
                return first
            reading = read(outcome, memory, rule, at, raw)
            if is_simple(reading, memory):
                return reading
        try:
            return await self._workers.run(host, read_apart, outcome.url, body, content_type, memory, rule, at, noise)
        except TooCostlyError:
            if not is_pdf(body, content_type):
                raise
            return read_bytes(body, rule)

    async def _with_others(self, copy: FirstCopy, rule: DigestRule) -> Reading | None:
        """Wait for the end of the turn and for a worker; None where the body is to be read in place."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._end_turn)
        waiting = _Waiting(copy, rule, loop.create_future())
        self._waiting.append(waiting)
        return await waiting.answer

    def _end_turn(self) -> None:
        """Send what has come, as far as the workers keep up; the rest, and what came alone, is to be read in place."""
        waiting, self._waiting = self._waiting, []
        by_rule: dict[int, list[_Waiting]] = {}
        for one in waiting:
            if not one.answer.done():  # else its asker is gone
                by_rule.setdefault(id(one.rule), []).append(one)
        if len(waiting) > 1 and not self._answering and not self._messages:
            self._start((), waiting[0].rule)
        for alike in by_rule.values():
            for start in range(0, len(alike), LIMITS.in_message):
                some = alike[start : start + LIMITS.in_message]
                if len(some) > 1 and self._answering and len(self._messages) < LIMITS.messages:
                    self._start(some, some[0].rule)
                else:
                    _answer(some, ())

    def _start(self, waiting: Sequence[_Waiting], rule: DigestRule) -> None:
        message = asyncio.get_running_loop().create_task(self._send(waiting, rule))
        self._messages.add(message)
        message.add_done_callback(self._messages.discard)

    async def _send(self, waiting: Sequence[_Waiting], rule: DigestRule) -> None:
        """Have bodies read in one message; where that fails, each is to be read in place. One of none is a probe."""
        readings: Sequence[Reading] = ()
        try:
            readings = await self._workers.run("", read_several, [one.copy for one in waiting], rule)
            self._answering = True
        except (CrawldError, RuntimeError) as error:
            self._answering = False
            log.debug("a message of several bodies failed: %s", error)
        finally:
            _answer(waiting, readings)


def read_several(copies: Sequence[FirstCopy], rule: DigestRule) -> Sequence[Reading]:
    """Read bodies in another process, each as the first copy of its page."""
    return [read_apart(url, body, content_type, None, rule, at) for url, body, content_type, at in copies]


def _answer(waiting: Sequence[_Waiting], readings: Sequence[Reading]) -> None:
    for one, reading in zip_longest(waiting, readings[: len(waiting)]):
        if not one.answer.done():
            one.answer.set_result(reading)
