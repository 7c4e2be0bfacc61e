"""The driver of what is pushed: answers at once, checks keys and asks hubs within the share of signals."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol

from crawld.crawl.polls import Polls, in_slices
from crawld.model.errors import TooCostlyError
from crawld.model.signal import Claimed, KeyCheck, PushAnswer, Source
from crawld.model.web import Clock, Workers
from crawld.signals.polled_sources import PollResult
from crawld.signals.push_inbox import PushInbox
from crawld.signals.websub import Subscriptions

P = ParamSpec("P")
"""Payer of the reading of pushes, all senders together; no host has such a name."""


class Others(Protocol):
    """Holders of pages and feeds that are not held here."""

    async def pass_on(self, changes: Sequence[Claimed]) -> None:
        """Tell of changes that reached us."""

    async def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str] | None:
        """Answer a hub's question about a feed of theirs; None where it is not theirs."""

    async def deliver(self, token: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Answer a hub that delivers a feed of theirs, and have it polled; None where it is not theirs."""


@dataclass(slots=True)
class Pushes:
    """What the API hands over from outside."""

    pings: PushInbox
    polls: Polls
    clock: Clock
    workers: Workers
    hubs: Subscriptions | None = None  # None where hubs could not reach us
    others: Others | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def post_signals(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """`POST /signals`: status and JSON to answer."""
        return await self._read("(pings)", self.pings.read_signals, body, self.clock.now())

    async def get_indexnow(self, query: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's GET: status and JSON to answer."""
        return await self._take(self.pings.get_indexnow(query, self.clock.now()))

    async def post_indexnow(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's POST: status and JSON to answer."""
        return await self._read("(IndexNow)", self.pings.read_indexnow, body)

    async def _read(
        self, payer: str, read: Callable[P, Any], *given: P.args, **named: P.kwargs
    ) -> tuple[int, Mapping[str, Any]]:
        """Read a ping in a worker and take it in."""
        try:
            ping = await self.workers.run(payer, read, *given, **named)
        except TooCostlyError as error:
            return 413, {"error": f"{error}: send it in parts"}
        return await self._take(await in_slices(self.pings.take(ping, self.clock.now())))

    async def _take(self, answer: PushAnswer) -> tuple[int, Mapping[str, Any]]:
        await self.polls.take_all(answer.signals)
        if self.others is not None and answer.unknown:
            await self.others.pass_on([(url, Source.PING, claimed_at) for url, claimed_at in answer.unknown])
        if answer.check is not None:
            self._start(self._check(answer.check))
        return answer.status, answer.body

    async def _check(self, check: KeyCheck) -> None:
        outcome = await self.polls.ask(check.request)
        await self.polls.take_all(self.pings.key_checked(check, outcome, self.clock.now()))

    async def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str]:
        """A hub's question whether we meant it: status and text to answer."""
        answer = (404, "") if self.hubs is None else self.hubs.confirm(token, query, self.clock.now())
        if answer[0] == 404 and self.others is not None:
            return await self.others.confirm(token, query) or answer
        return answer

    async def deliver(self, token: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        """A hub's delivery: status and text to answer. Names of headers are in lower case."""
        if self.hubs is None:
            return 404, ""
        status, text, delivery = self.hubs.accept(token, body, headers, self.clock.now())
        if status == 410 and self.others is not None:
            return await self.others.deliver(token, body, headers) or (status, text)
        if delivery is not None:
            try:
                reading = await self.workers.run(delivery.host, delivery.read, self.clock.now())
            except TooCostlyError as error:
                return 413, str(error)
            result = await in_slices(self.hubs.take(delivery.url, reading, self.clock.now()))
            await self.polls.take_in_slices(result)
            await self._tell_others(result)
        return status, text

    async def follow(self, result: PollResult) -> None:
        """Pass on what concerns others, and ask hubs: the one that a feed offers, and those whose leases end."""
        await self._tell_others(result)
        if self.hubs is None:
            return
        now = self.clock.now()
        asked = self.hubs.subscribe(result.polls[0].file.url, result.hubs, result.topic, now) if result.polls else None
        for request in [*([asked] if asked else []), *self.hubs.renewals(now)]:
            self._start(self.polls.ask(request))  # the hub calls back, whatever it answers

    async def _tell_others(self, result: PollResult) -> None:
        if self.others is not None and result.elsewhere:
            await self.others.pass_on(result.elsewhere)

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
