"""The state of a fleet as its database has it, and the draining of a worker."""

import json
from collections.abc import Mapping
from typing import Any

from crawld.fleet.store import statements
from crawld.fleet.store.ledger import FIGURES, LedgerReader
from crawld.fleet.view import FleetView, WorkerState, WorkerView
from crawld.model.errors import InputError
from crawld.model.shards import LIMITS as SHARDS_LIMITS
from crawld.show.report import Status


class FleetStanding(LedgerReader):
    """Reads the fleet's tables."""

    async def is_fleet(self) -> bool:
        """Tells whether the database is a fleet's."""
        return await self._line.fleet() is not None

    async def read(self) -> FleetView:
        """The fleet now; StoreError where the database is no fleet's."""
        await self._line.known_fleet()
        (found,) = await self._line.rows(statements.VIEW)
        latest = "SELECT number, cleared_at, level FROM fleet_rounds ORDER BY number DESC LIMIT 1"
        now, last = found["now"], await self._line.row(latest)
        return FleetView(
            now=now,
            shards=found["shards"],
            bandwidth=found["made_with"] if found["steered"] is None else found["steered"],
            paused=found["paused"],
            workers=[
                _worker(row, now) for row in await self._line.rows(statements.WORKERS, SHARDS_LIMITS.round_seconds)
            ],
            round_at=None if last is None else last["cleared_at"],
            level=None if last is None else last["level"],
            mail=found["mail"],
            revision=found["revision"],
        )

    async def holder(self, shard: int) -> str | None:
        """The name of the live worker that holds a shard."""
        found = await self._line.row(statements.HOLDER, shard)
        return None if found is None else str(found["name"])

    async def count_pages(self) -> int:
        """About how many pages there are: what workers hold, or the server's own count where that is more."""
        found = await self._line.row(statements.COUNT_PAGES)
        counted = 0 if found is None else max(int(found["pages"]), 0)
        return max(counted, sum(worker.pages for worker in (await self.read()).live))

    async def drain(self, worker: str, *, draining: bool) -> int:
        """Have a live worker, by name or id, give its shards away or hold some again; how many it holds.

        InputError where there is none of that name.
        """
        await self._line.known_fleet()
        found = await self._line.rows(statements.DRAIN, worker, draining)
        if not found:
            names = sorted({one.name for one in (await self.read()).live})
            there = f"there are {', '.join(names)}" if names else "none runs"
            raise InputError(f"no live worker is called {worker}: {there}")
        return sum(row["held"] for row in found)


def _worker(row: Mapping[str, Any], now: float) -> WorkerView:
    state = _state(row, now)
    live = state not in {"lost", "left"}
    return WorkerView(
        id=row["id"],
        name=row["name"],
        state=state,
        joined_at=row["joined_at"],
        seen_at=row["seen_at"] if state != "left" else row["ended_at"],
        shards=row["held"] if live else 0,
        granted=(row["rate"] or 0.0) if live else 0.0,
        duties=tuple(row["duties"]) if live else (),
        **{name: figure for name, figure in json.loads(row["report"]).items() if name in FIGURES},
        status=None if row["status"] is None else Status.of(json.loads(row["status"])),
    )


def _state(row: Mapping[str, Any], now: float) -> WorkerState:
    if row["ended_at"] is not None and not row["lost"]:
        return "left"
    if row["ended_at"] is not None or row["expires"] <= now:
        return "lost"
    if row["draining"]:
        return "draining" if row["held"] else "drained"
    return "live"
