"""Asking a fleet what a daemon is asked over its control socket: the same paths, answered from the database."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from crawld.fleet.pacing import DatabaseClock, DatabaseTime
from crawld.fleet.steering import FleetSteering
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.fleet.store.standing import FleetStanding
from crawld.main.checks import terms_of
from crawld.main.settings import Settings
from crawld.model.clock import SystemClock
from crawld.show.api.commands import answer
from crawld.store.read_model import SqlReadModel

Body = dict[str, Any]
WHO = "command line"


async def is_fleet(database: str) -> bool:
    """Tells whether a PostgreSQL database is a fleet's."""
    async with FleetStanding(database) as standing:
        return await standing.is_fleet()


def ask_fleet(settings: Settings, method: str, path: str, body: Body | None) -> Body:
    """One question to the fleet of these settings; a refusal is raised in its own words."""
    found = asyncio.run(_answer(settings, method, urlsplit(path), body or {}))
    answer: Body = json.loads(json.dumps(found))
    return answer


async def _answer(settings: Settings, method: str, asked: SplitResult, body: Body) -> Any:
    if asked.path == "/v1/changes":
        return await _changes(settings, {name: values[-1] for name, values in parse_qs(asked.query).items()})
    async with steering(settings) as control:
        match method, asked.path:
            case "GET", "/v1/status":
                return (await control.status()).document()
            case "POST", "/v1/bandwidth":
                await control.change_bandwidth(float(body["rate"]))
                return (await control.status()).document()
            case "POST", "/v1/pause" | "/v1/resume":
                await control.pause(paused=asked.path == "/v1/pause")
                return (await control.status()).document()
            case "POST", "/v1/refresh":
                done = await control.actions.act(WHO, "refresh", body)
                return {"pages": [asdict(one) for one in done.result]}
        return await answer(control, WHO, method, asked, body)


@asynccontextmanager
async def steering(settings: Settings) -> AsyncIterator[FleetSteering]:
    """The control of the fleet of these settings."""
    async with database_clock(settings) as (store, clock):
        yield FleetSteering(store, terms_of(settings), clock)


@asynccontextmanager
async def database_clock(settings: Settings) -> AsyncIterator[tuple[SqlFleetStore, DatabaseClock]]:
    """The store of the fleet of these settings, and a clock that shows its database's time."""
    clock = DatabaseClock()
    store = SqlFleetStore(settings.database, clock.monotonic)
    await store.start()
    try:
        asked = clock.monotonic()
        now = (await store.view()).now
        clock.follow(DatabaseTime(asked, clock.monotonic(), now))  # what is written is stamped by the database
        yield store, clock
    finally:
        await store.close()


async def _changes(settings: Settings, query: dict[str, str]) -> Body:
    """Changes after a cursor; with `wait`, the database is looked at until there are some."""
    clock = SystemClock()
    until = clock.monotonic() + float(query.get("wait", 0))
    async with SqlReadModel(settings.database, clock) as model:
        latest = query["after"] == "now"
        cursor = (await model.latest_changes(limit=1)).cursor if latest else int(query["after"])
        while True:
            found = await model.changes(cursor, int(query.get("limit", 100)))
            if latest or found.changes or found.missed or clock.monotonic() >= until:
                return asdict(found)
            await asyncio.sleep(1.0)  # until the database is looked at again
